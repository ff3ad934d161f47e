// A merchant refunds a payment: at most the net amount, by a transfer that its wallet signs.
import { Message } from '@solana/web3.js';
import t from 'tap';
import { tokenAccountIn } from '../../../src/chain/program/accounts.ts';
import { tokenAccountAddress } from '../../../src/chain/program/addresses.ts';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { addSignature } from '../../../src/chain/transactions/message.ts';
import { createLog } from '../../../src/log.ts';
import { type ChainApi, chainApi, randomAddress } from '../../fixtures/http.ts';
import { insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

interface Refund {
  id: string;
  amount: string;
  status: string;
  transaction: string;
  offerId: string;
}

/** A payment of 10 USDC with a fee of 0.1, and a merchant with these balances in base units. */
async function paid(
  t: Parameters<typeof chainApi>[0],
  { usdc = 50_000_000n, lamports = 10_000_000_000n } = {},
) {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  api.localnet.fund(merchant.wallet, { lamports, usdc });
  api.localnet.mineBlocks(3);
  const planId = await insertPlan(api.sql, merchant, { mint: api.localnet.mint });
  const subscriberWallet = randomAddress();
  const id = await insertSubscription(
    api.sql,
    { appId: merchant.appId, planId },
    { subscriberWallet },
  );
  const paymentId = await insertPayment(api.sql, id, '2026-01-01T00:00:00Z');
  const path = `/merchant/apps/${merchant.appId}/transactions/${paymentId}/refunds`;
  const ask = (amount?: string, headers = {}) =>
    api.call<Refund>('POST', path, {
      token: merchant.key,
      body: amount === undefined ? {} : { amount },
      headers,
    });
  return { api, merchant, subscriberWallet, subscriptionId: id, path, ask };
}

async function usdcOf({ localnet }: ChainApi, owner: string): Promise<bigint> {
  const log = createLog('test', { level: 'silent', pretty: false, stream: 'stderr' });
  const rpc = createRpc({ urls: [localnet.rpcUrl], log });
  const { accounts } = await rpc.getMultipleAccounts([
    tokenAccountAddress(owner, localnet.mint).address,
  ]);
  await rpc.close();
  return tokenAccountIn(accounts[0] ?? null)?.amount ?? 0n;
}

void t.test(
  'a refund opens the subscriber’s token account if missing, and is pending until a keeper finds it',
  async (t) => {
    const { api, merchant, subscriberWallet, path, ask } = await paid(t);
    const refund = await ask('4000000');
    t.match(refund, { status: 201, body: { data: { amount: '4000000', status: 'pending' } } });
    await api.submit(merchant.keypair, refund.body.data.transaction);
    t.equal(await usdcOf(api, subscriberWallet), 4_000_000n);
    t.equal(await usdcOf(api, merchant.wallet), 46_000_000n);
    const list = await api.call<Refund[]>('GET', path, { token: merchant.key });
    t.match(list.body.data, [{ id: refund.body.data.id, status: 'pending', txSignature: null }]);
    const [offer] = await api.sql`select purpose, wallet from offers`;
    t.match(offer, { purpose: 'refund', wallet: merchant.wallet }, 'the relay takes it');
  },
);

void t.test('the relay accepts a refund only with its own blockhash', async (t) => {
  const { api, merchant, ask } = await paid(t);
  const { transaction, offerId } = (await ask('1')).body.data;
  const message = Message.from(Buffer.from(transaction, 'base64').subarray(65));
  message.recentBlockhash = randomAddress();
  const bytes = message.serialize();
  const signed = Buffer.concat([Buffer.of(1), merchant.keypair.sign(bytes), bytes]);
  const { body } = await api.call('POST', '/merchant/transactions', {
    token: merchant.token,
    body: { transaction: signed.toString('base64'), offerId },
  });
  t.match(body.error, { details: [{ message: /a refund keeps its blockhash/ }] });
});

void t.test('refunds beyond the net amount, counting pending refunds, get CONFLICT', async (t) => {
  const { api, path, ask, merchant } = await paid(t);
  t.match(await ask('9900001'), {
    status: 400,
    body: { error: { details: [{ path: 'amount' }] } },
  });
  const headers = { 'idempotency-key': 'once' };
  const first = await ask('9000000', headers);
  t.equal((await ask('9000000', headers)).text, first.text, 'asked again, it is the same one');
  const both = await Promise.all([ask('500000'), ask('500000')]);
  t.same(both.map(({ status }) => status).sort(), [201, 400], 'two at once: one fits');
  t.match((await ask()).body.data, { amount: '400000' });
  t.equal((await ask()).status, 409);
  await api.sql`update refunds set status = 'expired'`;
  t.match((await ask()).body.data, { amount: '9900000' }, 'an expired one counts no more');
  const other = await api.merchant();
  t.equal((await api.call('POST', path, { token: other.key })).status, 403);
  for (const amount of ['0', '-1', '1.5']) t.equal((await ask(amount)).status, 400, amount);
  t.equal((await api.call('GET', path, { token: merchant.key })).status, 200);
});

void t.test('a failed payment cannot be refunded, nor more than the merchant owns', async (t) => {
  const { api, merchant, subscriptionId, ask } = await paid(t, { usdc: 1_000_000n });
  t.equal((await ask('1000001')).status, 409);
  t.equal((await ask('1000000')).status, 201);
  const failed = await insertPayment(api.sql, subscriptionId, '2026-02-01T00:00:00Z', {
    failureReason: 'insufficient_funds',
  });
  const path = `/merchant/apps/${merchant.appId}/transactions/${failed}/refunds`;
  t.equal((await api.call('POST', path, { token: merchant.key })).status, 409);
});

void t.test(
  'a payment has at most three open refunds, without those that the relay took',
  async (t) => {
    const { api, merchant, ask } = await paid(t);
    const asked = [];
    for (let count = 0; count < 3; count += 1) asked.push((await ask('1')).body.data);
    const refused = {
      status: 409,
      body: { error: { code: 'CONFLICT', message: /^3 refunds of this payment wait/ } },
    };
    t.match(await ask('1'), refused);
    const [{ transaction, offerId }] = asked as [Refund];
    const sent = await api.call('POST', '/merchant/transactions', {
      token: merchant.token,
      body: { transaction: addSignature(merchant.keypair, transaction), offerId },
    });
    t.equal(sent.status, 200);
    t.equal((await ask('1')).status, 201, 'the relay has taken one');
    t.match(await ask('1'), refused);
    api.localnet.mineBlocks(200);
    for (let count = 0; count < 3; count += 1)
      t.equal((await ask('1')).status, 201, 'they are dead');
    t.match(await ask('1'), refused);
  },
);

void t.test('a signed refund whose transaction fails stays open', async (t) => {
  const { api, merchant, ask } = await paid(t, { lamports: 0n });
  for (let count = 0; count < 3; count += 1) {
    const { transaction, offerId } = (await ask('1')).body.data;
    const sent = await api.call('POST', '/merchant/transactions', {
      token: merchant.token,
      body: { transaction: addSignature(merchant.keypair, transaction), offerId },
    });
    t.match(sent, { status: 200, body: { data: { status: 'failed', reason: /too little SOL/ } } });
  }
  t.match(await ask('1'), {
    status: 409,
    body: { error: { message: /^3 refunds of this payment wait/ } },
  });
});

void t.test('a merchant has at most fifty open refunds over all its apps', async (t) => {
  const { api, merchant, subscriptionId, ask } = await paid(t);
  const [payment] = await api.sql<{ id: string }[]>`select id from payments`;
  const { body } = await api.call<{ id: string }>('POST', '/merchant/apps', {
    token: merchant.key,
    body: { name: 'Other' },
  });
  const fill = (appId: string, count: number) => api.sql`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference, blockhash,
      last_valid_block_height, blockhash_slot)
    select ${appId}, ${payment!.id}, ${subscriptionId}, 1, ${appId} || n, 'hash', 1000000, 1
    from generate_series(1, ${count}) as n`;
  await fill(body.data.id, 49);
  const next = await insertPayment(api.sql, subscriptionId, '2026-02-01T00:00:00Z');
  const askNext = () =>
    api.call('POST', `/merchant/apps/${merchant.appId}/transactions/${next}/refunds`, {
      token: merchant.key,
      body: { amount: '1' },
    });
  t.equal((await askNext()).status, 201);
  t.match(await askNext(), {
    status: 409,
    body: { error: { message: /^50 refunds of yours wait for your signature/ } },
  });
  await api.sql`update refunds set last_valid_block_height = 0 where payment_id = ${payment!.id}`;
  t.equal((await ask('1')).status, 201);
});
