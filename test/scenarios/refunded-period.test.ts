// A period whose payment was refunded in full gives no access after a resume or a new registration:
// also if a keeper records the refund after it has seen the resume, and if an earlier registration
// of the account has the payment.
import t, { type Test } from 'tap';
import { startPlanChanges } from '../fixtures/plan-changes.ts';

/** A paid subscription without a keeper, and a function that refunds its payment on chain. */
async function begin(t: Test) {
  const scene = await startPlanChanges(t, [10]);
  const { stage, plans, buyer } = scene;
  const plan = plans[0]!;
  const { token } = await stage.seller(plan);
  const keeper = await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  const refund = async () => {
    const [{ id }] = await stage.sql<[{ id: string }]>`select id from payments`;
    stage.net.fund(plan.merchant.address, { usdc: 50_000_000n, lamports: 1_000_000_000n });
    const path = `/merchant/apps/${plan.appId}/transactions/${id}/refunds`;
    const asked = await stage.api.call<{ transaction: string }>('POST', path, { token, body: {} });
    await stage.land(plan.merchant, asked.body.data.transaction);
    stage.net.passSeconds(5);
  };
  /** A keeper reads the account first, and records the refund after that. */
  const read = async () => {
    // As a notice does.
    await stage.sql`update subscription_work set due_at = to_timestamp(0)`;
    await stage.parts().collect();
    await stage.startKeeper();
    stage.net.mineBlocks(60);
    await stage.until('the refund is recorded', async () => {
      const [row] = await stage.sql`select 1 from refunds where status = 'succeeded'`;
      return row !== undefined;
    });
    await stage.quiet();
    return scene.access(plan);
  };
  return { ...scene, keeper, first, refund, read };
}

void t.test(
  'a refund that is recorded after the resume ends the access to its period',
  async (t) => {
    const { stage, buyer, keeper, first, refund, read } = await begin(t);
    await buyer.cancel(first);
    await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
    await stage.quiet();
    await keeper.stop();
    await refund();
    const { body } = await buyer.post<{ transaction: string }>(`subscriptions/${first.id}/resume`);
    await stage.land(buyer.keypair, body.data.transaction);
    t.match(await read(), { hasAccess: false, reason: 'refunded' });
  },
);

void t.test(
  'a refund that is recorded after a new registration ends the access to its period',
  async (t) => {
    const { keeper, first, refund, read, forceAndReinstate, register } = await begin(t);
    await keeper.stop();
    await refund();
    await forceAndReinstate(first);
    t.equal((await register(first)).status, 201);
    t.match(await read(), { hasAccess: false, reason: 'refunded' });
  },
);

/** Two registrations of an account, of which the first has the payment. It is refunded. */
async function refunded(t: Test) {
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

void t.test(
  'a refunded payment of an earlier registration gives no access after a resume',
  async (t) => {
    const { stage, plans, buyer, second, access } = await refunded(t);
    const { body } = await buyer.post<{ transaction: string }>(`subscriptions/${second.id}/resume`);
    await stage.land(buyer.keypair, body.data.transaction);
    await stage.until('resumed', async () => (await stage.row(second)).cancelRequestedAt === null);
    await stage.quiet();
    t.match(await access(plans[0]!), { hasAccess: false, reason: 'refunded' });
  },
);

void t.test('a refunded payment of the first of three registrations gives no access', async (t) => {
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
