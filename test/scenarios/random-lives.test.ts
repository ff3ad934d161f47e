// 24 periods of random customers (test/fixtures/random-life.ts), compared with a model.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { START } from '../fixtures/keeper-subscription.ts';
import { proofOfLives } from '../fixtures/life-rows.ts';
import { isLong } from '../fixtures/long.ts';
import { type Customer, customer, play } from '../fixtures/random-life.ts';

const plan = { amount: 1000n, trialHours: 0, graceHours: null } as const;
/**
 * An end of a pause in the last minute of a period, 72 hours after the paid time: the next payment
 * is tried four seconds after it is due, and charged from then on.
 */
const UNPAUSED_AT_THE_END: Customer = {
  plan: { ...plan, periodHours: 24, collectionWindow: 0 },
  other: { ...plan, periodHours: 1, collectionWindow: 86_400 },
  steps: [
    { act: 'otherPlan', size: 0, after: 1 },
    { act: 'discount', size: 511_509, after: 0 },
    { act: 'wait', size: 0, after: 398 },
    { act: 'wait', size: 0, after: 517 },
    { act: 'wait', size: 0, after: 487 },
    { act: 'pause', size: 0, after: 363 },
    { act: 'refund', size: 1938, after: 443 },
    { act: 'wait', size: 0, after: 121 },
    { act: 'pauseUntilLate', size: 124_984, after: 755 },
  ],
};
/** A failover loses the attempt of a late first payment that used up the discount. */
const LATE_AND_LOST: Customer = {
  plan: { ...plan, periodHours: 168, collectionWindow: 0 },
  other: { ...plan, amount: 1001n, periodHours: 1, collectionWindow: 900 },
  steps: [
    { act: 'otherPlan', size: 0, after: 276 },
    { act: 'pause', size: 0, after: 129 },
    { act: 'wait', size: 0, after: 549 },
    { act: 'discount', size: 407_455, after: 751 },
    { act: 'wait', size: 0, after: 34 },
    { act: 'loseCommits', size: 95_067, after: 413 },
    { act: 'wait', size: 0, after: 612 },
    { act: 'wait', size: 0, after: 343 },
    { act: 'unpause', size: 0, after: 288 },
    { act: 'topUp', size: 105_658, after: 0 },
  ],
};

void t.test(
  'over 24 periods, each random subscription follows the rules for amounts, fees, notices and access, and the journal proves it',
  async (t) => {
    const outcomes = new Set<string>();
    let proved = 0;
    const breachesOf = await proofOfLives(t);
    await fc.assert(
      fc.asyncProperty(customer, async (given) => {
        const { lives, acts } = play(given);
        // The proof in Postgres takes longer than a life.
        proved += 1;
        if (!isLong || proved % 10 === 0) assert.deepEqual(await breachesOf(lives), []);
        for (const act of acts) outcomes.add(act);
        for (const { row, discount, pulls, announced, forgotten, coveredUntil } of lives) {
          if (coveredUntil > 0n) outcomes.add('covered without a payment');
          if (forgotten.size > 0) outcomes.add('charged twice');
          if (pulls.some(({ gross }) => gross * 2n <= row.amount)) outcomes.add('at most half');
          outcomes.add(`${row.status}${row.pausedAt === null ? '' : ' paused'}`);
          if (pulls.length >= 12) outcomes.add('paid often');
          if (announced.size >= 12) outcomes.add('announced often');
          if (pulls.some(({ at, periodStart }) => at % 900n === 0n && at > periodStart))
            outcomes.add('waited for a window');
          if (discount?.left === 0) outcomes.add('discount used up');
        }
      }),
      {
        numRuns: Number(process.env.TEST_RUNS ?? (isLong ? 3000 : 300)),
        examples: [[UNPAUSED_AT_THE_END], [LATE_AND_LOST]],
      },
    );
    for (const outcome of [
      ...['active', 'active paused', 'cancelled', 'expired', 'paid often', 'announced often'],
      ...['discount used up', 'otherPlan', 'refund', 'pauseUntilLate', 'loseCommits'],
      ...['charged twice', 'at most half', 'waited for a window'],
    ])
      t.ok(outcomes.has(outcome), `it came to ${outcome}`);
  },
);

void t.test('the rest of a period counts as paid if its price rounds to zero', (t) => {
  const plan = {
    amount: 1000n,
    periodHours: 1,
    trialHours: 0,
    graceHours: null,
    collectionWindow: 0,
  } as const;
  // 998 off leaves 2 per period; after the pause a tenth of the second period is left.
  const steps = [
    { act: 'discount', size: 997, after: 500 },
    { act: 'pause', size: 0, after: 200 },
    { act: 'wait', size: 0, after: 900 },
    { act: 'unpause', size: 0, after: 300 },
  ];
  const [life] = play({ plan, other: plan, steps }).lives;
  t.equal(life!.coveredUntil, START + 7200n);
  t.equal(life!.pulls[1]!.periodStart, START + 7200n);
  t.equal(life!.pulls[1]!.gross, 2n);
  t.end();
});
