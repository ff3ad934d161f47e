// The alert rules and the dashboard are compared with the /metrics of the real daemons: an alert
// whose metric was renamed would never fire.
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { Registry } from 'prom-client';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { createMetrics } from '../../src/keeper/base/metrics.ts';
import { daemonEnv, daemons, startReady } from '../fixtures/daemons.ts';
import {
  deploy,
  EXPORTED,
  expressions,
  panels,
  RULE_FILES,
  rules,
} from '../fixtures/monitoring.ts';
import { readSamples, type Sample } from '../fixtures/samples.ts';

interface Matcher {
  label: string;
  operator: '=' | '!=' | '=~' | '!~';
  value: string;
}

interface Selector {
  metric: string;
  matchers: Matcher[];
}

/** Words of PromQL between selectors. */
const KEYWORDS = new Set(['and', 'or', 'unless', 'offset', 'bool']);

/**
 * The selectors of a valid expression, and every label that it names: promtool checks that it is
 * valid (monitoring.tools.ts).
 */
function readExpression(expr: string): { selectors: Selector[]; labels: string[] } {
  const labels: string[] = [];
  const rest = expr
    .replaceAll(/\b(?:by|without|on|ignoring)\s*\(([^)]*)\)/g, (_, names: string) => {
      labels.push(...names.split(',').map((name) => name.trim()));
      return '';
    })
    .replaceAll(/\[[^\]]*\]/g, '');
  // A name and its matchers. A name before a bracket is a function; `[6h:1m]` is a range.
  const found = /\b([a-z_:][\w:]*)\b(?!\s*\()(\{(?:[^}"]|"[^"]*")*\})?/gi;
  const selectors = [...rest.matchAll(found)]
    .filter(([, name = '']) => !KEYWORDS.has(name))
    .map(([, metric = '', braces = '']) => ({
      metric,
      matchers: [...braces.matchAll(/(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g)].map(
        ([, label = '', operator, value = '']) => ({
          label,
          operator: operator as Matcher['operator'],
          value,
        }),
      ),
    }));
  for (const { matchers } of selectors) labels.push(...matchers.map(({ label }) => label));
  return { selectors, labels };
}

/** Whether a selector matches a sample. A missing label counts as empty. */
function matches({ metric, matchers }: Selector, sample: Sample): boolean {
  return (
    metric === sample.metric &&
    matchers.every(({ label, operator, value }) => {
      const given = sample.labels[label] ?? '';
      if (operator === '=') return given === value;
      if (operator === '!=') return given !== value;
      return new RegExp(`^(?:${value})$`).test(given) === (operator === '=~');
    })
  );
}

/** The labels that Prometheus adds to every sample. */
const added = ['instance', 'job'];
/** Values that a healthy service does not show. */
const unseen: Partial<Record<string, string[]>> = { status: ['500'] };

/** The series that start with a merchant's first payment (src/keeper/base/metrics.ts). */
const withPayments: Sample[] = [
  ...['landed', 'failed'].map((outcome) => ({
    metric: 'billing_merchant_lamports_total',
    labels: { merchant: 'a', outcome },
  })),
  ...[
    ...['spent', 'reserved', 'out', 'returned', 'lost'].map((kind) => `lamports_${kind}`),
    'merchant_day_lamports',
    'merchant_out_budget_lamports',
  ].map((name) => ({ metric: `billing_sponsor_${name}`, labels: { merchant: 'a' } })),
];

/**
 * All three daemons, once each has said everything it can say at rest. One of two RPC endpoints is
 * down.
 */
async function scrape(t: Test): Promise<Sample[]> {
  const env = await daemonEnv(t);
  Object.assign(env, {
    SOLANA_RPC_URL: `http://127.0.0.1:1,${env.SOLANA_RPC_URL}`,
    SOLANA_WS_URL: `ws://127.0.0.1:1,${env.SOLANA_WS_URL}`,
  });
  const samples = await Promise.all(
    daemons.map(async (daemon) => {
      const running = await startReady(t, daemon, env);
      if (daemon === 'serve') {
        const { address } = JSON.parse(await running.line(/"address":.*"listening"/)) as {
          address: string;
        };
        await (await fetch(`${address}/healthz`)).text();
      }
      for (;;) {
        const found = readSamples(await (await fetch(`${running.metricsUrl}/metrics`)).text());
        const faults = found.some(
          ({ metric, labels }) => metric === 'billing_rpc_calls_total' && labels.outcome !== 'ok',
        );
        const endpoints = found.some(({ metric }) => metric === 'billing_keeper_endpoint_up');
        const answers = found.some(
          ({ metric }) => metric === 'billing_http_request_duration_seconds_count',
        );
        const months = found.some(({ metric }) => metric === 'billing_default_partition_rows');
        const complete = {
          serve: answers && faults,
          keeper: endpoints && faults,
          dispatch: months,
        };
        if (complete[daemon]) return found;
        await delay(50);
      }
    }),
  );
  return samples.flat();
}

void t.test(
  'every selector in rules and panels matches metrics and labels that the daemons export',
  async (t) => {
    const exported = Object.entries(EXPORTED).map(([metric, labels]) => ({ metric, labels }));
    const samples = [...(await scrape(t)), ...withPayments, ...exported];
    t.ok(samples.length > 200);
    for (const [label, values = []] of Object.entries(unseen)) {
      const withIt = samples.filter(({ labels }) => labels[label] !== undefined);
      t.ok(withIt.every(({ labels }) => /^\d{3}$/.test(labels[label] ?? '')));
      for (const value of values)
        samples.push(
          ...withIt.map(({ metric, labels }) => ({
            metric,
            labels: { ...labels, [label]: value },
          })),
        );
    }
    const known = new Set([...samples.flatMap(({ labels }) => Object.keys(labels)), ...added]);
    for (const { name, expr } of expressions) {
      const { selectors, labels } = readExpression(expr);
      t.ok(selectors.length > 0 || expr === 'vector(1)', name);
      for (const selector of selectors)
        t.ok(
          samples.some((sample) => matches(selector, sample)),
          `${name}: ${JSON.stringify(selector)}`,
        );
      for (const label of labels) t.ok(known.has(label), `${name}: ${label}`);
    }
    const shown = new Set(
      expressions.flatMap(({ expr }) => readExpression(expr).selectors.map(({ metric }) => metric)),
    );
    const base = (metric: string) => metric.replace(/_(bucket|sum|count)$/, '');
    const bases = new Set([...shown].map(base));
    for (const metric of new Set(
      samples.map(({ metric }) => base(metric)).filter((metric) => metric.startsWith('billing_')),
    ))
      t.ok(bases.has(metric), `${metric} is shown or watched`);
  },
);

void t.test('selectors of a PromQL expression are parsed into names, matchers and labels', (t) => {
  const expr =
    'max by (le, a) (rate(x{b=~"(c|d)}",e!="f"}[5m])) * 60 > 0.5 and on (g) y offset 5m or topk(3, z)';
  t.same(readExpression(expr), {
    selectors: [
      {
        metric: 'x',
        matchers: [
          { label: 'b', operator: '=~', value: '(c|d)}' },
          { label: 'e', operator: '!=', value: 'f' },
        ],
      },
      { metric: 'y', matchers: [] },
      { metric: 'z', matchers: [] },
    ],
    labels: ['le', 'a', 'g', 'b', 'e'],
  });
  const [sample = { metric: '', labels: {} }] = readSamples('x{a="b",c="d"} 1\n');
  for (const [text, expected] of [
    ['x', true],
    ['y', false],
    ['x{a="b"}', true],
    ['x{a="c"}', false],
    ['x{a=~"b|c",c!="b"}', true],
    ['x{a!~"b.*"}', false],
    ['x{e=""}', true],
  ] as const) {
    const [selector = { metric: '', matchers: [] }] = readExpression(text).selectors;
    t.equal(matches(selector, sample), expected, text);
  }
  t.end();
});

void t.test("each reason of a keeper's alert is explained in the runbook", async (t) => {
  const runbook = await readFile(new URL('../docs/runbook.md', deploy), 'utf8');
  const { alerts } = createMetrics(new Registry());
  const { values } = await alerts.get();
  t.ok(values.length > 20);
  // Those that have an alert, and so a section, of their own.
  const others = rules.find(({ alert }) => alert === 'BillingCollectionRefused');
  const own = /reason!~"([^"]+)"/.exec(others?.expr ?? '')?.[1]?.split('|') ?? [];
  for (const { labels } of values) {
    const reason = String(labels.reason);
    t.ok(own.includes(reason) || runbook.includes(`\`${reason}\``), reason);
  }
});

