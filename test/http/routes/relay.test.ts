// POST /subscriber/transactions and POST /merchant/transactions: only transactions that the service
// built for the wallet are sent.
import { randomInt } from 'node:crypto';
import {
  Message,
  PublicKey,
  TransactionInstruction,
  TransactionMessage,
  type TransactionInstructionCtorFields,
} from '@solana/web3.js';
import t from 'tap';
import type { Keypair } from '../../../src/chain/keypair.ts';
import { type ChainApi, chainApi, randomAddress } from '../../fixtures/http.ts';
import { call as rpcCall } from '../../fixtures/localnet.ts';
import { isLong } from '../../fixtures/long.ts';
import { ASSERTION_PROGRAM } from '../../fixtures/page-wallet.ts';

const MEMO_PROGRAM = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr';

interface Relayed {
  status: string;
  reason: string | null;
  signature: string;
  subscription: { id: string; status: string } | null;
}

function sign(keypair: Keypair, transaction: string): string {
  const bytes = Buffer.from(transaction, 'base64');
  keypair.sign(bytes.subarray(65)).copy(bytes, 1);
  return bytes.toString('base64');
}

/** The transaction with further instructions after the built ones, signed. */
function extended(
  keypair: Keypair,
  transaction: string,
  ...further: TransactionInstructionCtorFields[]
): string {
  const message = TransactionMessage.decompile(
    Message.from(Buffer.from(transaction, 'base64').subarray(65)),
  );
  message.instructions.push(...further.map((fields) => new TransactionInstruction(fields)));
  const bytes = Buffer.from(message.compileToLegacyMessage().serialize());
  return Buffer.concat([Buffer.of(1), keypair.sign(bytes), bytes]).toString('base64');
}

/** A chain whose blocks come by themselves while the relay waits. */
async function stage(t: Parameters<typeof chainApi>[0]): Promise<ChainApi> {
  const api = await chainApi(t);
  const timer = setInterval(() => api.localnet.mineBlocks(), 50);
  t.teardown(() => clearInterval(timer));
  return api;
}

async function opening(api: ChainApi, keypair = api.funded()) {
  const merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const subscriber = await api.signIn('subscriber', keypair);
  const { body } = await api.call<{ transaction: string; subscriptionPda: string }>(
    'POST',
    `/subscriber/plans/${plan.id}/subscribe`,
    { token: subscriber.token },
  );
  return { merchant, plan, subscriber, keypair, ...body.data };
}

const send = (api: ChainApi, token: string, transaction: string) =>
  api.call<Relayed>('POST', '/subscriber/transactions', { token, body: { transaction } });

void t.test('a signed subscription is sent, confirmed and registered, once', async (t) => {
  const api = await stage(t);
  const { subscriber, keypair, transaction, subscriptionPda } = await opening(api);
  const signed = sign(keypair, transaction);
  const { status, body } = await send(api, subscriber.token, signed);
  t.equal(status, 200);
  t.match(body.data, { status: 'confirmed', reason: null, subscription: { status: 'active' } });
  const [row] = await api.sql<
    { subscriptionPda: string }[]
  >`select subscription_pda from subscriptions`;
  t.equal(row?.subscriptionPda, subscriptionPda);
  const again = await send(api, subscriber.token, signed);
  t.same(again.body.data, body.data, 'the same request again has the same answer');
  t.equal((await api.sql`select 1 from subscriptions`).length, 1);
  t.equal((await api.sql`select 1 from events where type = 'subscription_created'`).length, 1);
});

