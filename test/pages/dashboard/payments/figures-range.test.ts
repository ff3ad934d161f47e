// The range of the overview's figures in the fragment of the URL.
import t from 'tap';
import { datesOf } from '../../../../src/pages/dashboard/parts/presets.ts';
import { readRange } from '../../../../src/pages/dashboard/payments/figures-range.ts';

const now = new Date('2026-11-26T15:00:00Z');
const read = (filters: Record<string, string>) => {
  const { choice, daysAt, problem } = readRange(filters);
  const days = daysAt?.(now);
  return [choice, days && datesOf(days).join(' '), problem];
};

void t.test('figures cover the last 30 days unless the URL names another offered range', (t) => {
  t.same(read({ days: '7' }), [7, '2026-11-20 2026-11-26', undefined]);
  t.same(read({ days: '365' }), [365, '2025-11-27 2026-11-26', undefined]);
  for (const filters of [{}, { days: '8' }, { days: 'x' }, { plan: 'p' }])
    t.same(read(filters), [30, '2026-10-28 2026-11-26', undefined]);
  t.end();
});

void t.test(
  'a custom range needs both days in order, and at most as many as the API accepts',
  (t) => {
    t.same(read({ from: '2026-01-05', to: '2026-01-05' }), [
      'own',
      '2026-01-05 2026-01-05',
      undefined,
    ]);
    t.same(read({ from: '2024-01-01', to: '2024-12-31', days: '7' }), [
      'own',
      '2024-01-01 2024-12-31',
      undefined,
    ]);
    const order = 'The first day must not be after the last one.';
    t.same(read({ from: '2026-01-06', to: '2026-01-05' }), ['own', undefined, order]);
    const most = 'Choose at most 366 days.';
    t.same(read({ from: '2025-01-01', to: '2026-01-02' }), ['own', undefined, most]);
    const missing = 'Choose the first and the last day.';
    for (const filters of [
      { from: '2026-01-05' },
      { from: '', to: '' },
      { from: '2026-02-30', to: '2026-03-01' },
      { from: '2026-01-05T00:00:00Z', to: '2026-13-01' },
    ])
      t.same(read(filters), ['own', undefined, missing]);
    t.end();
  },
);
