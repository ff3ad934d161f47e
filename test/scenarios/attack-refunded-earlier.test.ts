// A period that an earlier registration of the account has paid is refunded in full: after a resume
// it gives no access, as if the registration had paid it itself.
import t from 'tap';
import { startPlanChanges } from '../fixtures/plan-changes.ts';

async function refunded(t: Parameters<typeof startPlanChanges>[0]) {
  const scene = await startPlanChanges(t, [10]);
  const { stage, buyer, forceAndReinstate, registerAgain } = scene;
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await forceAndReinstate(first);
  const second = await registerAgain(first);
  await buyer.cancel(second);
  await stage.until('cancelled', async () => (await stage.row(second)).cancelRequestedAt !== null);
  await stage.quiet();
  await stage.sql`
    update payments set amount_refunded = amount_net where subscription_id = ${first.id}`;
  return { ...scene, first, second };
}

void t.test('resumed while it is live', async (t) => {
  const { stage, plans, buyer, second, access } = await refunded(t);
  const { body } = await buyer.post<{ transaction: string }>(`subscriptions/${second.id}/resume`);
  await stage.land(buyer.keypair, body.data.transaction);
  await stage.until('resumed', async () => (await stage.row(second)).cancelRequestedAt === null);
  await stage.quiet();
  t.match(await access(plans[0]!), { hasAccess: false, reason: 'refunded' });
});

void t.test('resumed after its end', async (t) => {
  const { stage, plans, buyer, second, access, act } = await refunded(t);
  t.equal((await act(second.id, 'cancel', { mode: 'force' })).status, 200);
  t.equal((await act(second.id, 'reinstate')).status, 200);
  const { body } = await buyer.post<{ transaction: string }>(`subscriptions/${second.id}/resume`);
  await stage.land(buyer.keypair, body.data.transaction);
  await stage.until('it is registered', async () => {
    const [row] = await stage.sql<{ count: number }[]>`
      select count(*)::int as count from subscriptions`;
    return row!.count === 3;
  });
  await stage.quiet();
  t.match(await access(plans[0]!), { hasAccess: false });
});
