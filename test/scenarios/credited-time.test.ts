// Paid time or its credit, never both: when a change of plan turns the unused part of a payment
// into credit, the time that rested on this payment ends for every registration of the account.
import t from 'tap';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';

/** More than the grace of a plan of 720 hours, in milliseconds. */
const GRACE = 73 * 3_600_000;

void t.test(
  'paid time that became credit gives no access to a parallel registration of the account',
  async (t) => {
    const { stage, plans, buyer, change, resume, registerAgain, read, access } =
      await startPlanChanges(t, [100, 1, 1]);
    const [a, b, c] = plans as [Plan, Plan, Plan];
    await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    const second = await change(first, b, 'period_end');
    await resume(first);
    const again = await registerAgain(first);
    const { paidThrough } = await read(again);
    t.match(await access(a), { hasAccess: true, reason: 'paid' }, 'covered by the payment');
    const third = await change(second, c);
    t.ok((await read(third)).credit > 90_000_000n, 'the unused part is a credit');
    const { accessUntil } = await access(a);
    t.ok(
      new Date(accessUntil!).getTime() < stage.net.now() + GRACE,
      'the grace of the replaced one',
    );
    const { body } = await buyer.get<{ accessUntil: null }>(`subscriptions/${again.id}`);
    t.equal(body.data.accessUntil, null, 'the registration beside it gives no access');
    t.match(await read(again), { status: 'active', nextPaymentDue: paidThrough }, 'due next');
    stage.passHours(720);
    await stage.quiet();
    const [paid, ...more] = await stage.payments(again);
    t.same(more, []);
    t.equal(paid!.amountGross + paid!.creditSpent, 100_000_000n, 'with the credit');
    t.match(await access(a), { hasAccess: true, reason: 'paid' }, 'with the next period');
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'a second change ends the paid time of the replaced account that was registered again',
  async (t) => {
    const { stage, plans, buyer, change, resume, registerAgain, access } = await startPlanChanges(
      t,
      [100, 1, 1],
    );
    const [a, b, c] = plans as [Plan, Plan, Plan];
    await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    await change(first, b, 'period_end');
    await resume(first);
    await change(await registerAgain(first), c);
    const { accessUntil } = await access(a);
    t.ok(new Date(accessUntil!).getTime() < stage.net.now() + GRACE, 'access ends, with the grace');
  },
);

for (const paidBy of ['keeper', 'credit'] as const)
  void t.test(
    `a change ends the access of an ended registration of the account, paid by ${paidBy}`,
    async (t) => {
      const { stage, plans, buyer, change, forceAndReinstate, registerAgain, read, access } =
        await startPlanChanges(t, [100, 40, 10]);
      const [a, b, c] = plans as [Plan, Plan, Plan];
      await stage.startKeeper();
      const bought = await buyer.buy();
      await stage.quiet();
      const first = paidBy === 'keeper' ? bought : await change(bought, b);
      t.match(await stage.payments(first), [{ source: paidBy }]);
      await forceAndReinstate(first);
      const again = await registerAgain(first);
      const third = await change(again, c);
      t.ok((await read(third)).credit > 80_000_000n);
      const { accessUntil } = await access(paidBy === 'keeper' ? a : b);
      t.ok(
        new Date(accessUntil!).getTime() < stage.net.now() + GRACE,
        'access ends, with the grace',
      );
      t.same(await listCreditFaults(stage.sql), []);
    },
  );
