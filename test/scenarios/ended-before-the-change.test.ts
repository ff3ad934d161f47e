// The old subscription ends between the offer of a change of plan and its registration: the wallet
// pays what it was shown, less the credit, and the credit is not left on the ended one.
import t from 'tap';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';

const DAY = 86_400;

void t.test(
  'if a past-due subscription expires before its change of plan lands, the new one gets its credit',
  async (t) => {
    const { stage, plans, buyer, change, ask, registered, read, newest } = await startPlanChanges(
      t,
      [100, 250, 60],
      { usdc: 100_000_000n },
    );
    const [, b, c] = plans as [Plan, Plan, Plan];
    // The plan has one retry, at the expiry a day later.
    await stage.sql`update plans set past_due_days = 1, retry_hours = '{24}' where id = ${b.id}`;
    await stage.startKeeper();
    const bought = await buyer.buy();
    await stage.quiet();
    const second = await change(bought, b);
    const { pastDueSince } = await stage.row(second);
    stage.net.fund(buyer.wallet, { usdc: 90_000_000n });
    stage.net.passSeconds(Math.floor(pastDueSince!.getTime() / 1000) + DAY - stage.now() - 20);
    const shown = await ask(second, c);
    stage.net.passSeconds(22);
    await stage.until('it expires', async () => (await read(second)).status === 'expired');
    stage.net.passSeconds(3);
    await stage.land(buyer.keypair, shown.transaction);
    await registered(second, c);
    await stage.quiet();
    const third = await newest(c);
    const [payment] = await stage.payments(third);
    t.match(payment, {
      source: 'credit',
      amountGross: BigInt(shown.today),
      creditSpent: 60_000_000n,
    });
    t.equal((await read(third)).credit, BigInt(shown.credit) - 60_000_000n);
    t.match(await read(second), { status: 'expired' });
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'a change that is registered a period late takes the credit of the subscription that ended meanwhile',
  async (t) => {
    const { stage, plans, buyer, change, ask, registerAgain, read } = await startPlanChanges(t, [
      100,
      10,
      { amount: 5, hours: 6 },
    ]);
    const [, a, b] = plans as [Plan, Plan, Plan];
    const keeper = await stage.startKeeper();
    const bought = await buyer.buy();
    await stage.quiet();
    const first = await change(bought, a);
    stage.passHours(719);
    await stage.quiet();
    await keeper.stop();
    const shown = await ask(first, b);
    await stage.land(buyer.keypair, shown.transaction);
    stage.passHours(7);
    // The database's clock follows the chain's: the offer is seven hours old.
    await stage.sql`update offers set created_at = now() - interval '7 hours'`;
    await stage.parts().collect();
    t.match(await read(first), { status: 'cancelled' });
    await stage.startKeeper();
    const pda = shown.subscriptionPda;
    const fresh = await registerAgain({ id: '', pda, wallet: buyer.keypair, plan: b });
    t.match(await read(fresh), { replaces: first.id });
    const [payment] = await stage.payments(fresh);
    const credit = (await read(fresh)).credit + payment!.creditSpent;
    t.ok(
      credit <= BigInt(shown.credit) && BigInt(shown.credit) - credit < 1000n,
      'as it was shown',
    );
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'a forced cancellation and a new registration before the change lands leave its price as shown',
  async (t) => {
    const { stage, plans, buyer, ask, forceAndReinstate, register, registered, newest } =
      await startPlanChanges(t, [5, 25]);
    const [, large] = plans as [Plan, Plan];
    await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    const shown = await ask(first, large);
    await forceAndReinstate(first);
    t.equal((await register(first)).status, 201);
    const again = await newest(first.plan);
    await stage.land(buyer.keypair, shown.transaction);
    await registered(again, large);
    await stage.quiet();
    const [payment] = await stage.payments(await newest(large));
    const more = payment!.amountGross - BigInt(shown.today);
    t.ok(more >= 0n && more < 1000n, `${payment!.amountGross} of ${shown.today}`);
    t.match(await stage.row(again), { cancelRequestedBy: 'subscriber', nextPaymentDue: null });
    t.same(await listCreditFaults(stage.sql), []);
  },
);
