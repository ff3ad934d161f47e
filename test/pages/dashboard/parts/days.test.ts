// The days by which the dashboard's lists are filtered.
import t from 'tap';
import { readDays } from '../../../../src/pages/dashboard/parts/days.ts';

void t.test('days are in UTC, and the last one is included', (t) => {
  for (const [filters, range] of [
    [{}, {}],
    [{ from: '', to: '' }, {}],
    [{ from: '2026-03-01' }, { since: '2026-03-01T00:00:00.000Z' }],
    [{ to: '2026-02-28' }, { until: '2026-03-01T00:00:00.000Z' }],
    [
      { from: '2026-12-31', to: '2026-12-31' },
      { since: '2026-12-31T00:00:00.000Z', until: '2027-01-01T00:00:00.000Z' },
    ],
  ] as const)
    t.match(readDays(filters), { range, problem: undefined }, JSON.stringify(filters));
  t.end();
});

void t.test('text that is not a date stays as typed and does not filter', (t) => {
  for (const from of ['2026-02-30', '0026-03-01', '1969-12-31', '2026-3-1', 'yesterday', '12026'])
    t.same(readDays({ from }), { first: from, last: '', range: {}, problem: undefined });
  t.end();
});

void t.test('a first day after the last day is an error that names both days', (t) => {
  const { problem } = readDays({ from: '2026-03-02', to: '2026-03-01' });
  t.match(problem, '2026-03-02');
  t.match(problem, '2026-03-01');
  t.end();
});