void t.test(
  'signed cancels, resumes and publications are sent and confirmed in the same way',
  async (t) => {
    const api = await stage(t);
    const { subscriber, keypair, transaction } = await opening(api);
    const { body } = await send(api, subscriber.token, sign(keypair, transaction));
    const id = body.data.subscription?.id ?? '';
    for (const verb of ['cancel', 'resume']) {
      const built = await api.call<{ transaction: string }>(
        'POST',
        `/subscriber/subscriptions/${id}/${verb}`,
        { token: subscriber.token },
      );
      const sent = await send(api, subscriber.token, sign(keypair, built.body.data.transaction));
      t.match(sent.body.data, { status: 'confirmed', subscription: { id } }, verb);
    }
    const selling = await api.merchant();
    api.localnet.fund(selling.wallet, { lamports: 1_000_000_000n });
    const update = await api.call<{ id: string; transaction: string }>(
      'POST',
      `/merchant/apps/${selling.appId}/plans`,
      { token: selling.token, body: { name: 'Yearly', amount: '5', periodHours: 8760 } },
    );
    const published = await api.call<{ status: string; plan: { status: string } }>(
      'POST',
      '/merchant/transactions',
      {
        token: selling.key,
        body: { transaction: sign(selling.keypair, update.body.data.transaction) },
      },
    );
    t.match(published.body.data, {
      status: 'confirmed',
      plan: { id: update.body.data.id, status: 'active' },
    });
  },
);

void t.test('assertion instructions that the wallet appended are allowed', async (t) => {
  const api = await stage(t);
  const { subscriber, keypair, transaction } = await opening(api);
  // The local chain has no assertion program: the memo program is deployed at its address.
  const { value } = await rpcCall<{ value: { data: [string]; owner: string } }>(
    api.localnet.rpcUrl,
    'getAccountInfo',
    MEMO_PROGRAM,
    { encoding: 'base64' },
  );
  await rpcCall(api.localnet.rpcUrl, 'surfnet_setAccount', ASSERTION_PROGRAM, {
    lamports: 10_000_000_000,
    owner: value.owner,
    executable: true,
    data: Buffer.from(value.data[0], 'base64').toString('hex'),
  });
  const assertion = {
    programId: new PublicKey(ASSERTION_PROGRAM),
    keys: [],
    data: Buffer.from('fine'),
  };
  const { body } = await send(
    api,
    subscriber.token,
    extended(keypair, transaction, assertion, assertion),
  );
  t.match(body.data, { status: 'confirmed', subscription: { status: 'active' } });
});

void t.test('other transactions are refused and not sent', async (t) => {
  const api = await stage(t);
  const { subscriber, keypair, transaction, plan } = await opening(api);
  const other = api.funded();
  const stranger = await api.signIn('subscriber', other);
  const assertion = new PublicKey(ASSERTION_PROGRAM);
  const wallet = new PublicKey(keypair.address);
  const foreign = new PublicKey(randomAddress());
  const data = Buffer.from('x');
  const readOnly = Message.from(Buffer.from(transaction, 'base64').subarray(65)).accountKeys.at(-1);
  const cases: [string, string, string?][] = [
    ['unsigned', transaction],
    ['not base64', 'a'.repeat(200)],
    ['signed by another wallet', sign(other, transaction)],
    ['of another wallet', sign(keypair, transaction), stranger.token],
    [
      'another program appended',
      extended(keypair, transaction, { programId: new PublicKey(MEMO_PROGRAM), keys: [], data }),
    ],
    [
      'an assertion that writes to a foreign account',
      extended(keypair, transaction, {
        programId: assertion,
        keys: [{ pubkey: foreign, isSigner: false, isWritable: true }],
        data,
      }),
    ],
    [
      'an assertion that writes to an account that we only read',
      extended(keypair, transaction, {
        programId: assertion,
        keys: [{ pubkey: readOnly ?? wallet, isSigner: false, isWritable: true }],
        data,
      }),
    ],
    [
      'an assertion before the built instructions',
      (() => {
        const message = TransactionMessage.decompile(
          Message.from(Buffer.from(transaction, 'base64').subarray(65)),
        );
        message.instructions.unshift(
          new TransactionInstruction({ programId: assertion, keys: [], data }),
        );
        const bytes = Buffer.from(message.compileToLegacyMessage().serialize());
        return Buffer.concat([Buffer.of(1), keypair.sign(bytes), bytes]).toString('base64');
      })(),
    ],
  ];
  for (const [name, given, token = subscriber.token] of cases) {
    const { status, body } = await send(api, token, given);
    t.equal(status, 400, name);
    t.equal(body.error?.code, 'VALIDATION_ERROR', name);
  }
  const merchantSide = await api.merchant();
  const twin = await api.call('POST', '/merchant/transactions', {
    token: merchantSide.token,
    body: { transaction: sign(keypair, transaction) },
  });
  t.equal(twin.status, 400, 'the merchant’s relay takes no other wallet’s');
  t.equal((await api.sql`select 1 from subscriptions where plan_id = ${plan.id}`).length, 0);
  const { value } = await rpcCall<{ value: unknown }>(
    api.localnet.rpcUrl,
    'getAccountInfo',
    (await opening(api, keypair)).subscriptionPda,
  );
  t.equal(value, null, 'nothing is on chain');
});