void t.test('every alert has a severity, a description and a link to the runbook', async (t) => {
  const runbook = await readFile(new URL('../docs/runbook.md', deploy), 'utf8');
  const sections = [...runbook.matchAll(/^### (\w+)$/gm)].map(([, name = '']) => name);
  t.same(
    sections.toSorted(),
    rules.map(({ alert }) => alert).toSorted(),
    'a section of the runbook for each alert, and none for another',
  );
  for (const { alert, labels, annotations, for: wait } of rules) {
    t.match(labels.severity, /^(page|ticket|none)$/, alert);
    t.match(wait ?? '0s', /^\d+[smh]$/, alert);
    t.ok((annotations.summary ?? '').length > 20, alert);
    t.equal(
      annotations.runbook_url,
      `{{ $externalLabels.docs }}/runbook.md#${alert.toLowerCase()}`,
    );
  }
});

void t.test(
  'Grafana panels have titles, do not overlap, and query the selected data source',
  async (t) => {
    t.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    const taken = new Set<string>();
    for (const { title, type, gridPos, targets = [] } of panels) {
      t.ok(title !== '' && (type === 'row') === (targets.length === 0), title);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          if (x >= 24 || taken.has(`${x} ${y}`)) t.fail(`${title} is in the way at ${x}, ${y}`);
          taken.add(`${x} ${y}`);
        }
      }
      t.equal(new Set(targets.map(({ refId }) => refId)).size, targets.length, title);
    }
    const text = await readFile(new URL('grafana/billing.json', deploy), 'utf8');
    t.same([...new Set([...text.matchAll(/"uid": "([^"]+)"/g)].map(([, uid]) => uid))].sort(), [
      '${datasource}',
      'billing',
    ]);
  },
);

void t.test(
  'alert links to the runbook are absolute, with the docs URL from Prometheus’s external labels',
  async (t) => {
    const { global, rule_files } = parse(
      await readFile(new URL('prometheus/prometheus.yaml', deploy), 'utf8'),
    ) as { global: { external_labels: { docs: string } }; rule_files: string[] };
    t.match(global.external_labels.docs, /^https:\/\/.*[^/]$/);
    t.same(rule_files, RULE_FILES);
  },
);
