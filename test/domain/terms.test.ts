// 24 periods of random customers (test/fixtures/random-life.ts), compared with a model.
import fc from 'fast-check';
import t from 'tap';
import { isLong } from '../fixtures/long.ts';
import { customer, play } from '../fixtures/random-life.ts';

void t.test(
  'any 24 periods: never above the ceiling, one payment per period, the fee of the collected amount, each payment announced once, access as promised',
  (t) => {
    const outcomes = new Set<string>();
    fc.assert(
      fc.property(customer, (given) => {
        const { lives, acts } = play(given);
        for (const act of acts) outcomes.add(act);
        for (const { row, pulls, announced } of lives) {
          outcomes.add(`${row.status}${row.pausedAt === null ? '' : ' paused'}`);
          if (pulls.length >= 12) outcomes.add('paid often');
          if (announced.size >= 12) outcomes.add('announced often');
          if (row.discountPeriods === 0) outcomes.add('discount used up');
        }
      }),
      { numRuns: Number(process.env.TEST_RUNS ?? (isLong ? 3000 : 800)) },
    );
    for (const outcome of [
      ...['active', 'active paused', 'cancelled', 'expired', 'paid often', 'announced often'],
      ...['discount used up', 'otherPlan', 'refund'],
    ])
      t.ok(outcomes.has(outcome), `it came to ${outcome}`);
    t.end();
  },
);
