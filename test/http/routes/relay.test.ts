// POST /subscriber/transactions and POST /merchant/transactions: only transactions that the service
// built for the wallet are sent.
import { randomInt } from 'node:crypto';
import {
  ComputeBudgetProgram,
  Message,
  PublicKey,
  SystemProgram,
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
  return changed(keypair, transaction, (message) => {
    message.instructions.push(...further.map((fields) => new TransactionInstruction(fields)));
  });
}

const messageOf = (transaction: string) =>
  TransactionMessage.decompile(Message.from(Buffer.from(transaction, 'base64').subarray(65)));

/** The transaction as a wallet signs it that changes it first. */
function changed(
  keypair: Keypair,
  transaction: string,
  change: (message: TransactionMessage) => void,
  compile = (message: TransactionMessage): { serialize(): Uint8Array } =>
    message.compileToLegacyMessage(),
): string {
  const message = messageOf(transaction);
  change(message);
  const bytes = Buffer.from(compile(message).serialize());
  return Buffer.concat([Buffer.of(1), keypair.sign(bytes), bytes]).toString('base64');
}

const isBudget = ({ programId }: TransactionInstruction) =>
  programId.equals(ComputeBudgetProgram.programId);

/** Sets the price of compute units as some wallets do, and the limit. */
const priced =
  (microLamports: number, units?: number) =>
  (message: TransactionMessage): void => {
    message.instructions = [
      ...message.instructions.filter((one) => !isBudget(one)),
      ComputeBudgetProgram.setComputeUnitPrice({ microLamports }),
      ...(units === undefined ? [] : [ComputeBudgetProgram.setComputeUnitLimit({ units })]),
    ];
  };

const dataOf = ({ data }: TransactionInstruction) => data;

const latest = async ({ localnet }: ChainApi) =>
  (await rpcCall<{ value: { blockhash: string } }>(localnet.rpcUrl, 'getLatestBlockhash')).value
    .blockhash;

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
  const { body } = await api.call<{
    transaction: string;
    subscriptionPda: string;
    minContextSlot: number;
  }>('POST', `/subscriber/plans/${plan.id}/subscribe`, { token: subscriber.token });
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
  const taken = () => api.sql<{ signature: string; relayedAt: Date }[]>`
    select signature, signed_at from offers where signature is not null`;
  const [first] = await taken();
  t.equal(first?.signature, body.data.signature, 'the offer has the signature');
  const again = await send(api, subscriber.token, signed);
  t.same(again.body.data, body.data, 'the same request again has the same answer');
  t.same(await taken(), [first], 'when the relay first took it stays');
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

void t.test('assertion instructions are accepted at any place in a transaction', async (t) => {
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
    changed(keypair, transaction, ({ instructions }) => {
      for (const index of [0, 3, instructions.length + 2])
        instructions.splice(index, 0, new TransactionInstruction(assertion));
    }),
  );
  t.match(body.data, { status: 'confirmed', subscription: { status: 'active' } });
});

void t.test(
  'a wallet may set its own fee, blockhash and version: the transaction lands',
  async (t) => {
    const api = await stage(t);
    const renewed = async (message: TransactionMessage) => {
      const before = message.recentBlockhash;
      while (message.recentBlockhash === before) message.recentBlockhash = await latest(api);
    };
    const unchanged = () => undefined;
    const ways: [string, (message: TransactionMessage) => unknown, 'legacy' | 'v0'][] = [
      ['a price of 100,000 micro-lamports', priced(100_000, 600_000), 'legacy'],
      ['a price without a limit', priced(5_000), 'legacy'],
      ['a newer blockhash', renewed, 'legacy'],
      ['version 0', unchanged, 'v0'],
    ];
    for (const [name, change, version] of ways) {
      const { subscriber, keypair, transaction } = await opening(api);
      const message = messageOf(transaction);
      await change(message);
      const signed = changed(
        keypair,
        transaction,
        () => undefined,
        () => (version === 'v0' ? message.compileToV0Message() : message.compileToLegacyMessage()),
      );
      const { body } = await send(api, subscriber.token, signed);
      t.match(body, { data: { status: 'confirmed', subscription: { status: 'active' } } }, name);
    }
  },
);

