// Invoices over random terms: lines add up to the total, the total to credit and pull, and nothing
// is charged beyond the price, the room or the charged time.
import fc from 'fast-check';
import t from 'tap';
import { timeOf } from '../../../src/chain/time.ts';
import { drawUp, payable } from '../../../src/domain/invoices/draw-up.ts';
import { type BillingTerms, priceOf } from '../../../src/domain/invoices/terms.ts';

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
  unpausedAt: null,
  chargedFrom: null,
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

void t.test('the invoice for 20 of 30 days at 25 % off has two lines, rounded to cents', (t) => {
  const terms = { ...base, discountPercent: 25, trialEndsAt: timeOf(START + LENGTH / 3n) };
  t.same(lines(terms, { minimum: 0n }), [
    ['plan', 6_666_666n],
    ['discount', -1_666_666n],
  ]);
  t.same(
    lines(terms, { minimum: 0n, unit: 10_000n }),
    [
      ['plan', 6_660_000n],
      ['discount', -1_660_000n],
    ],
    'the charged part is rounded down, so the discount is rounded up',
  );
  t.end();
});

void t.test(
  'a part of a period below the minimum is waived on the invoice and uses no credit',
  (t) => {
    const terms = { ...base, unpausedAt: timeOf(whole.end - 720n * 36n), credit: 50_000n };
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
      const { creditApplied, amountDue } = payable(1000n, { credit, minimum: 100n, room });
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
    t.end();
  },
);

void t.test('for random terms the sums of an invoice add up and stay within their limits', (t) => {
  const time = fc.option(
    fc.bigInt({ min: -LENGTH, max: 2n * LENGTH }).map((at) => timeOf(START + at)),
  );
  const amount = fc.bigInt({ min: 1n, max: 10n ** 10n });
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
    unpausedAt: time,
    chargedFrom: time,
    startsAt: time,
  });
  const limits = fc.record({
    minimum: fc.bigInt({ min: 0n, max: 10n ** 6n }),
    room: fc.option(amount, { nil: undefined }),
    unit: fc.constantFrom(1n, 10_000n),
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
        const { room = amount, unit } = limits;
        const period = { start: START, end: START + length };
        const invoice = drawUp(terms, period, {
          minimum: limits.minimum,
          unit,
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
