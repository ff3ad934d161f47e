// A subscription that lands on chain is registered from the chain's event when the service offered
// it; otherwise it is listed to the merchant.
import t from 'tap';
import { startApiStage, type ApiStage, type Buyer } from '../fixtures/api-stage.ts';
import type { Plan } from '../fixtures/billing.ts';

interface Session {
  id: string;
  status: string;
  subscriptionId: string | null;
}

async function merchantOf(stage: ApiStage, plan: Plan) {
  const { token } = await stage.seller(plan);
  const path = `/merchant/apps/${plan.appId}`;
  return {
    session: async (externalId: string) =>
      (
        await stage.api.call<Session>('POST', `${path}/checkout-sessions`, {
          token,
          body: { planId: plan.id, externalId, metadata: { order: externalId } },
        })
      ).body.data,
    read: async ({ id }: Session) =>
      (await stage.api.call<Session>('GET', `${path}/checkout-sessions/${id}`, { token })).body
        .data,
    unregistered: async () =>
      (
        await stage.api.call<{ subscriptionPda: string; subscriberWallet: string }[]>(
          'GET',
          `${path}/unregistered`,
          { token },
        )
      ).body.data,
    patch: (body: object) => stage.api.call('PATCH', path, { token, body }),
  };
}

/** Lands the subscribe transaction of this session, and does not register. */
async function land(stage: ApiStage, buyer: Buyer, checkoutSessionId?: string): Promise<string> {
  const { body } = await buyer.post<{ transaction: string; subscriptionPda: string }>(
    `plans/${buyer.plan.id}/subscribe`,
    checkoutSessionId === undefined ? undefined : { checkoutSessionId },
  );
  await stage.land(buyer.keypair, body.data.transaction);
  return body.data.subscriptionPda;
}

const rowsOf = (stage: ApiStage, buyer: Buyer) =>
  stage.sql<{ id: string; externalId: string | null; status: string }[]>`
    select id, external_id, status from subscriptions where subscriber_wallet = ${buyer.wallet}`;

void t.test(
  'a session whose page is gone is registered from the chain with its ids, and the wallet’s POST gets 201',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const merchant = await merchantOf(stage, plan);
    await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const session = await merchant.session('customer-1');
    const subscriptionPda = await land(stage, buyer, session.id);
    await stage.until('it was registered', async () => (await rowsOf(stage, buyer)).length === 1);
    await stage.quiet();
    const [row, ...others] = await rowsOf(stage, buyer);
    t.same(others, []);
    t.match(row, { externalId: 'customer-1', status: 'active' });
    t.match(await merchant.read(session), { status: 'complete', subscriptionId: row!.id });
    const subscription = { id: row!.id, pda: subscriptionPda, wallet: buyer.keypair, plan };
    t.equal((await stage.payments(subscription))[0]?.amountGross, 5_000_000n, 'paid in full');
    t.same(
      (await stage.events(subscription)).map(({ type }) => type),
      ['subscription_created', 'payment_success'],
    );
    t.same(await merchant.unregistered(), []);
    const post = () =>
      buyer.post<{ id: string }>('subscriptions', {
        appId: plan.appId,
        planId: plan.id,
        subscriptionPda,
        checkoutSessionId: session.id,
      });
    const answers = await Promise.all([post(), post(), post()]);
    t.same(answers.map(({ status }) => status).sort(), [201, 409, 409]);
    t.equal(answers.find(({ status }) => status === 201)?.body.data.id, row!.id);
    t.equal((await rowsOf(stage, buyer))[0]?.externalId, 'customer-1');
  },
);

void t.test(
  'a keeper that starts after a landing registers the offered subscription, with or without a session',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan();
    const merchant = await merchantOf(stage, plan);
    const [first, second] = [await stage.buyer(plan), await stage.buyer(plan)];
    await land(stage, first, (await merchant.session('customer-1')).id);
    const pda = await land(stage, second);
    await stage.sql`update offers set message = null, created_at = now() - interval '23 hours'`;
    await stage.startKeeper();
    await stage.until('both were registered', async () => {
      const rows = [...(await rowsOf(stage, first)), ...(await rowsOf(stage, second))];
      return rows.length === 2;
    });
    t.equal((await rowsOf(stage, first))[0]?.externalId, 'customer-1');
    const [row] = await rowsOf(stage, second);
    t.match(await second.register(pda), { status: 201, body: { data: { id: row!.id } } });
    t.equal((await second.register(pda)).status, 409);
  },
);