void t.test('every other change by a wallet is refused by name', async (t) => {
  let sent = 0;
  const api = await chainApi(t);
  const { subscriber, keypair, transaction } = await opening(api);
  api.deps.chain.sendTransaction = () => Promise.reject(new Error(`sent ${(sent += 1)}`));
  const payer = new PublicKey(keypair.address);
  const lamports = SystemProgram.transfer({ fromPubkey: payer, toPubkey: payer, lamports: 0 });
  const budget = (data: number[]) =>
    new TransactionInstruction({
      programId: ComputeBudgetProgram.programId,
      keys: [],
      data: Buffer.from(data),
    });
  const fixed = (message: TransactionMessage) =>
    message.instructions.filter((one) => !isBudget(one));
  const changes: [RegExp, (message: TransactionMessage) => void][] = [
    [/fee of 0\.010005 SOL is above 0\.01 SOL/, priced(10_000_000, 1_000_000)],
    [/fee of [\d.]+ SOL is above/, priced(10_000_000)],
    [/twice/, ({ instructions }) => void instructions.push(instructions.find(isBudget)!)],
    [
      /more of the compute budget/,
      ({ instructions }) => void instructions.push(budget([1, 0, 0, 4, 0])),
    ],
    [
      /more of the compute budget/,
      ({ instructions }) => void instructions.push(budget([4, 0, 0, 4, 0])),
    ],
    [
      /further instruction, of the program 1{32}/,
      ({ instructions }) => void instructions.push(lamports),
    ],
    [/its instruction 1 is not the one/, ({ instructions }) => void instructions.unshift(lamports)],
    [/lacks instruction/, ({ instructions }) => void instructions.pop()],
    [/its instruction 1 is not the one/, (message) => void message.instructions.reverse()],
    [
      /its instruction \d is not the one/,
      (message) => {
        const last = fixed(message).at(-1)!;
        last.data = Buffer.from(last.data);
        last.data.writeUInt8(last.data.readUInt8(last.data.length - 1) ^ 1, last.data.length - 1);
      },
    ],
    [
      /its instruction \d is not the one/,
      (message) => {
        const last = fixed(message).at(-1)!;
        last.keys = [...last.keys.slice(1), last.keys[0]!];
      },
    ],
    [
      /signed by your wallet alone/,
      ({ instructions }) => void (instructions.at(-1)!.keys[1]!.isSigner = true),
    ],
    [
      /other accounts writable/,
      (message) => {
        const key = fixed(message)
          .at(-1)!
          .keys.find(({ isWritable }) => !isWritable)!;
        key.isWritable = true;
      },
    ],
  ];
  for (const [named, change] of changes) {
    const { body } = await send(api, subscriber.token, changed(keypair, transaction, change));
    t.match(body.error, { code: 'VALIDATION_ERROR', details: [{ message: named }] }, `${named}`);
  }
  t.equal(sent, 0);
});

