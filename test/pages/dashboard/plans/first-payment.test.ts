// The preview of a plan has the payment that the service would collect.
import t from 'tap';
import { totalOf } from '../../../../src/domain/invoices/draw-up.ts';
import { NO_DISCOUNT } from '../../../../src/domain/invoices/terms.ts';
import { firstPayment } from '../../../../src/pages/dashboard/plans/first-payment.ts';

const now = new Date('2026-03-01T10:00:00Z');
const plan = { amount: '5000000', periodHours: 730, trialHours: null, endsAt: null };

void t.test('without a trial the first payment is the full amount', (t) => {
  t.equal(firstPayment(plan, now), 5_000_000n);
  t.end();
});

void t.test(
  'after a trial the first payment is the rest of the period, as the service computes it',
  (t) => {
    for (const [trialHours, into] of [
      [168, 168],
      [730, 0],
      [1000, 270],
      [12, 12],
    ] as const) {
      const start = BigInt(now.getTime() / 1000) + BigInt(trialHours - into) * 3600n;
      const terms = {
        ...NO_DISCOUNT,
        amount: 5_000_000n,
        periodHours: 730,
        trialEndsAt: new Date(now.getTime() + trialHours * 3_600_000),
        billedFrom: null,
      };
      const due = totalOf(terms, { start, end: start + 730n * 3600n });
      t.equal(firstPayment({ ...plan, trialHours }, now), due, `${trialHours} hours`);
    }
    t.equal(firstPayment({ ...plan, trialHours: 168 }, now), 3_840_000n, '3.84 USDC');
    const odd = { ...plan, amount: '5000001', trialHours: 168 };
    t.equal(firstPayment(odd, now), 3_849_315n, 'not whole cents');
    t.end();
  },
);

void t.test(
  'the first payment of a plan that ends inside the period covers the time until then',
  (t) => {
    const endsAt = new Date(now.getTime() + 365 * 3_600_000).toISOString();
    t.equal(firstPayment({ ...plan, endsAt }, now), 2_500_000n);
    t.equal(firstPayment({ ...plan, endsAt, trialHours: 400 }, now), 0n);
    t.end();
  },
);
