// The overview's movements of monthly recurring revenue lead from the start to the end.
import t from 'tap';
import { movementsOf } from '../../../../src/pages/dashboard/payments/movements.ts';

void t.test('each movement of revenue is shown once, with its sign', (t) => {
  const figures = {
    mrrBefore: '10',
    mrrNew: '5',
    mrrReactivation: '3',
    mrrExpansion: '2',
    mrrContraction: '1',
    mrrChurn: '4',
    mrr: '15',
  };
  const rows = movementsOf(figures, false);
  const parts = rows.slice(0, -1);
  const sum = parts.reduce(
    (so, { sign, units }) => so + (sign === '−' ? -1 : 1) * Number(units),
    0,
  );
  t.equal(String(sum), rows.at(-1)?.units);
  t.equal(rows.length, 7);
  const ofPlan = movementsOf(figures, true).map((row, index) => ({ ...row, place: index }));
  const differs = ofPlan.filter(({ place, meaning }) => meaning !== rows[place]?.meaning);
  t.same(
    differs.map(({ id }) => id),
    ['mrrExpansion', 'mrrContraction'],
    'a change of plan is another thing for one plan',
  );
  t.end();
});