void t.test(
  'a relay request may name its offer; without a name exactly one offer must fit',
  async (t) => {
    const api = await stage(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    const keypair = api.funded();
    const { token } = await api.signIn('subscriber', keypair);
    const stranger = await api.signIn('subscriber');
    const ask = async (checkoutSessionId?: string, as = token) => {
      const path = `/subscriber/plans/${plan.id}/subscribe`;
      const { body } = await api.call<{ transaction: string; offerId: string }>('POST', path, {
        token: as,
        body: checkoutSessionId === undefined ? {} : { checkoutSessionId },
      });
      return body.data;
    };
    const session = await api.call<{ id: string }>(
      'POST',
      `/merchant/apps/${merchant.appId}/checkout-sessions`,
      { token: merchant.key, body: { planId: plan.id } },
    );
    const [first, second, foreign] = [
      await ask(),
      await ask(session.body.data.id),
      await ask(undefined, stranger.token),
    ];
    const transaction = sign(keypair, first.transaction);
    const named = (offerId: string | undefined) =>
      api.call<Relayed>('POST', '/subscriber/transactions', {
        token,
        body: { transaction, ...(offerId !== undefined && { offerId }) },
      });
    for (const offerId of [undefined, foreign.offerId, '01999999-0000-7000-8000-000000000000'])
      t.match((await named(offerId)).body.error, { details: [{ path: 'offerId' }] }, `${offerId}`);
    t.match((await named(second.offerId)).body.data, { status: 'confirmed' });
    const path = `/merchant/apps/${merchant.appId}/checkout-sessions/${session.body.data.id}`;
    const { body } = await api.call('GET', path, { token: merchant.key });
    t.match(body.data, { status: 'complete' }, 'the named offer was made in the checkout');
  },
);

void t.test(
  'an offer contains the slot that an endpoint must reach to know its blockhash',
  async (t) => {
    const api = await chainApi(t);
    const first = await opening(api);
    api.localnet.mineBlocks(7);
    const second = await opening(api, first.keypair);
    t.ok(second.minContextSlot >= first.minContextSlot + 7);
    const { recentBlockhash } = messageOf(second.transaction);
    const { value } = await rpcCall<{ value: boolean }>(
      api.localnet.rpcUrl,
      'isBlockhashValid',
      recentBlockhash,
      { commitment: 'confirmed', minContextSlot: second.minContextSlot },
    );
    t.ok(value);
  },
);

void t.test(
  "the wallet's own blockhash counts as expired when endpoints no longer accept it",
  async (t) => {
    const api = await chainApi(t);
    const { subscriber, keypair, transaction } = await opening(api);
    api.localnet.mineBlocks(2);
    const blockhash = await latest(api);
    const signed = changed(keypair, transaction, (message) => {
      message.recentBlockhash = blockhash;
    });
    await api.sql`update offers set last_valid_block_height = 0`;
    api.deps.chain.sendTransaction = () => Promise.resolve('');
    const status = async () => (await send(api, subscriber.token, signed)).body.data.status;
    t.equal(await status(), 'pending', 'the height of the offer says nothing');
    api.localnet.mineBlocks(200);
    t.equal(await status(), 'lapsed');
  },
);

void t.test('a transaction has lapsed only if two configured endpoints lack it', async (t) => {
  const api = await chainApi(t);
  const { subscriber, keypair, transaction } = await opening(api);
  const signed = sign(keypair, transaction);
  const { getLifetimesEverywhere, getSignatureStatuses } = api.deps.chain;
  let answering = 1;
  api.deps.chain.endpoints = () => 2;
  api.deps.chain.getLifetimesEverywhere = async (lifetimes) => {
    const [one] = await getLifetimesEverywhere(lifetimes);
    return Array.from({ length: answering }, () => one!);
  };
  api.deps.chain.getSignatureStatuses = async (...asked) => ({
    ...(await getSignatureStatuses(...asked)),
    witnesses: answering,
  });
  api.deps.chain.sendTransaction = () => Promise.resolve('');
  const status = async () => (await send(api, subscriber.token, signed)).body.data.status;
  api.localnet.mineBlocks(200);
  t.equal(await status(), 'pending', 'one endpoint says so');
  answering = 2;
  t.equal(await status(), 'lapsed');
});

void t.test('transactions that the service did not build are refused and not sent', async (t) => {
  const api = await stage(t);
  const { subscriber, keypair, transaction, plan } = await opening(api);
  const other = api.funded();
  const stranger = await api.signIn('subscriber', other);
  const assertion = new PublicKey(ASSERTION_PROGRAM);
  const foreign = new PublicKey(randomAddress());
  const data = Buffer.from('x');
  const readOnly = messageOf(transaction).instructions.at(-1)!.programId;
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
        keys: [{ pubkey: readOnly, isSigner: false, isWritable: true }],
        data,
      }),
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
  // A wallet may sign another blockhash, and another limit and price within bounds.
  const { instructions, recentBlockhash } = messageOf(transaction);
  const free = new Set(
    [
      new PublicKey(recentBlockhash).toBuffer(),
      ...instructions.filter(isBudget).map(dataOf),
    ].flatMap((part) => [...part.keys()].map((offset) => good.indexOf(part) + offset)),
  );
  const answers = new Map<number, number>();
  const runs = isLong ? 10_000 : good.length;
  for (let run = 0; run < runs; run += 1) {
    const bytes = Buffer.from(good);
    // Changes every byte once, then random ones; in half of the cases the wallet signs the change.
    const index = run < good.length ? run : randomInt(good.length);
    bytes.writeUInt8(bytes.readUInt8(index) ^ randomInt(1, 256), index);
    if (index >= 65 && run % 2 === 0 && !free.has(index))
      keypair.sign(bytes.subarray(65)).copy(bytes, 1);
    const { status } = await send(api, subscriber.token, bytes.toString('base64'));
    answers.set(status, (answers.get(status) ?? 0) + 1);
  }
  t.same([...answers], [[400, runs]]);
  t.equal(sent, 0);
});

