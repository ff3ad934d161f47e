// The amount due for a period, over random terms: at most the plan's amount, rounded down, and zero
// for the time before the end of a trial or pause.
import fc from 'fast-check';
import t from 'tap';
import { timeOf } from '../../../src/chain/time.ts';
import { drawUp, totalOf } from '../../../src/domain/invoices/draw-up.ts';
import {
  type BillingTerms,
  discounted,
  discountOf,
  priceOf,
} from '../../../src/domain/invoices/terms.ts';
import { amountPastDue, nextAmount } from '../../../src/domain/invoices/upcoming.ts';
import { split } from '../../../src/domain/money.ts';
import { down, unit } from '../../fixtures/cents.ts';

const START = 1_800_000_000n;
const base: BillingTerms = {
  amount: 10_000_000n,
  periodHours: 720,
  trialEndsAt: null,
  discountPercent: null,
  discountAmount: null,
  discountPeriods: null,
  billedFrom: null,
};
const whole = { start: START, end: START + 720n * 3600n };

void t.test(
  'a discount is an amount or a percentage, and the reduced amount is rounded down',
  (t) => {
    t.equal(discounted(999n, { percentOff: 50, amountOff: null }), 499n);
    t.equal(discounted(1n, { percentOff: 1, amountOff: null }), 0n);
    t.equal(discounted(999n, { percentOff: null, amountOff: 998n }), 1n);
    t.equal(discounted(999n, { percentOff: null, amountOff: 5000n }), 0n);
    t.end();
  },
);

void t.test(
  'an amount below the minimum is collected for a whole period but not for a part of a period',
  (t) => {
    const late = (rest: bigint) => ({ ...base, trialEndsAt: timeOf(whole.end - rest) });
    const part = 720n * 36n; // A hundredth of the period: 100,000.
    t.equal(drawUp(late(part), whole, { minimum: 100_000n }).total, 100_000n);
    t.equal(drawUp(late(part - 1n), whole, { minimum: 100_000n }).total, 0n);
    t.equal(drawUp(late(0n), whole, { minimum: 1n }).total, 0n);
    const unpaused = { ...base, billedFrom: timeOf(whole.end - part + 1n) };
    t.equal(drawUp(unpaused, whole, { minimum: 100_000n }).total, 0n);
    const cut = { start: whole.start, end: whole.start + part - 1n };
    t.equal(drawUp(base, cut, { minimum: 100_000n }).total, 0n, 'before the end of a plan');
    const cheap = { ...base, amount: 10_000_001n, discountAmount: 10_000_000n };
    t.equal(drawUp(cheap, whole, { minimum: 100_000n }).total, 1n, 'as agreed');
    t.end();
  },
);

void t.test('a used-up discount does not reduce the payment', (t) => {
  const terms = { ...base, discountPercent: 25 };
  t.equal(priceOf(terms), 7_500_000n);
  t.equal(priceOf({ ...terms, discountPeriods: 1 }), 7_500_000n);
  t.equal(priceOf({ ...terms, discountPeriods: 0 }), 10_000_000n);
  t.equal(discountOf({ ...terms, discountPeriods: 0 }), null);
  t.end();
});

void t.test(
  'a past-due payment has the amount of the current period, even if the next attempt is in the next period',
  (t) => {
    const past = {
      ...base,
      status: 'past_due',
      periodAnchor: timeOf(START - 720n * 3600n),
      planEndsAt: null,
      billedFrom: timeOf(START + 360n * 3600n),
      nextPaymentDue: timeOf(whole.end),
    };
    t.equal(amountPastDue(past, null), 5_000_000n);
    t.equal(amountPastDue({ ...past, discountPercent: 50 }, null), 2_500_000n);
    t.equal(amountPastDue({ ...past, nextPaymentDue: timeOf(whole.end + 1n) }, null), 10_000_000n);
    t.equal(amountPastDue({ ...past, planEndsAt: timeOf(START + 540n * 3600n) }, null), 2_500_000n);
    t.equal(amountPastDue({ ...past, periodAnchor: null }, null), 10_000_000n);
    t.equal(amountPastDue({ ...past, nextPaymentDue: null }, null), null, 'it is not tried again');
    t.equal(amountPastDue({ ...past, status: 'active' }, null), null);
    const open = { amountDue: 7n, periodEnd: timeOf(whole.end) };
    t.equal(amountPastDue(past, open), 7n, 'what its invoice says');
    t.equal(amountPastDue({ ...past, status: 'active' }, open), null);
    t.end();
  },
);

void t.test('the next amount is that of the open invoice, in the period of that invoice', (t) => {
  const due = { ...base, credit: 4_000_000n, periodAnchor: timeOf(START), planEndsAt: null };
  const at = (seconds: bigint) => ({ ...due, nextPaymentDue: timeOf(START + seconds) });
  const open = { amountDue: 9_000_000n, periodEnd: timeOf(whole.end) };
  t.equal(nextAmount(at(0n), open), 9_000_000n);
  t.equal(nextAmount(at(whole.end - START - 1n), open), 9_000_000n, 'a retry');
  t.equal(nextAmount(at(whole.end - START), open), 6_000_000n, 'of the next period');
  t.equal(nextAmount(at(0n), null), 6_000_000n);
  t.equal(nextAmount({ ...due, nextPaymentDue: null }, open), null);
  t.end();
});

