// A subscription ends, and then a change of plan that was offered before replaces it. An offer to
// resume its account that the wallet asked for in between is from before it was replaced.
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { merchantOf, rowsOf } from '../fixtures/shown-terms.ts';

void t.test(
  'a resume offered between the end and the replacement of a subscription registers nothing',
  async (t) => {
    const { stage, plans, buyer, ask, registered, forceAndReinstate, resume, newest } =
      await startPlanChanges(t, [100, 10]);
    const [large, small] = plans as [Plan, Plan];
    const merchant = await merchantOf(stage, large);
    await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    await buyer.cancel(first);
    await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
    await stage.quiet();
    const change = await ask(first, small);
    await forceAndReinstate(first);
    // Asked for, and not signed.
    t.equal((await buyer.post(`subscriptions/${first.id}/resume`)).status, 200);
    await stage.land(buyer.keypair, change.transaction);
    await registered(first, small);
    await stage.quiet();
    t.match(await stage.row(first), { status: 'cancelled' });

    await resume(first);
    await stage.until(
      'it is registered or listed',
      async () =>
        (await newest(large)).id !== first.id || (await merchant.unregistered()).length > 0,
    );
    await stage.quiet();
    t.equal((await rowsOf(stage, buyer)).length, 2, 'a replaced one stays replaced');
    t.match(await merchant.unregistered(), [{ subscriptionPda: first.pda }]);
    stage.passHours(721);
    await stage.quiet();
    const [{ count }] = await stage.sql<[{ count: number }]>`
    select count(*)::int as count from payments
    where subscription_pda = ${first.pda} and status = 'succeeded'`;
    t.equal(count, 1, 'and is not charged beside the new one');
  },
);