void t.test('the relay reports a transaction with an expired blockhash as lapsed', async (t) => {
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

void t.test('a frozen wallet is refused with that reason before it signs', async (t) => {
  const api = await chainApi(t);
  const { plan, subscriber, keypair, transaction } = await opening(api);
  const { rpcUrl, mint } = api.localnet;
  const standing = async () =>
    (await api.call('GET', `/subscriber/plans/${plan.id}/standing`, { token: subscriber.token }))
      .body.data;
  t.match(await standing(), { frozen: false });
  await rpcCall(rpcUrl, 'surfnet_setTokenAccount', keypair.address, mint, { state: 'frozen' });
  api.localnet.mineBlocks(3);
  t.match(await standing(), { frozen: true });
  const { body } = await send(api, subscriber.token, sign(keypair, transaction));
  t.match(body.data, { status: 'failed', reason: /USDC account is frozen/ });
});

void t.test(
  'a transaction that is not confirmed in eight seconds is pending and can be polled again',
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
  'offers lose their message after ten minutes; those that open an account are kept up to 30 days',
  async (t) => {
    const { deleteOldOffers } = await import('../../../src/db/offers/offers.ts');
    const { giveUpOffers } = await import('../../../src/db/subscriptions/unregistered.ts');
    const api = await chainApi(t);
    const { subscriptionPda } = await opening(api);
    t.equal(await deleteOldOffers(api.sql), 0);
    const copy = (purpose: string, relayedAt: Date | null, pda = subscriptionPda) => api.sql`
      insert into offers (wallet, blockhash, message, last_valid_block_height,
        purpose, plan_id, subscription_pda, signature, signed_blockhash, signed_at,
        signed_last_valid_block_height, signed_blockhash_slot)
      select wallet, blockhash, message, last_valid_block_height, ${purpose}, plan_id,
        ${pda}, ${relayedAt === null ? null : 'signature'},
        ${relayedAt === null ? null : 'blockhash'}, ${relayedAt}::timestamptz,
        ${relayedAt === null ? null : 1}::int8, ${relayedAt === null ? null : 1}::int8
      from offers where purpose = 'subscribe' limit 1`;
    const left = () => api.sql`
      select purpose, message, signed_at is not null as relayed, subscription_pda as pda
      from offers order by purpose, pda`;
    await copy('resume', null);
    await copy('resume', new Date());
    await copy('cancel', new Date());
    await copy('subscribe', null, 'used');
    await api.sql`
      update offers set registered_at = now() where subscription_pda = 'used'`;
    await copy('subscribe', null, 'zother');
    const age = (days: number) =>
      api.sql`update offers set created_at = now() - ${days} * interval '1 day'`;
    await age(0.01);
    t.ok((await deleteOldOffers(api.sql)) > 0);
    const resume = { purpose: 'resume', message: null, relayed: true, pda: subscriptionPda };
    const subscribe = { purpose: 'subscribe', message: null, relayed: false };
    const open = { ...subscribe, pda: subscriptionPda };
    const other = { ...subscribe, pda: 'zother' };
    t.same((await left()).length, 4);
    await giveUpOffers(api.sql, [subscriptionPda]);
    await age(1.1);
    t.ok((await deleteOldOffers(api.sql)) > 0);
    t.same(
      await left(),
      [resume, open, other].sort((a, b) => (a.purpose + a.pda < b.purpose + b.pda ? -1 : 1)),
      'the used one is deleted; the others were younger when they were given up',
    );
    await giveUpOffers(api.sql, [subscriptionPda]);
    t.ok((await deleteOldOffers(api.sql)) > 0);
    t.same(await left(), [other]);
    await age(31);
    t.ok((await deleteOldOffers(api.sql)) > 0);
    t.same(await left(), []);
  },
);
