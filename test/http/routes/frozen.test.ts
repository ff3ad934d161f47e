// Frozen wallets and blocked plans: told before anyone signs.
import t from 'tap';
import { chainApi, type ChainApi, type Signed } from '../../fixtures/http.ts';
import { call as rpcCall } from '../../fixtures/localnet.ts';
import { insertPayment } from '../../fixtures/rows.ts';

const freeze = async (api: ChainApi, owner: string, state: 'frozen' | 'initialized' = 'frozen') => {
  const { mint } = api.deps.network;
  await rpcCall(api.localnet.rpcUrl, 'surfnet_setTokenAccount', owner, mint, { state });
  api.localnet.mineBlocks(3);
};

async function scene(t: Parameters<typeof chainApi>[0]) {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const subscribe = ({ token }: Signed) =>
    api.call<{ transaction: string }>('POST', `/subscriber/plans/${plan.id}/subscribe`, { token });
  const standing = async ({ token }: Signed) =>
    (await api.call('GET', `/subscriber/plans/${plan.id}/standing`, { token })).body.data;
  return { api, merchant, plan, subscribe, standing };
}

void t.test('a wallet with a frozen token account gets an error before it signs', async (t) => {
  const { api, merchant, plan, subscribe, standing } = await scene(t);
  const buyer = await api.signIn('subscriber', api.funded());
  const { token } = buyer;
  const offered = await subscribe(buyer);
  await freeze(api, buyer.wallet);
  t.match(await standing(buyer), { frozen: true });
  const refused = { status: 409, body: { error: { code: 'CONFLICT', message: /frozen/ } } };
  t.match(await subscribe(buyer), refused);

  // A transaction from before is refused in words.
  const { addSignature } = await import('../../../src/chain/transactions/message.ts');
  const transaction = addSignature(buyer.keypair, offered.body.data.transaction);
  const relayed = await api.call('POST', '/subscriber/transactions', {
    token,
    body: { transaction },
  });
  t.match(relayed.body.data, { status: 'failed', reason: /frozen by the issuer/ });

  await freeze(api, buyer.wallet, 'initialized');
  const subscriptionPda = await api.subscribed(buyer, plan.id);
  const made = await api.call<{ id: string }>('POST', '/subscriber/subscriptions', {
    token,
    body: { appId: merchant.appId, planId: plan.id, subscriptionPda },
  });
  await freeze(api, buyer.wallet);
  t.match(await api.call('POST', '/subscriber/approval/revoke', { token }), refused);
  const path = `/subscriber/subscriptions/${made.body.data.id}`;
  const cancel = await api.call<{ transaction: string }>('POST', `${path}/cancel`, { token });
  await api.submit(buyer.keypair, cancel.body.data.transaction);
  api.localnet.timeTravel({ absoluteTimestamp: api.localnet.now() + 48 * 3_600_000 });
  api.localnet.mineBlocks(40);
  const close = await api.call<{ transaction: string }>('POST', `${path}/close`, { token });
  await api.submit(buyer.keypair, close.body.data.transaction);
  t.match(await standing(buyer), { onChain: 'none' }, 'it is closed nevertheless');
});

void t.test('a refund to or from a frozen account gets CONFLICT', async (t) => {
  const { api, merchant, plan } = await scene(t);
  const buyer = await api.signIn('subscriber', api.funded());
  const subscriptionPda = await api.subscribed(buyer, plan.id);
  const made = await api.call<{ id: string }>('POST', '/subscriber/subscriptions', {
    token: buyer.token,
    body: { appId: merchant.appId, planId: plan.id, subscriptionPda },
  });
  const payment = await insertPayment(api.sql, made.body.data.id, '2026-01-01');
  api.localnet.fund(merchant.wallet, { usdc: 100_000_000n });
  api.localnet.mineBlocks(3);
  const refund = () =>
    api.call('POST', `/merchant/apps/${merchant.appId}/transactions/${payment}/refunds`, {
      token: merchant.key,
    });
  await freeze(api, buyer.wallet);
  t.match(await refund(), {
    status: 409,
    body: { error: { message: /of the subscriber is frozen/ } },
  });
  await freeze(api, buyer.wallet, 'initialized');
  await freeze(api, merchant.wallet);
  t.match(await refund(), {
    status: 409,
    body: { error: { message: /of the merchant is frozen/ } },
  });
  await freeze(api, merchant.wallet, 'initialized');
  t.equal((await refund()).status, 201);
  t.equal((await api.sql`select 1 from refunds`).length, 1, 'refusals store none');
});

void t.test(
  'a plan whose payments cannot be collected accepts no subscriber and says why',
  async (t) => {
    const { api, merchant, plan, subscribe, standing } = await scene(t);
    const buyer = await api.signIn('subscriber', api.funded());
    t.match(await standing(buyer), { planOpen: true, planBlocked: null });
    await freeze(api, merchant.wallet);
    t.match(await standing(buyer), { planOpen: false, planBlocked: 'receiver_frozen' });
    const refused = { status: 409, body: { error: { message: /receiver_frozen/ } } };
    t.match(await subscribe(buyer), refused, 'before a keeper has found out');
    await freeze(api, merchant.wallet, 'initialized');
    t.equal((await subscribe(buyer)).status, 200);

    const blocked = async () =>
      (await api.call<{ blocked: boolean }>('GET', `/plans/${plan.id}`)).body.data.blocked;
    t.equal(await blocked(), false);
    await api.sql`update plans set collection_blocked_reason = 'receiver_frozen'`;
    t.equal(await blocked(), true);
    t.match(await standing(buyer), { planOpen: false, planBlocked: 'receiver_frozen' });
    t.match(await subscribe(buyer), refused);
    await api.sql`update plans set collection_blocked_reason = null`;
    t.equal((await subscribe(buyer)).status, 200);
  },
);
