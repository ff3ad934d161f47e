// The payments that a subscriber is told before subscribing: examples, and the price rules period
// by period over random terms.
import fc from 'fast-check';
import t from 'tap';
import { timeOf, unixSeconds } from '../../../src/chain/time.ts';
import { drawUp } from '../../../src/domain/invoices/draw-up.ts';
import { scheduleOf, type ScheduleTerms } from '../../../src/domain/invoices/schedule.ts';

const START = 1_800_000_000n;
const DAY = 86_400n;
const MINIMUM = 100_000n;
const base: ScheduleTerms = {
  amount: 5_000_000n,
  periodHours: 720,
  trialHours: null,
  planEndsAt: null,
  discountPercent: null,
  discountAmount: null,
  discountPeriods: null,
};
const after = (days: bigint) => timeOf(START + days * DAY);
/** Amount, day of the first payment, day that it pays until, number of payments. */
const rows = (terms: Partial<ScheduleTerms>) =>
  scheduleOf({ ...base, ...terms }, timeOf(START), MINIMUM).map(
    ({ amount, dueAt, until, times }) => [
      Number(amount) / 1e6,
      Number((unixSeconds(dueAt) - START) / DAY),
      Number((unixSeconds(until) - START) / DAY),
      times,
    ],
  );

const resumedAt = {
  startsAt: null,
  credit: 0n,
  running: { start: timeOf(START), state: 'unpaid' },
} as const;

void t.test('the schedule of a resumed account continues its periods', async (t) => {
  const resumed = (terms: Partial<ScheduleTerms>, from: Date) =>
    scheduleOf({ ...base, ...terms }, from, MINIMUM, resumedAt).map((run) => [
      Number(run.amount),
      Number((unixSeconds(run.dueAt) - START) / DAY),
      Number((unixSeconds(run.until) - START) / DAY),
      run.times,
    ]);
  const next = [5_000_000, 30, 60, null];
  t.same(resumed({}, after(10n)), [[3_330_000, 10, 30, 1], next], 'the rest of its period');
  t.same(resumed({}, after(30n)), [next], 'a period that is paid');
  t.same(resumed({}, after(0n)), [[5_000_000, 0, 30, null]], 'a whole period');
  t.same(
    resumed({ discountPercent: 50, discountPeriods: 1 }, after(10n)),
    [[1_660_000, 10, 30, 1], next],
    'its discount',
  );
  t.same(
    resumed({ trialHours: 24 * 5 }, after(10n)),
    [[2_500_000, 15, 30, 1], next],
    'a trial within it',
  );
  t.same(
    resumed({ planEndsAt: after(20n) }, after(10n)),
    [[1_660_000, 10, 20, 1]],
    'a plan that ends within it',
  );
});

void t.test('the schedule of a new subscription begins with its first payment', async (t) => {
  const table: [string, Partial<ScheduleTerms>, unknown[][]][] = [
    ['the plan’s amount', {}, [[5, 0, 30, null]]],
    [
      'a discount of two payments',
      { discountPercent: 50, discountPeriods: 2 },
      [
        [2.5, 0, 30, 2],
        [5, 60, 90, null],
      ],
    ],
    ['a discount of each payment', { discountAmount: 1_000_000n }, [[4, 0, 30, null]]],
    ['a discount that is used up', { discountPercent: 50, discountPeriods: 0 }, [[5, 0, 30, null]]],
    [
      'a trial',
      { trialHours: 168 },
      [
        [3.83, 7, 30, 1],
        [5, 30, 60, null],
      ],
    ],
    ['a trial of a whole period', { trialHours: 720 }, [[5, 30, 60, null]]],
    [
      'a trial of more than a period',
      { trialHours: 1080 },
      [
        [2.5, 45, 60, 1],
        [5, 60, 90, null],
      ],
    ],
    ['a trial whose rest is too little to collect', { trialHours: 719 }, [[5, 30, 60, null]]],
    [
      'a trial uses up one payment of a discount',
      { trialHours: 360, discountPercent: 50, discountPeriods: 2 },
      [
        [1.25, 15, 30, 1],
        [2.5, 30, 60, 1],
        [5, 60, 90, null],
      ],
    ],
    [
      'a plan that ends',
      { planEndsAt: after(75n) },
      [
        [5, 0, 30, 2],
        [2.5, 60, 75, 1],
      ],
    ],
    ['a plan that ends with a period', { planEndsAt: after(60n) }, [[5, 0, 30, 2]]],
    ['a plan that has ended', { planEndsAt: after(0n) }, []],
    ['a trial that is longer than its plan', { trialHours: 720, planEndsAt: after(20n) }, []],
  ];
  for (const [name, terms, expected] of table) t.same(rows(terms), expected, name);
});

/** The payments one by one, by the rules that the keeper collects with. */
function collected(terms: ScheduleTerms, periods: number): [bigint, bigint][] {
  const length = BigInt(terms.periodHours) * 3600n;
  const trialEnd = START + BigInt(terms.trialHours ?? 0) * 3600n;
  const planEnd = terms.planEndsAt === null ? null : unixSeconds(terms.planEndsAt);
  let { discountPeriods } = terms;
  const payments: [bigint, bigint][] = [];
  for (let start = START; start < START + BigInt(periods) * length; start += length) {
    if (planEnd !== null && start >= planEnd) break;
    const end = planEnd !== null && planEnd < start + length ? planEnd : start + length;
    if (trialEnd >= end) continue;
    const price = {
      ...terms,
      discountPeriods,
      trialEndsAt: timeOf(trialEnd),
      billedFrom: null,
    };
    const gross = drawUp(price, { start, end }, { minimum: MINIMUM }).total;
    if (gross === 0n) continue;
    payments.push([trialEnd > start ? trialEnd : start, gross]);
    if (discountPeriods !== null && discountPeriods > 0) discountPeriods -= 1;
  }
  return payments;
}

void t.test('the shown schedule equals what the price rules collect', async (t) => {
  const PERIODS = 30;
  const hours = fc.integer({ min: 1, max: 2000 });
  const terms = fc.record<ScheduleTerms>({
    amount: fc.oneof(
      fc.bigInt({ min: 1_000_000n, max: 50_000_000n }),
      fc.bigInt({ min: 100n, max: 5000n }).map((cents) => cents * 10_000n),
    ),
    periodHours: hours,
    trialHours: fc.option(hours),
    planEndsAt: fc.option(
      fc.integer({ min: 0, max: 30_000 }).map((n) => timeOf(START + BigInt(n) * 3600n)),
    ),
    discountPercent: fc.option(fc.integer({ min: 1, max: 99 })),
    discountAmount: fc.constant(null),
    discountPeriods: fc.option(fc.integer({ min: 0, max: 12 })),
  });
  fc.assert(
    fc.property(terms, (one) => {
      const length = BigInt(one.periodHours) * 3600n;
      const last = START + BigInt(PERIODS) * length;
      const told = scheduleOf(one, timeOf(START), MINIMUM).flatMap(({ amount, dueAt, times }) =>
        Array.from({ length: times ?? PERIODS }, (_, index) => [
          unixSeconds(dueAt) + BigInt(index) * length,
          amount,
        ]),
      );
      t.same(
        told.filter(([at = 0n]) => at < last),
        collected(one, PERIODS).filter(([at]) => at < last),
      );
    }),
  );
});