void t.test(
  'when a trial or a pause ends inside a period, the rest of the period is charged',
  (t) => {
    const trialEndsAt = timeOf(START + 168n * 3600n);
    t.equal(totalOf({ ...base, trialEndsAt }, whole), 7_660_000n);
    t.equal(totalOf({ ...base, trialEndsAt, discountPercent: 50 }, whole), 3_830_000n);
    const billedFrom = timeOf(START + 360n * 3600n);
    t.equal(totalOf({ ...base, trialEndsAt, billedFrom }, whole), 5_000_000n);
    t.equal(totalOf({ ...base, trialEndsAt: timeOf(whole.end) }, whole), 0n);
    t.equal(totalOf({ ...base, trialEndsAt: timeOf(START) }, whole), 10_000_000n);
    t.end();
  },
);

const maxAmount = 2n ** 63n - 1n;
const time = fc.option(
  fc.bigInt({ min: -100_000n, max: 40_000_000n }).map((s) => timeOf(START + s)),
);
const terms: fc.Arbitrary<BillingTerms> = fc
  .record({
    amount: fc.oneof(
      fc.bigInt({ min: 1n, max: 1000n }),
      fc.bigInt({ min: 1n, max: maxAmount }),
      fc.bigInt({ min: 1n, max: maxAmount / 10_000n }).map((cents) => cents * 10_000n),
    ),
    periodHours: fc.integer({ min: 1, max: 8760 }),
    trialEndsAt: time,
    billedFrom: time,
    kind: fc.constantFrom('none', 'percent', 'amount'),
    percent: fc.integer({ min: 1, max: 99 }),
    part: fc.bigInt({ min: 1n, max: maxAmount }),
    discountPeriods: fc.option(fc.nat(3)),
  })
  .map(({ kind, percent, part, discountPeriods, ...rest }) => ({
    ...rest,
    discountPercent: kind === 'percent' ? percent : null,
    discountAmount: kind === 'amount' && rest.amount > 1n ? 1n + (part % (rest.amount - 1n)) : null,
    discountPeriods: kind === 'none' ? null : discountPeriods,
  }));

void t.test(
  'any amount due is between 0 and the plan’s amount, prorated and rounded down, and fee and net add up to it',
  (t) => {
    fc.assert(
      fc.property(terms, fc.nat(8760), fc.integer({ min: 0, max: 10_000 }), (given, cut, bps) => {
        const length = BigInt(given.periodHours) * 3600n;
        const end = START + length - ((BigInt(cut) * 3600n) % length);
        const due = totalOf(given, { start: START, end });
        const price = priceOf(given);
        if (due < 0n || due > given.amount || price > given.amount) return false;
        const from = [given.trialEndsAt, given.billedFrom]
          .map((at) => (at === null ? START : BigInt(at.getTime()) / 1000n))
          .reduce((last, at) => (at > last ? at : last), START);
        const rest = end > from ? end - from : 0n;
        // Rounded down: at most one unit less than the exact part.
        const above = due + unit(given.amount);
        if (due * length > price * rest || above * length <= price * rest) return false;
        if (due % unit(given.amount) !== 0n) return false;
        const { fee, net } = split(due, bps);
        return fee === (due * BigInt(bps)) / 10_000n && fee + net === due && net >= 0n;
      }),
      { numRuns: 5000 },
    );
    t.end();
  },
);

void t.test(
  'a wallet that starts inside a period pays the rest of that period, then each period in full',
  (t) => {
    const length = whole.end - whole.start;
    fc.assert(
      fc.property(
        fc.bigInt({ min: 1n, max: maxAmount }),
        fc.bigInt({ min: 0n, max: length }),
        fc.nat(5),
        (amount, late, periods) => {
          const given = { ...base, amount, billedFrom: timeOf(START + late) };
          const first = totalOf(given, whole);
          if (first !== down(amount, (amount * (length - late)) / length)) return false;
          const shift = BigInt(periods + 1) * length;
          const later = { start: whole.start + shift, end: whole.end + shift };
          return totalOf(given, later) === amount;
        },
      ),
      { numRuns: 2000 },
    );
    t.equal(
      totalOf({ ...base, billedFrom: timeOf(START + 240n * 3600n) }, whole),
      6_660_000n,
      'day 10 of 30: rounded down',
    );
    t.end();
  },
);

void t.test('an invoice names the discount that reduced it, if anything is paid', (t) => {
  const given = { ...base, discountId: 'discount', discountPercent: 10, discountPeriods: 2 };
  const named = (terms: BillingTerms, minimum = 0n) => drawUp(terms, whole, { minimum }).discountId;
  t.equal(named(given), 'discount');
  t.equal(named({ ...given, discountPeriods: null }), 'discount');
  t.equal(named({ ...given, discountPeriods: 0 }), null, 'used up');
  t.equal(named({ ...given, trialEndsAt: timeOf(whole.end) }), null, 'free');
  const late = { ...given, billedFrom: timeOf(whole.end - 1n) };
  t.equal(named(late, 100_000n), null, 'below the minimum');
  t.end();
});