void t.test('a transaction with any changed byte is refused and not sent', async (t) => {
  let sent = 0;
  const api = await chainApi(t);
  const { subscriber, keypair, transaction } = await opening(api);
  api.deps.chain.sendTransaction = () => Promise.reject(new Error(`sent ${(sent += 1)}`));
  const good = Buffer.from(sign(keypair, transaction), 'base64');
  const answers = new Map<number, number>();
  const runs = isLong ? 10_000 : good.length;
  for (let run = 0; run < runs; run += 1) {
    const bytes = Buffer.from(good);
    // Changes every byte once, then random ones; in half of the cases the wallet signs the change.
    const place = run < good.length ? run : randomInt(good.length);
    bytes.writeUInt8(bytes.readUInt8(place) ^ randomInt(1, 256), place);
    if (place >= 65 && run % 2 === 0) keypair.sign(bytes.subarray(65)).copy(bytes, 1);
    const { status } = await send(api, subscriber.token, bytes.toString('base64'));
    answers.set(status, (answers.get(status) ?? 0) + 1);
  }
  t.same([...answers], [[400, runs]]);
  t.equal(sent, 0);
});

void t.test('a lapsed transaction is refused as lapsed', async (t) => {
  const api = await chainApi(t);
  const { subscriber, keypair, transaction } = await opening(api);
  api.localnet.mineBlocks(200);
  const { body } = await send(api, subscriber.token, sign(keypair, transaction));
  t.match(body.data, { status: 'lapsed', reason: null, subscription: null });
});

void t.test('a wallet without SOL is refused before anything is sent', async (t) => {
  const api = await chainApi(t);
  const keypair = api.funded();
  const { subscriber, transaction } = await opening(api, keypair);
  await rpcCall(api.localnet.rpcUrl, 'surfnet_setAccount', keypair.address, { lamports: 1 });
  api.localnet.mineBlocks(3);
  const { body } = await send(api, subscriber.token, sign(keypair, transaction));
  t.match(body.data, { status: 'failed', reason: /too little SOL/ });
});

void t.test(
  'a transaction that is not confirmed in eight seconds is pending, and can be requested again',
  async (t) => {
    const api = await chainApi(t);
    const { subscriber, keypair, transaction } = await opening(api);
    const signed = sign(keypair, transaction);
    const first = await send(api, subscriber.token, signed);
    t.match(first.body.data, { status: 'pending' });
    api.localnet.mineBlocks(3);
    const second = await send(api, subscriber.token, signed);
    t.match(second.body.data, { status: 'confirmed', subscription: { status: 'active' } });
  },
);

void t.test(
  'offers lose their message after ten minutes, and are forgotten after 24 hours',
  async (t) => {
    const { deleteOldOffers } = await import('../../../src/db/offered-transactions.ts');
    const api = await chainApi(t);
    await opening(api);
    t.equal(await deleteOldOffers(api.sql), 0);
    await api.sql`update offered_transactions set created_at = now() - interval '11 minutes'`;
    t.ok((await deleteOldOffers(api.sql)) > 0);
    t.same(await api.sql`select distinct purpose, message from offered_transactions`, [
      { purpose: 'subscribe', message: null },
    ]);
    await api.sql`update offered_transactions set created_at = now() - interval '25 hours'`;
    t.ok((await deleteOldOffers(api.sql)) > 0);
    t.same(await api.sql`select 1 from offered_transactions`, []);
  },
);
