// The approval that a wallet gives: named before it replaces another one, revoked with the last
// close, and revoked on request.
import t from 'tap';
import { authorityIn, tokenAccountIn } from '../../../src/chain/program/accounts.ts';
import { authorityAddress, tokenAccountAddress } from '../../../src/chain/program/addresses.ts';
import { unsignedTransaction } from '../../../src/chain/transactions/message.ts';
import { chainApi, type ChainApi, randomAddress, type Signed } from '../../fixtures/http.ts';
import { call as rpcCall } from '../../fixtures/localnet.ts';
import { grantCredit } from '../../fixtures/rows.ts';
import { approve } from '../../fixtures/tokens.ts';

async function delegateOf(api: ChainApi, wallet: string): Promise<string | null> {
  const account = tokenAccountAddress(wallet, api.deps.network.mint).address;
  const { accounts } = await api.deps.chain.getMultipleAccounts([account]);
  return tokenAccountIn(accounts[0] ?? null)?.delegate ?? null;
}

const authorityOf = (api: ChainApi, wallet: string) =>
  authorityAddress(api.deps.network.programId, wallet, api.deps.network.mint).address;

/** Registers a subscription of the wallet, and returns functions that end and close it. */
async function bought(
  api: ChainApi,
  merchant: Awaited<ReturnType<ChainApi['merchant']>>,
  buyer: Signed,
  planId: string,
) {
  const subscriptionPda = await api.subscribed(buyer, planId);
  const { token, keypair } = buyer;
  const { body } = await api.call<{ id: string }>('POST', '/subscriber/subscriptions', {
    token,
    body: { appId: merchant.appId, planId, subscriptionPda },
  });
  const act = async (verb: string) => {
    const path = `/subscriber/subscriptions/${body.data.id}/${verb}`;
    const asked = await api.call<{ transaction: string }>('POST', path, { token });
    await api.submit(keypair, asked.body.data.transaction);
  };
  return { act };
}

const passDays = (api: ChainApi, days: number) => {
  api.localnet.timeTravel({ absoluteTimestamp: api.localnet.now() + days * 86_400_000 });
  api.localnet.mineBlocks(3);
};

/** Makes everything until now finalized. */
const finalize = (api: ChainApi) => api.localnet.mineBlocks(40);

void t.test('closing the last subscription of a wallet revokes its approval', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const buyer = await api.signIn('subscriber', api.funded());
  const { act } = await bought(api, merchant, buyer, plan.id);
  t.equal(await delegateOf(api, buyer.wallet), authorityOf(api, buyer.wallet));
  await act('cancel');
  passDays(api, 2);
  finalize(api);
  await act('close');
  t.equal(await delegateOf(api, buyer.wallet), null);
  const [authority] = (await api.deps.chain.getMultipleAccounts([authorityOf(api, buyer.wallet)]))
    .accounts;
  t.not(authorityIn(authority ?? null, api.deps.network.programId), null, 'the authority stays');

  const again = await api.call<{ transaction: string }>(
    'POST',
    `/subscriber/plans/${plan.id}/subscribe`,
    { token: buyer.token },
  );
  await api.submit(buyer.keypair, again.body.data.transaction);
  t.equal(await delegateOf(api, buyer.wallet), authorityOf(api, buyer.wallet), 'approved again');
});

void t.test(
  'an approval stays while another account uses it or their number is unknown',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    const other = await api.publishedPlan(merchant, { name: 'Other' });
    const buyer = await api.signIn('subscriber', api.funded());
    const first = await bought(api, merchant, buyer, plan.id);
    await first.act('cancel');
    passDays(api, 2);
    finalize(api);
    // Not registered here: an account of another app of the program counts as much.
    await api.subscribed(buyer, other.id);
    await first.act('close');
    t.equal(await delegateOf(api, buyer.wallet), authorityOf(api, buyer.wallet));

    const poor = await api.signIn('subscriber', api.funded());
    const last = await bought(api, merchant, poor, plan.id);
    await last.act('cancel');
    passDays(api, 2);
    finalize(api);
    await rpcCall(api.localnet.rpcUrl, 'localnet_setFault', {
      kind: 'status',
      status: 500,
      methods: ['getProgramAccounts'],
    });
    await last.act('close');
    t.equal(await delegateOf(api, poor.wallet), authorityOf(api, poor.wallet), 'unknown is more');
  },
);

void t.test(
  'standing and warnings name an approval of another program before a transaction replaces it',
  async (t) => {
    const api = await chainApi(t);
    const plan = await api.publishedPlan(await api.merchant());
    const buyer = await api.signIn('subscriber', api.funded());
    const { token, wallet, keypair } = buyer;
    const delegate = randomAddress();
    const { blockhash } = await api.deps.chain.getLatestBlockhash();
    const { mint } = api.deps.network;
    const approval = approve({ owner: wallet, mint, delegate, amount: 50_000_000n });
    await api.submit(keypair, unsignedTransaction(wallet, [approval], blockhash));
    const standing = () => api.call('GET', `/subscriber/plans/${plan.id}/standing`, { token });
    t.same((await standing()).body.data.replaces, { delegate, amount: '50000000' });
    const offer = await api.call<{ transaction: string; warnings: object[] }>(
      'POST',
      `/subscriber/plans/${plan.id}/subscribe`,
      { token },
    );
    t.match(offer.body.data.warnings, [
      { code: 'approval_replaced', message: new RegExp(`${delegate} for 50\\.00 USDC`) },
    ]);
    await api.submit(keypair, offer.body.data.transaction);
    t.equal((await standing()).body.data.replaces, null);
  },
);

void t.test(
  'a wallet can revoke its approval, and close the authority only on explicit request',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    const buyer = await api.signIn('subscriber', api.funded());
    const { token, wallet, keypair } = buyer;
    const revoke = (body?: object) =>
      api.call<{ transaction: string; subscriptions: number | null; credit?: string }>(
        'POST',
        '/subscriber/approval/revoke',
        { token, body },
      );
    t.equal((await revoke()).status, 409, 'nothing to revoke');
    const { act } = await bought(api, merchant, buyer, plan.id);
    const authority = async () =>
      authorityIn(
        (await api.deps.chain.getMultipleAccounts([authorityOf(api, wallet)])).accounts[0] ?? null,
        api.deps.network.programId,
      );
    const asked = await revoke();
    t.match(asked, { status: 200, body: { data: { subscriptions: 1 } } });
    await api.submit(keypair, asked.body.data.transaction);
    t.equal(await delegateOf(api, wallet), null);
    t.not(await authority(), null);
    t.equal((await revoke()).status, 409);
    await act('repair');
    t.equal(await delegateOf(api, wallet), authorityOf(api, wallet), 'a new approval repairs it');

    t.equal((await revoke({ closeAuthority: 'yes' })).status, 400);
    const closing = await revoke({ closeAuthority: true });
    t.equal(closing.body.data.credit, undefined, 'no credit is left');
    const [{ id }] = await api.sql<[{ id: string }]>`select id from subscriptions`;
    await grantCredit(api.sql, id, 1_500_000n);
    t.equal((await revoke({ closeAuthority: true })).body.data.credit, '1500000', 'it is named');
    await api.submit(keypair, closing.body.data.transaction);
    t.equal(await delegateOf(api, wallet), null);
    t.equal(await authority(), null);
    t.equal((await revoke({ closeAuthority: true })).status, 409);
    t.equal((await api.call('POST', '/subscriber/approval/revoke', {})).status, 401);
    t.equal(
      (await api.call('POST', '/subscriber/approval/revoke', { token: merchant.key })).status,
      403,
    );
  },
);
