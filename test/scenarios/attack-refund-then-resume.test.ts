// A refund of the whole running period lands, and the wallet resumes before a keeper has recorded
// the refund. The period was refunded when the wallet resumed, so it gives no access.
import t from 'tap';
import { startPlanChanges } from '../fixtures/plan-changes.ts';

void t.test('a refund that landed before the resume', async (t) => {
  const { stage, plans, buyer, access } = await startPlanChanges(t, [10]);
  const [plan] = plans;
  const { token } = await stage.seller(plan!);
  const keeper = await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await buyer.cancel(first);
  await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
  await stage.quiet();
  await keeper.stop();
  const [{ id }] = await stage.sql<[{ id: string }]>`select id from payments`;
  stage.net.fund(plan!.merchant.address, { usdc: 50_000_000n, lamports: 1_000_000_000n });
  const path = `/merchant/apps/${plan!.appId}/transactions/${id}/refunds`;
  const asked = await stage.api.call<{ transaction: string }>('POST', path, { token, body: {} });
  t.equal(asked.status, 201, JSON.stringify(asked.body));
  await stage.land(plan!.merchant, asked.body.data.transaction);
  stage.net.passSeconds(5);
  const { body } = await buyer.post<{ transaction: string }>(`subscriptions/${first.id}/resume`);
  await stage.land(buyer.keypair, body.data.transaction);
  // As a notice of the resume does.
  await stage.sql`update subscriptions set due_at = created_at`;
  await stage.parts().collect();
  t.equal((await stage.row(first)).cancelRequestedAt, null, 'the resume is seen first');
  await stage.startKeeper();
  stage.net.mineBlocks(60);
  await stage.until('the refund is recorded', async () => {
    const [row] = await stage.sql`select 1 from refunds where status = 'succeeded'`;
    return row !== undefined;
  });
  await stage.quiet();
  t.match(await access(plan!), { hasAccess: false, reason: 'refunded' });
});
