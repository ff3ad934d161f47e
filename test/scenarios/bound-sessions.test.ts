// A checkout session gives its terms to what landed in it, within its 24 hours.
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { type ApiStage, startApiStage } from '../fixtures/api-stage.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import {
  merchantOf,
  type Offer,
  offerOf,
  paid,
  post,
  registered,
  rowsOf,
} from '../fixtures/shown-terms.ts';

const half = { discount: { percentOff: 50 } };

async function passDays(stage: ApiStage, days: number): Promise<void> {
  await stage.sql`
    update checkout_sessions set created_at = created_at - ${days} * interval '1 day',
      expires_at = expires_at - ${days} * interval '1 day'`;
  await stage.sql`update offers set created_at = created_at - ${days} * interval '1 day'`;
}

/** A wallet without SOL, whose transaction in a session the relay has taken and found to fail. */
async function relayedInVain(t: Test) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  const session = await merchant.session({ externalId: 'alice', ...half });
  const buyer = await stage.buyer(plan, { lamports: 0n });
  const { offerId, transaction } = await offerOf(buyer, { checkoutSessionId: session.id });
  const relayed = await buyer.post<{ status: string }>('transactions', {
    ...{ transaction: addSignature(buyer.keypair, transaction), offerId },
  });
  t.match(relayed.body.data, { status: 'failed' });
  const fund = async () => {
    stage.net.fund(buyer.wallet, { lamports: 1_000_000_000n });
    stage.net.mineBlocks(2);
  };
  const ask = () =>
    buyer.post<Offer>(`plans/${plan.id}/subscribe`, { checkoutSessionId: session.id });
  return { stage, plan, merchant, session, buyer, fund, ask };
}

void t.test(
  'after a failed transaction the wallet can pay in the same session for a day',
  async (t) => {
    const { stage, buyer, fund, ask } = await relayedInVain(t);
    await fund();
    const { status, body } = await ask();
    t.equal(status, 200);
    const { transaction, offerId } = body.data;
    const sent = await buyer.post<{ status: string }>('transactions', {
      ...{ transaction: addSignature(buyer.keypair, transaction), offerId },
    });
    t.match(sent.body.data, { status: 'confirmed' });
    t.match(await rowsOf(stage, buyer), [{ externalId: 'alice', discountPercent: 50 }]);
  },
);

void t.test('a failed transaction does not extend the session beyond its day', async (t) => {
  const { stage, plan, merchant, session, buyer, fund, ask } = await relayedInVain(t);
  await passDays(stage, 20);
  await fund();
  t.equal((await ask()).status, 409, 'it offers nothing');
  const pda = await stage.open(plan, buyer.keypair);
  t.equal((await post(buyer, pda, { checkoutSessionId: session.id })).status, 409);
  t.equal((await post(buyer, pda)).status, 201);
  t.match(await rowsOf(stage, buyer), [{ discountPercent: null }], 'nor by its old offer');
  t.match(await merchant.read(session), { subscriptionId: null });
});

/** A subscription to the first of two plans, and the merchant of both. */
async function twoPlans(t: Test) {
  const scene = await startPlanChanges(t, [5, 25]);
  const { stage, buyer, ask } = scene;
  const [small, large] = scene.plans as [Plan, Plan];
  const merchant = await merchantOf(stage, { ...large, merchant: small.merchant });
  const keeper = await stage.startKeeper();
  const first = await buyer.buy();
  await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
  await stage.quiet();
  const register = (subscriptionPda: string, checkoutSessionId: string) =>
    buyer.post('subscriptions', {
      ...{ appId: large.appId, planId: large.id, subscriptionPda, checkoutSessionId },
    });
  const askChange = async () => (await ask(first, large)) as unknown as Offer & { today: string };
  return { ...scene, large, merchant, keeper, first, register, askChange };
}

for (const isKeeperFirst of [true, false])
  void t.test(
    `a session for a change of plan gives no discount without the change, keeper first: ${isKeeperFirst}`,
    async (t) => {
      const { stage, buyer, large, merchant, keeper, first, register } = await twoPlans(t);
      await merchant.patch({ registerUnclaimed: true });
      if (!isKeeperFirst) await keeper.stop();
      const changes = { replaces: first.id, changeWhen: 'now', ...half };
      const session = await merchant.session(changes);
      const subscriptionPda = await stage.open(large, buyer.keypair);
      if (isKeeperFirst) await registered(stage, buyer, 2);
      t.equal((await register(subscriptionPda, session.id)).status, 409);
      t.match(await stage.row(first), { status: 'active' });
      t.match(await merchant.read(session), { subscriptionId: null });
    },
  );

for (const isKeeperFirst of [true, false])
  void t.test(
    `a landed change gets no discount from a session for a new sign-up, keeper first: ${isKeeperFirst}`,
    async (t) => {
      const scene = await twoPlans(t);
      const { stage, buyer, large, merchant, keeper, first, register, askChange } = scene;
      const welcome = await merchant.session(half);
      const shown = await askChange();
      if (!isKeeperFirst) await keeper.stop();
      await stage.land(buyer.keypair, shown.transaction);
      if (isKeeperFirst) await scene.registered(first, large);
      t.equal((await register(shown.subscriptionPda, welcome.id)).status, 409);
      if (!isKeeperFirst) await stage.startKeeper();
      await scene.registered(first, large);
      await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 2);
      const [, amount = 0n] = await paid(stage, buyer);
      t.ok(amount >= BigInt(shown.today) - 1000n, `charged ${amount}, shown ${shown.today}`);
      t.match((await rowsOf(stage, buyer))[1], { replaces: first.id, discountPercent: null });
    },
  );

void t.test(
  'a change from an expired session that is signed hours later gets no discount',
  async (t) => {
    const { stage, buyer, large, merchant, first } = await twoPlans(t);
    const changes = { replaces: first.id, changeWhen: 'now', ...half };
    const session = await merchant.session(changes);
    const { body } = await buyer.post<Offer>(`plans/${large.id}/subscribe`, {
      checkoutSessionId: session.id,
    });
    const { offerId, transaction } = body.data;
    await passDays(stage, 1.1);
    const [{ blockhash: offered }] = await stage.sql<[{ blockhash: string }]>`
    select blockhash from offers where id = ${offerId}`;
    stage.net.mineBlocks(200);
    const { blockhash } = await stage.rpc.getLatestBlockhash();
    const bytes = Buffer.from(transaction, 'base64');
    bytes.set(bs58.decode(blockhash), bytes.indexOf(bs58.decode(offered)));
    await stage.land(buyer.keypair, bytes.toString('base64'));
    await stage.until(
      'it is registered or listed',
      async () =>
        (await rowsOf(stage, buyer)).length === 2 || (await merchant.unregistered()).length > 0,
    );
    await stage.quiet();
    const [, row] = await rowsOf(stage, buyer);
    t.equal(row?.discountPercent ?? null, null);
  },
);
