// A force-cancel is lifted by the merchant: by reinstating it, or by a later checkout session.
import t from 'tap';
import { chainApi, type ChainApi, randomAddress, type Signed } from '../../fixtures/http.ts';

type Merchant = Awaited<ReturnType<ChainApi['merchant']>>;

interface Scene {
  api: ChainApi;
  merchant: Merchant;
  planId: string;
}

async function scene(t: Parameters<typeof chainApi>[0]): Promise<Scene> {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  return { api, merchant, planId: (await api.publishedPlan(merchant)).id };
}

/** A wallet with `externalId` that subscribed, registered and was cancelled by force. */
async function forced({ api, merchant, planId }: Scene, externalId: string) {
  const buyer = await api.signIn('subscriber', api.funded());
  const { token } = buyer;
  const subscriptionPda = await api.subscribed(buyer, planId);
  const body = { appId: merchant.appId, planId, subscriptionPda };
  const register = () =>
    api.call<{ id: string }>('POST', '/subscriber/subscriptions', { token, body });
  const { id } = (await register()).body.data;
  const path = `/merchant/apps/${merchant.appId}/subscriptions/${id}`;
  await api.call('PATCH', path, { token: merchant.key, body: { externalId } });
  await api.call('POST', `${path}/cancel`, { token: merchant.key, body: { mode: 'force' } });
  const standing = () =>
    api.call<{ endedByMerchant: boolean }>('GET', `/subscriber/plans/${planId}/standing`, {
      token,
    });
  return { buyer, register, path, standing, subscriptionPda, id };
}

const barred = { status: 409, body: { error: { message: /merchant has cancelled/ } } };

void t.test(
  'a force-cancelled account is not registered again before it is reinstated, and standing says why',
  async (t) => {
    const stage = await scene(t);
    const { api, merchant } = stage;
    const { buyer, register, path, standing, id } = await forced(stage, 'customer-1');
    const { token } = buyer;
    t.match(await register(), barred);
    t.equal((await standing()).body.data.endedByMerchant, true);
    const asked = await api.call<{ transaction: string }>(
      'POST',
      `/subscriber/subscriptions/${id}/cancel`,
      { token },
    );
    await api.submit(buyer.keypair, asked.body.data.transaction);
    const subscribe = () =>
      api.call<{ transaction: string }>('POST', `/subscriber/plans/${stage.planId}/subscribe`, {
        token,
      });
    t.match(await subscribe(), barred, 'nor resumed');
    t.match(
      await api.call('POST', `/subscriber/subscriptions/${id}/resume`, { token }),
      barred,
      'by either way',
    );

    const reinstate = () => api.call('POST', `${path}/reinstate`, { token: merchant.key });
    const lifted = await reinstate();
    t.match(lifted, { status: 200, body: { data: { status: 'cancelled', endReason: 'forced' } } });
    t.not(lifted.body.data.reinstatedAt, null);
    t.same((await reinstate()).body.data, lifted.body.data, 'once');
    t.equal((await standing()).body.data.endedByMerchant, false);
    await api.submit(buyer.keypair, (await subscribe()).body.data.transaction);
    const again = await register();
    t.match(again, { status: 201, body: { data: { status: 'active', reinstatedAt: null } } });
    t.not(again.body.data.id, id);
  },
);

void t.test('reinstating a subscription that was not force-cancelled gets CONFLICT', async (t) => {
  const { api, merchant, planId } = await scene(t);
  const buyer = await api.signIn('subscriber', api.funded());
  const body = {
    appId: merchant.appId,
    planId,
    subscriptionPda: await api.subscribed(buyer, planId),
  };
  const made = await api.call<{ id: string }>('POST', '/subscriber/subscriptions', {
    token: buyer.token,
    body,
  });
  const path = `/merchant/apps/${merchant.appId}/subscriptions/${made.body.data.id}/reinstate`;
  t.equal((await api.call('POST', path, { token: merchant.key })).status, 409);
  const stranger = await api.merchant();
  t.equal((await api.call('POST', path, { token: stranger.key })).status, 403);
  const missing = path.replace(made.body.data.id, '01999999-0000-7000-8000-000000000000');
  t.equal((await api.call('POST', missing, { token: merchant.key })).status, 404);
});

void t.test(
  'only a later checkout session of the plan for its customer lifts a forced cancellation',
  async (t) => {
    const stage = await scene(t);
    const { api, merchant, planId } = stage;
    const session = (given: object) =>
      api.call<{ id: string; subscriberWallet: string | null }>(
        'POST',
        `/merchant/apps/${merchant.appId}/checkout-sessions`,
        { token: merchant.key, body: { planId, ...given } },
      );
    await session({ externalId: 'customer-1' });
    const first = await forced(stage, 'customer-1');
    const second = await forced(stage, 'customer-2');
    await session({ externalId: 'customer-3' });
    await session({});
    const { id: otherPlan } = await api.publishedPlan(merchant);
    await session({ planId: otherPlan, externalId: 'customer-1' });
    await session({ planId: otherPlan, subscriberWallet: first.buyer.wallet });
    await session({ subscriberWallet: randomAddress() });
    t.match(await first.register(), barred, 'an earlier session, one for others, of another plan');
    await session({ externalId: 'customer-1' });
    t.equal((await first.register()).status, 201);
    t.match(await second.register(), barred);
    const made = await session({ subscriberWallet: second.buyer.wallet });
    t.equal(made.body.data.subscriberWallet, second.buyer.wallet);
    t.equal((await second.register()).status, 201);
  },
);

void t.test('a session for a wallet is refused to every other wallet', async (t) => {
  const { api, merchant, planId } = await scene(t);
  const [mine, other] = [
    await api.signIn('subscriber', api.funded()),
    await api.signIn('subscriber', api.funded()),
  ];
  const made = await api.call<{ id: string }>(
    'POST',
    `/merchant/apps/${merchant.appId}/checkout-sessions`,
    { token: merchant.key, body: { planId, subscriberWallet: mine.wallet } },
  );
  const subscribe = ({ token }: Signed) =>
    api.call('POST', `/subscriber/plans/${planId}/subscribe`, {
      token,
      body: { checkoutSessionId: made.body.data.id },
    });
  t.match(await subscribe(other), { status: 403, body: { error: { code: 'FORBIDDEN' } } });
  t.equal((await subscribe(mine)).status, 200);
});
