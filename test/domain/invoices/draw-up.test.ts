// Invoices over random terms: lines add up to the total, the total to credit and pull, and nothing
// is charged beyond the price, the room or the charged time.
import fc from 'fast-check';
import t from 'tap';
import { timeOf } from '../../../src/chain/time.ts';
import { drawUp, payable } from '../../../src/domain/invoices/draw-up.ts';
import {
  type BillingTerms,
  discounted,
  priceOf,
  unitOf,
} from '../../../src/domain/invoices/terms.ts';

const START = 1_800_000_000n;
const LENGTH = 720n * 3600n;
const whole = { start: START, end: START + LENGTH };
const base: BillingTerms = {
  amount: 10_000_000n,
  periodHours: 720,
  trialEndsAt: null,
  discountPercent: null,
  discountAmount: null,
  discountPeriods: null,
  billedFrom: null,
};
const lines = (terms: BillingTerms, limits: Parameters<typeof drawUp>[2], period = whole) =>
  drawUp(terms, period, limits).lines.map(({ kind, amount }) => [kind, amount]);

void t.test('the invoice of a whole period has one line with the plan’s full price', (t) => {
  t.same(lines(base, { minimum: 0n }), [['plan', 10_000_000n]]);
  t.match(drawUp(base, whole, { minimum: 0n }), {
    total: 10_000_000n,
    creditApplied: 0n,
    amountDue: 10_000_000n,
  });
  t.end();
});

void t.test('the invoice for 20 of 30 days at 25 % off has two lines of whole cents', (t) => {
  const terms = { ...base, discountPercent: 25, trialEndsAt: timeOf(START + LENGTH / 3n) };
  t.same(lines(terms, { minimum: 0n }), [
    ['plan', 6_660_000n],
    ['discount', -1_660_000n],
  ]);
  t.same(
    lines({ ...terms, amount: 10_000_001n }, { minimum: 0n }),
    [
      ['plan', 6_666_667n],
      ['discount', -1_666_667n],
    ],
    'a plan whose amount is not whole cents is rounded to base units',
  );
  t.end();
});

void t.test('a discount of a plan of whole cents is rounded up to the cent', (t) => {
  const off = (amount: bigint, percentOff: number | null, amountOff: bigint | null = null) =>
    discounted(amount, { percentOff, amountOff });
  t.equal(off(9_990_000n, 25), 7_490_000n);
  t.equal(off(9_990_001n, 25), 7_492_500n);
  t.equal(off(9_990_000n, null, 1_234_567n), 8_750_000n);
  t.equal(off(10_000n, 1), 0n);
  t.end();
});

void t.test(
  'a part of a period below the minimum is waived on the invoice and uses no credit',
  (t) => {
    const terms = { ...base, billedFrom: timeOf(whole.end - 720n * 36n), credit: 50_000n };
    t.same(lines(terms, { minimum: 100_001n }), [
      ['plan', 100_000n],
      ['adjustment', -100_000n],
    ]);
    t.match(drawUp(terms, whole, { minimum: 100_001n }), { total: 0n, creditApplied: 0n });
    t.equal(drawUp(terms, whole, { minimum: 100_000n }).amountDue, 100_000n);
    t.end();
  },
);

void t.test(
  'credit pays an invoice first, and leaves nothing or at least the minimum to pull',
  (t) => {
    const paid = (credit: bigint, room = 1000n) => {
      const limits = { credit, minimum: 100n, room, unit: 1n };
      const { creditApplied, amountDue } = payable(1000n, limits);
      return [creditApplied, amountDue];
    };
    t.same(paid(0n), [0n, 1000n]);
    t.same(paid(900n), [900n, 100n]);
    t.same(paid(950n), [900n, 100n]);
    t.same(paid(2000n), [1000n, 0n]);
    t.same(
      paid(300n, 0n),
      [300n, 0n],
      'without room only the credit pays, the rest is not charged',
    );
    t.same(paid(300n, 99n), [300n, 0n], 'less room than the minimum is none');
    t.same(paid(300n, 500n), [300n, 500n], 'what fits into the room is pulled');
    t.same(paid(950n, 50n), [950n, 0n], 'a credit that would leave the minimum pays all it can');
    const cents = { credit: 10_123n, minimum: 0n, room: 15_000n, unit: 10_000n };
    t.same(
      payable(90_000n, cents),
      { creditApplied: 10_000n, amountDue: 10_000n },
      'what is not charged is whole cents',
    );
    t.end();
  },
);

void t.test('for random terms the sums of an invoice add up and stay within their limits', (t) => {
  const time = fc.option(
    fc.bigInt({ min: -LENGTH, max: 2n * LENGTH }).map((at) => timeOf(START + at)),
  );
  const units = fc.bigInt({ min: 1n, max: 10n ** 10n });
  const amount = fc.oneof(
    units,
    units.map((cents) => (cents % 10n ** 6n) * 10_000n + 10_000n),
  );
  const discount = fc.oneof(
    fc.constant({ discountPercent: null, discountAmount: null, discountPeriods: null }),
    fc.record({
      discountPercent: fc.integer({ min: 1, max: 99 }),
      discountAmount: fc.constant(null),
      discountPeriods: fc.option(fc.integer({ min: 0, max: 3 })),
    }),
    fc.record({
      discountPercent: fc.constant(null),
      discountAmount: amount,
      discountPeriods: fc.option(fc.integer({ min: 0, max: 3 })),
    }),
  );
  const times = fc.record({
    trialEndsAt: time,
    billedFrom: time,
    startsAt: time,
  });
  const limits = fc.record({
    minimum: fc.bigInt({ min: 0n, max: 10n ** 6n }),
    room: fc.option(amount, { nil: undefined }),
  });
  const credit = fc.bigInt({ min: 0n, max: 2n * 10n ** 10n });
  const cut = fc.bigInt({ min: 1n, max: LENGTH });
  fc.assert(
    fc.property(
      amount,
      discount,
      times,
      limits,
      credit,
      cut,
      (amount, discount, times, limits, credit, length) => {
        const terms = { ...base, amount, ...discount, ...times, credit };
        const { room = amount } = limits;
        const unit = unitOf(amount);
        const period = { start: START, end: START + length };
        const invoice = drawUp(terms, period, {
          minimum: limits.minimum,
          ...(limits.room !== undefined && { room }),
        });
        const { lines, total, creditApplied, amountDue, cover } = invoice;
        t.equal(
          lines.reduce((sum, { amount }) => sum + amount, 0n),
          total,
        );
        t.equal(creditApplied + amountDue, total);
        t.ok(creditApplied >= 0n && creditApplied <= credit);
        t.ok(amountDue >= 0n && amountDue <= room && amountDue <= amount);
        t.ok(amountDue === 0n || amountDue >= limits.minimum || cover.isWhole || credit === 0n);
        t.ok(
          total * cover.length <= priceOf(terms) * (cover.isWhole ? cover.length : cover.seconds),
        );
        t.ok(lines.every(({ kind, amount }) => (kind === 'plan' ? amount >= 0n : amount < 0n)));
        const [plan] = lines;
        t.equal(plan!.amount % unit, 0n);
        if (cover.seconds === 0n) t.equal(total, 0n);
      },
    ),
  );
  t.end();
});