void t.test(
  'a subscription without an offer is listed, and registered once the app sets registerUnclaimed',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan();
    const merchant = await merchantOf(stage, plan);
    const keeper = await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const subscriptionPda = await stage.open(plan, buyer.keypair);
    await stage.until('it was listed', async () => (await merchant.unregistered()).length === 1);
    t.match(await merchant.unregistered(), [
      { subscriptionPda, subscriberWallet: buyer.wallet, planId: plan.id },
    ]);
    t.same(await rowsOf(stage, buyer), []);
    const stranger = await stage.api.signIn('merchant');
    const path = `/merchant/apps/${plan.appId}/unregistered`;
    t.equal((await stage.api.call('GET', path, { token: stranger.token })).status, 403);

    t.match(await merchant.patch({ registerUnclaimed: true }), {
      status: 200,
      body: { data: { registerUnclaimed: true } },
    });
    await keeper.stop();
    await stage.startKeeper();
    await stage.until('it was registered', async () => (await rowsOf(stage, buyer)).length === 1);
    t.same(await merchant.unregistered(), []);
  },
);

void t.test(
  'a subscription that was opened without an offer while no stream ran is listed',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan();
    const merchant = await merchantOf(stage, plan);
    const other = await stage.plan();
    const [buyer, registered] = [await stage.buyer(plan), await stage.buyer(plan)];
    const subscriptionPda = await stage.open(plan, buyer.keypair);
    const elsewhere = await stage.buyer(other);
    await stage.open(other, elsewhere.keypair);
    await registered.buy();
    await stage.startKeeper();
    await stage.until('both were listed', async () => {
      const [row] = await stage.sql<{ count: number }[]>`
        select count(*)::int as count from unregistered_subscriptions`;
      return row?.count === 2;
    });
    t.match(await merchant.unregistered(), [{ subscriptionPda, subscriberWallet: buyer.wallet }]);
    t.equal((await merchant.unregistered()).length, 1);
  },
);

void t.test(
  'an account that fits offers of two customers waits for the wallet’s own registration',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan();
    const merchant = await merchantOf(stage, plan);
    await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const [one, two] = [await merchant.session('customer-1'), await merchant.session('customer-2')];
    await buyer.post(`plans/${plan.id}/subscribe`, { checkoutSessionId: one.id });
    const subscriptionPda = await land(stage, buyer, two.id);
    await stage.until('it was listed', async () => (await merchant.unregistered()).length === 1);
    t.same(await rowsOf(stage, buyer), []);
    const registered = await buyer.post('subscriptions', {
      appId: plan.appId,
      planId: plan.id,
      subscriptionPda,
      checkoutSessionId: two.id,
    });
    t.equal(registered.status, 201);
    t.equal((await rowsOf(stage, buyer))[0]?.externalId, 'customer-2');
    t.same(await merchant.unregistered(), []);
  },
);

void t.test(
  'a cancelled, unregistered account leaves the list; a force-cancelled one is not registered',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan();
    const merchant = await merchantOf(stage, plan);
    const { token } = await stage.seller(plan);
    await merchant.patch({ registerUnclaimed: true });
    const keeper = await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const bought = await buyer.buy();
    await stage.quiet();
    const path = `/merchant/apps/${plan.appId}/subscriptions/${bought.id}`;
    await stage.api.call('POST', `${path}/cancel`, { token, body: { mode: 'force' } });
    await keeper.stop();
    await stage.startKeeper();
    await buyer.offer();
    const other = await stage.buyer(plan);
    await stage.open(plan, other.keypair);
    await stage.until('another was registered', async () => {
      return (await rowsOf(stage, other)).length === 1;
    });
    t.equal((await rowsOf(stage, buyer)).length, 1, 'not again');
  },
);
