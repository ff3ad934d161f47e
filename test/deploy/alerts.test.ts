// Each fault fires exactly its alert, and none fires in normal operation: by this project's
// evaluation. alerts.tools.ts has promtool judge the same.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { parse } from 'yaml';
import { scenarios, troubles, well } from '../fixtures/alert-scenarios.ts';
import { readSamples } from '../fixtures/promql.ts';
import { promql, type Series } from '../fixtures/promql-value.ts';

const rules = fileURLToPath(new URL('../../deploy/prometheus/alerts.yaml', import.meta.url));

void t.test('every alert has a trouble that it is tried with', async (t) => {
  const { groups } = parse(await readFile(rules, 'utf8')) as {
    groups: { rules: { alert: string }[] }[];
  };
  t.same(
    Object.keys(troubles),
    groups.flatMap(({ rules }) => rules.map(({ alert }) => alert)),
  );
  for (const [alert, changes] of Object.entries(troubles))
    for (const series of Object.keys(changes))
      t.ok(Object.hasOwn(well, series), `${alert}: ${series}`);
});

/** promtool's notation of a series, by the minute. */
function pointsOf(values: string): Series['points'] {
  return values
    .split(' ')
    .flatMap((part) => {
      const [, start = '', step = '0', count = '0'] =
        /^([\d.]+)([+-][\d.]+)?x(\d+)$/.exec(part) ?? [];
      return Array.from(
        { length: Number(count) + 1 },
        (_, n) => Number(start) + n * Number(step || 0),
      );
    })
    .map((value, minute) => ({ at: minute * 60, value }));
}

void t.test(
  'no alert fires in normal operation, and each fault fires exactly its alert',
  async (t) => {
    const { groups } = parse(await readFile(rules, 'utf8')) as {
      groups: { rules: { alert: string; expr: string; for?: string }[] }[];
    };
    const alerts = groups
      .flatMap(({ rules }) => rules)
      .map(({ alert, expr, for: wait = '0s' }) => ({
        alert,
        holds: promql(expr),
        wait: wait.endsWith('m') ? Number.parseInt(wait, 10) * 60 : Number.parseInt(wait, 10),
      }));
    const end = 3600;
    for (const { name, series, firing } of scenarios) {
      const recorded = Object.entries(series).flatMap(([text, values]) =>
        values === null
          ? []
          : readSamples(`${text} 0`).map((sample) => ({ ...sample, points: pointsOf(values) })),
      );
      const found = alerts.filter(({ holds, wait }) => {
        for (let at = end; at >= end - wait; at -= 60)
          if (holds(recorded, at).length === 0) return false;
        return true;
      });
      t.same(
        found.map(({ alert }) => alert),
        firing,
        name,
      );
    }
  },
);
