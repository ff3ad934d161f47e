// The chain's WebSocket: notifications, their times and receivers, and errors for malformed
// requests; with raw frames and with web3.js.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { ACCOUNT_SIZE, getAssociatedTokenAddressSync, TOKEN_PROGRAM_ID } from '@solana/spl-token';
import {
  type AccountInfo,
  Connection,
  type Context,
  Keypair,
  type KeyedAccountInfo,
  type Logs,
  PublicKey,
  type SignatureResult,
  type SlotInfo,
  SystemProgram,
  Transaction,
} from '@solana/web3.js';
import t, { type Test } from 'tap';
import { WebSocket } from 'undici';
import { openChain } from '../../../../src/local/chain/open.ts';
import { buildWs } from '../../../../src/local/chain/rpc/ws-server.ts';
import { FINALITY_BLOCKS } from '../../../../src/local/chain/state.ts';
import { startTestChain, type TestChain } from '../../../fixtures/localnet.ts';

interface Frame {
  readonly jsonrpc: '2.0';
  readonly id?: number | string | null;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
  readonly method?: string;
  readonly params?: { readonly subscription: number; readonly result: unknown };
}
interface InContext<T> {
  readonly context: { readonly slot: number };
  readonly value: T;
}

interface Notification<T> {
  readonly method: string | undefined;
  readonly subscription: number | undefined;
  readonly result: T;
}

/** A WebSocket without a client library on top. */
async function openSocket(t: Test, url: string) {
  const socket = new WebSocket(url);
  const frames: (Frame | Frame[])[] = [];
  let arrived: () => void = () => undefined;
  socket.addEventListener('message', ({ data }) => {
    frames.push(JSON.parse(String(data)) as Frame | Frame[]);
    arrived();
  });
  const closed = new Promise<number>((resolve) =>
    socket.addEventListener('close', ({ code }) => resolve(code)),
  );
  t.teardown(() => socket.close());
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve);
    socket.addEventListener('error', reject);
  });
  /** The next frame, in the order of arrival. */
  async function next(): Promise<Frame | Frame[]> {
    for (;;) {
      const frame = frames.shift();
      if (frame !== undefined) return frame;
      await new Promise<void>((resolve) => (arrived = resolve));
    }
  }
  let lastId = 0;
  const notifications: Frame[] = [];
  async function answerTo(id: number): Promise<Frame> {
    for (;;) {
      const frame = await next();
      if (Array.isArray(frame)) throw new Error('an answer to a batch came uncalled for');
      if (frame.id === id) return frame;
      notifications.push(frame);
    }
  }
  const ask = async (method: string, ...params: unknown[]): Promise<Frame> => {
    const id = (lastId += 1);
    socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
    return answerTo(id);
  };
  return {
    socket,
    closed,
    next,
    ask,
    /** Subscribes, which must succeed, and returns the subscription. */
    async get(method: string, ...params: unknown[]): Promise<number> {
      const { result, error } = await ask(method, ...params);
      if (typeof result !== 'number')
        throw new Error(`${method}: ${error?.message ?? 'no subscription'}`);
      return result;
    },
    /**
     * All notifications so far. Frames of a connection are ordered, so a response is received after
     * them.
     */
    async notifications<T = unknown>(): Promise<Notification<T>[]> {
      await ask('nothing');
      return notifications.splice(0).map(
        ({ method, params }) =>
          ({
            method,
            subscription: params?.subscription,
            result: params?.result,
          }) as Notification<T>,
      );
    },
  };
}

/** A chain that only mines blocks on request, and a raw socket to it. */
async function setup(t: Test) {
  const chain = await startTestChain(t, { blockMs: 0 });
  chain.mineBlocks(FINALITY_BLOCKS + 1);
  return { chain, socket: await openSocket(t, chain.wsUrl) };
}

const ata = ({ mint }: TestChain, owner: string) =>
  getAssociatedTokenAddressSync(new PublicKey(mint), new PublicKey(owner)).toBase58();

/** Sends a payment without preflight and returns its signature: it may well fail. */
async function pay(
  chain: TestChain,
  from: Keypair,
  to: PublicKey,
  lamports: number,
): Promise<string> {
  const { value } = await chain.rpc<{ value: { blockhash: string; lastValidBlockHeight: number } }>(
    'getLatestBlockhash',
  );
  const transaction = new Transaction({ feePayer: from.publicKey, ...value });
  transaction
    .add(SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to, lamports }))
    .sign(from);
  return chain.rpc('sendTransaction', transaction.serialize().toString('base64'), {
    encoding: 'base64',
    skipPreflight: true,
  });
}

void t.test(
  'an account’s changes are notified as they are processed, confirmed and finalized',
  async (t) => {
    const { chain, socket } = await setup(t);
    const address = Keypair.generate().publicKey.toBase58();
    const names = new Map<number | undefined, string>();
    for (const commitment of ['processed', 'confirmed', 'finalized']) {
      names.set(
        await socket.get('accountSubscribe', address, { commitment, encoding: 'base64' }),
        commitment,
      );
    }
    names.set(await socket.get('accountSubscribe', address), 'unsaid');
    const notified = async () =>
      (await socket.notifications<InContext<{ lamports: number }>>()).map(
        ({ subscription, result }) => [
          names.get(subscription),
          result.context.slot,
          result.value.lamports,
        ],
      );
    const slot = chain.slot();
    chain.fund(address, { lamports: 1_000_000n });
    chain.fund(address, { lamports: 500_000n });
    t.same(await notified(), [
      ['processed', slot, 1_000_000],
      ['processed', slot, 1_500_000],
    ]);
    chain.mineBlocks();
    t.same(await notified(), [['confirmed', slot, 1_500_000]], 'once for all that a block did');
    chain.mineBlocks(FINALITY_BLOCKS - 2);
    t.same(await notified(), []);
    chain.mineBlocks();
    t.same(
      await notified(),
      [
        ['finalized', slot, 1_500_000],
        ['unsaid', slot, 1_500_000],
      ],
      'finalized is what is meant when nothing is said',
    );
  },
);

void t.test(
  'an account notification has the requested encoding, and an empty account if it is gone',
  async (t) => {
    const { chain, socket } = await setup(t);
    const { keypair, address } = chain.wallet({ lamports: 1_000_000n, usdc: 7n });
    const account = ata(chain, address);
    chain.mineBlocks();
    const config = { commitment: 'processed' };
    const parsed = await socket.get('accountSubscribe', account, {
      ...config,
      encoding: 'jsonParsed',
    });
    const bytes = await socket.get('accountSubscribe', account, { ...config, encoding: 'base64' });
    const payer = await socket.get('accountSubscribe', address, { ...config, encoding: 'base64' });
    chain.fund(address, { usdc: 5n });
    const notified =
      await socket.notifications<InContext<{ data: unknown; owner: string; space: number }>>();
    t.match(notified, [
      {
        method: 'accountNotification',
        subscription: parsed,
        result: {
          value: {
            data: {
              program: 'spl-token',
              parsed: { type: 'account', info: { tokenAmount: { amount: '12' } } },
            },
          },
        },
      },
      {
        method: 'accountNotification',
        subscription: bytes,
        result: { value: { owner: TOKEN_PROGRAM_ID.toBase58(), space: ACCOUNT_SIZE } },
      },
    ]);
    const [data, encoding] = notified[1]?.result.value.data as [string, string];
    t.equal(encoding, 'base64');
    t.equal(Buffer.from(data, 'base64').readBigUInt64LE(64), 12n);

    await pay(chain, keypair, new PublicKey(chain.faucet), 1_000_000 - 5_000);
    t.match(await socket.notifications(), [
      {
        subscription: payer,
        result: {
          value: {
            lamports: 0,
            owner: SystemProgram.programId.toBase58(),
            data: ['', 'base64'],
            space: 0,
          },
        },
      },
    ]);
  },
);

void t.test('a program’s accounts are notified when every filter matches', async (t) => {
  const { chain, socket } = await setup(t);
  const [one, other] = [chain.wallet({ usdc: 1n }), chain.wallet({ usdc: 1n })];
  chain.mineBlocks();
  const program = TOKEN_PROGRAM_ID.toBase58();
  const ofOne = { memcmp: { offset: 32, bytes: one.address } };
  const subscribe = (filters: unknown[], commitment = 'processed') =>
    socket.get('programSubscribe', program, { commitment, encoding: 'base64', filters });
  const names = new Map([
    [await subscribe([{ dataSize: ACCOUNT_SIZE }, ofOne]), 'one'],
    [await subscribe([{ dataSize: ACCOUNT_SIZE }]), 'any'],
    [await subscribe([{ dataSize: ACCOUNT_SIZE + 1 }, ofOne]), 'none'],
    [await subscribe([ofOne], 'confirmed'), 'one, confirmed'],
    [
      await socket.get('programSubscribe', SystemProgram.programId.toBase58(), {
        commitment: 'processed',
      }),
      'system',
    ],
  ]);
  const notified = async () =>
    (await socket.notifications<InContext<{ pubkey: string; account: { owner: string } }>>())
      .map(({ method, subscription, result }) => [
        method,
        names.get(subscription ?? 0),
        result.value.pubkey,
        result.value.account.owner,
      ])
      .filter(([, name]) => name !== 'system');
  chain.fund(other.address, { usdc: 2n });
  t.same(await notified(), [['programNotification', 'any', ata(chain, other.address), program]]);
  chain.fund(one.address, { usdc: 2n });
  t.same(await notified(), [
    ['programNotification', 'one', ata(chain, one.address), program],
    ['programNotification', 'any', ata(chain, one.address), program],
  ]);
  chain.mineBlocks();
  t.same(await notified(), [
    ['programNotification', 'one, confirmed', ata(chain, one.address), program],
  ]);
});

void t.test(
  'a signature is reported once, at the requested commitment, and its subscription ends',
  async (t) => {
    const { chain, socket } = await setup(t);
    const { keypair } = chain.wallet();
    chain.mineBlocks(FINALITY_BLOCKS);
    await chain.rpc('localnet_setFault', { kind: 'hold', blocks: 1, count: 1 });
    const signature = await pay(chain, keypair, keypair.publicKey, 1);
    const names = new Map<number | undefined, string>();
    for (const commitment of ['processed', 'confirmed', 'finalized']) {
      names.set(await socket.get('signatureSubscribe', signature, { commitment }), commitment);
    }
    const notified = async () =>
      (await socket.notifications<InContext<unknown>>()).map(({ method, subscription, result }) => [
        method,
        names.get(subscription),
        result.value,
      ]);
    const fine = { err: null };
    t.same(await notified(), [], 'it has not run yet');
    chain.mineBlocks();
    t.same(await notified(), [['signatureNotification', 'processed', fine]]);
    chain.mineBlocks();
    t.same(await notified(), [['signatureNotification', 'confirmed', fine]]);
    chain.mineBlocks(FINALITY_BLOCKS - 2);
    t.same(await notified(), []);
    chain.mineBlocks();
    t.same(await notified(), [['signatureNotification', 'finalized', fine]]);
    chain.mineBlocks(2);
    t.same(await notified(), []);
    for (const [id, name] of names)
      t.match(
        (await socket.ask('signatureUnsubscribe', id)).error,
        { code: -32602 },
        `${name} is over`,
      );

    names.set(await socket.get('signatureSubscribe', signature), 'late');
    t.same(
      await notified(),
      [['signatureNotification', 'late', fine]],
      'a status that is reached already is notified at once',
    );

    const failed = await pay(chain, keypair, keypair.publicKey, 11_000_000_000);
    names.set(
      await socket.get('signatureSubscribe', failed, { commitment: 'processed' }),
      'failed',
    );
    t.same(await notified(), [
      ['signatureNotification', 'failed', { err: { InstructionError: [0, { Custom: 1 }] } }],
    ]);
  },
);

void t.test(
  'a signature that arrived and has not landed is notified as received, on request',
  async (t) => {
    const { chain, socket } = await setup(t);
    const { keypair } = chain.wallet();
    chain.mineBlocks(FINALITY_BLOCKS);
    await chain.rpc('localnet_setFault', { kind: 'drop', count: 1 });
    const { value } = await chain.rpc<{
      value: { blockhash: string; lastValidBlockHeight: number };
    }>('getLatestBlockhash');
    const transaction = new Transaction({ feePayer: keypair.publicKey, ...value });
    transaction
      .add(
        SystemProgram.transfer({
          fromPubkey: keypair.publicKey,
          toPubkey: keypair.publicKey,
          lamports: 1,
        }),
      )
      .sign(keypair);
    const send = () =>
      chain.rpc<string>('sendTransaction', transaction.serialize().toString('base64'), {
        encoding: 'base64',
      });
    const signature = await send();
    const id = await socket.get('signatureSubscribe', signature, {
      commitment: 'confirmed',
      enableReceivedNotification: true,
    });
    t.same(await socket.notifications(), [], 'it was lost');
    await send();
    t.match(await socket.notifications(), [
      { subscription: id, result: { value: 'receivedSignature' } },
    ]);
    chain.mineBlocks();
    t.match(await socket.notifications(), [{ subscription: id, result: { value: { err: null } } }]);
  },
);

void t.test('every slot is notified with parent and root, also over a jump in time', async (t) => {
  const { chain, socket } = await setup(t);
  const id = await socket.get('slotSubscribe');
  const slot = chain.slot();
  chain.mineBlocks(2);
  const slotNotification = (at: number, parent: number, root: number) => ({
    method: 'slotNotification',
    subscription: id,
    result: { slot: at, parent, root },
  });
  t.same(await socket.notifications(), [
    slotNotification(slot + 1, slot, slot + 1 - FINALITY_BLOCKS),
    slotNotification(slot + 2, slot + 1, slot + 2 - FINALITY_BLOCKS),
  ]);
  chain.timeTravel({ absoluteSlot: slot + 1000 });
  chain.mineBlocks();
  const notified = await socket.notifications<{ slot: number; parent: number }>();
  t.same(
    notified.map(({ result }) => [result.slot, result.parent]),
    [
      [slot + 1000, slot + 2],
      [slot + 1001, slot + 1000],
    ],
  );
  t.equal((await socket.ask('slotUnsubscribe', id)).result, true);
  chain.mineBlocks(2);
  t.same(await socket.notifications(), []);
});

void t.test(
  'logs are notified for all transactions or those that name an account, failed ones included',
  async (t) => {
    const { chain, socket } = await setup(t);
    const [one, other] = [chain.wallet(), chain.wallet()];
    chain.mineBlocks(FINALITY_BLOCKS);
    const config = { commitment: 'processed' };
    const names = new Map([
      [await socket.get('logsSubscribe', 'all', config), 'all'],
      [await socket.get('logsSubscribe', { mentions: [one.address] }, config), 'one'],
      [
        await socket.get('logsSubscribe', { mentions: [one.address] }, { commitment: 'confirmed' }),
        'one, confirmed',
      ],
    ]);
    const notified = async () =>
      (
        await socket.notifications<InContext<{ signature: string; err: unknown; logs: string[] }>>()
      ).map(({ method, subscription, result }) => {
        t.equal(method, 'logsNotification');
        t.match(result.value.logs[0], /^Program 1{32} invoke \[1\]$/);
        return [names.get(subscription ?? 0), result.value.signature, result.value.err];
      });
    const aside = await pay(chain, other.keypair, other.keypair.publicKey, 1);
    t.same(await notified(), [['all', aside, null]]);
    const failed = await pay(chain, other.keypair, one.keypair.publicKey, 11_000_000_000);
    const err = { InstructionError: [0, { Custom: 1 }] };
    t.same(await notified(), [
      ['all', failed, err],
      ['one', failed, err],
    ]);
    chain.mineBlocks();
    t.same(await notified(), [['one, confirmed', failed, err]]);
  },
);

void t.test('a subscription ends on request, and only for the client that opened it', async (t) => {
  const { chain, socket } = await setup(t);
  const stranger = await openSocket(t, chain.wsUrl);
  const { address } = chain.wallet();
  const config = { commitment: 'processed' };
  const signature = '1'.repeat(64);
  const all: [kind: string, ...params: unknown[]][] = [
    ['account', address, config],
    ['program', TOKEN_PROGRAM_ID.toBase58(), config],
    ['signature', signature, config],
    ['logs', 'all', config],
    ['slot'],
    ['root'],
  ];
  const ids = [];
  for (const [kind, ...params] of all) {
    const id = await socket.get(`${kind}Subscribe`, ...params);
    ids.push(id);
    const foreign = await stranger.ask(`${kind}Unsubscribe`, id);
    t.match(foreign.error, { code: -32602, message: 'Invalid subscription id.' });
    t.equal((await socket.ask(`${kind}Unsubscribe`, id)).result, true);
    t.match((await socket.ask(`${kind}Unsubscribe`, id)).error, {
      code: -32602,
      message: 'Invalid subscription id.',
    });
  }
  t.equal(new Set(ids).size, all.length);
  chain.fund(address, { lamports: 1n, usdc: 1n });
  chain.mineBlocks(FINALITY_BLOCKS + 1);
  t.same(await socket.notifications(), []);
});

void t.test('malformed frames get JSON-RPC errors, and the connection stays open', async (t) => {
  const { chain, socket } = await setup(t);
  const key = Keypair.generate().publicKey.toBase58();
  const request = (method: unknown, params?: unknown, id: unknown = 1) =>
    JSON.stringify({ jsonrpc: '2.0', id, method, params });
  const refused: [text: string, code: number, id: unknown][] = [
    ['', -32700, null],
    ['{"jsonrpc":"2.0","id":1,', -32700, null],
    ['nonsense', -32700, null],
    ['7', -32600, null],
    ['{}', -32600, null],
    ['{"id":3,"method":"slotSubscribe"}', -32600, 3],
    [request(7), -32600, 1],
    [request('slotSubscribe', [], {}), -32600, null],
    [request('nothingSubscribe', []), -32601, 1],
    [request('getSlot', [], 'text'), -32601, 'text'],
    [request('accountSubscribe', []), -32602, 1],
    [request('accountSubscribe', { key }), -32602, 1],
    [request('accountSubscribe', ['0OIl']), -32602, 1],
    [request('accountSubscribe', [key.slice(4)]), -32602, 1],
    [request('accountSubscribe', [key, { encoding: 'morse' }]), -32602, 1],
    [request('accountSubscribe', [key, { commitment: 'hoped' }]), -32602, 1],
    [request('programSubscribe', [key, { filters: [{ dataSize: -1 }] }]), -32602, 1],
    [
      request('programSubscribe', [key, { filters: [{ memcmp: { offset: 0, bytes: '0' } }] }]),
      -32602,
      1,
    ],
    [request('programSubscribe', [key, { filters: Array(5).fill({ dataSize: 1 }) }]), -32602, 1],
    [request('signatureSubscribe', [key]), -32602, 1],
    [request('logsSubscribe', ['some']), -32602, 1],
    [request('logsSubscribe', [{ mentions: [key, key] }]), -32602, 1],
    [request('slotUnsubscribe', ['1']), -32602, 1],
    [request('slotUnsubscribe', [999_999_999]), -32602, 1],
  ];
  for (const [text, code, id] of refused) {
    socket.socket.send(text);
    const answer = await socket.next();
    t.match(answer, { jsonrpc: '2.0', id, error: { code, message: /./ } }, `${code} for ${text}`);
  }
  socket.socket.send(JSON.stringify({ jsonrpc: '2.0', method: 'ping' }));
  socket.socket.send(`[${request('slotSubscribe', [], 1)},${request('nothing', [], 2)},7]`);
  t.match(
    await socket.next(),
    [
      { id: 1, result: Number },
      { id: 2, error: { code: -32601 } },
      { id: null, error: { code: -32600 } },
    ],
    'a notification gets no answer, a batch one for each of its requests',
  );
  socket.socket.send('[]');
  t.match(
    await socket.next(),
    { id: null, error: { code: -32600 } },
    'an empty batch is no request',
  );
  chain.mineBlocks();
  t.match(await socket.notifications(), [{ method: 'slotNotification' }]);
});

void t.test('frames of every length and content arrive whole and in order', async (t) => {
  const { chain, socket } = await setup(t);
  const batch = (ids: readonly string[]) =>
    JSON.stringify(ids.map((id) => ({ jsonrpc: '2.0', id, method: 'nothing' })));
  const lengthOf = (answer: Frame | Frame[]) => Buffer.byteLength(JSON.stringify(answer));
  socket.socket.send(batch(['']));
  const least = lengthOf(await socket.next());
  // A frame writes its length in one of three ways. Short ones come singly, long ones are answers
  // to hundreds of requests.
  for (const length of [least + 1, 125, 126, 127, 4_000, 65_535, 65_536, 65_537]) {
    const count = Math.floor(length / least);
    const rest = length - (count * (least - 1) + 1);
    const ids = [
      'é'.repeat(Math.floor(rest / 2)) + 'x'.repeat(rest % 2),
      ...Array.from({ length: count - 1 }, () => ''),
    ];
    socket.socket.send(batch(ids));
    const answer = await socket.next();
    t.equal(lengthOf(answer), length);
    t.same(
      (answer as Frame[]).map(({ id }) => id),
      ids,
    );
  }
  const key = Keypair.generate().publicKey.toBase58();
  await socket.get('accountSubscribe', key, { commitment: 'processed', encoding: 'base64' });
  await socket.get('slotSubscribe');
  const sizes = [0, 3, 100, 24_000, 10];
  for (const size of sizes)
    await chain.rpc('surfnet_setAccount', key, {
      lamports: 1_000_000_000,
      data: '07'.repeat(size),
    });
  chain.mineBlocks(2);
  const notified = await socket.notifications<Partial<InContext<{ data: [string, string] }>>>();
  t.same(
    notified.map(({ method, result }) => [
      method,
      result.value === undefined ? null : Buffer.from(result.value.data[0], 'base64').length,
    ]),
    [
      ...sizes.map((size) => ['accountNotification', size]),
      ['slotNotification', null],
      ['slotNotification', null],
    ],
  );
});

void t.test(
  'subscriptions end when their connection closes, and connections close when the chain stops',
  async (t) => {
    const chain = openChain(0, undefined);
    const app = await buildWs(chain);
    t.teardown(() => app.close());
    await app.listen({ host: '127.0.0.1', port: 0 });
    const url = `ws://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
    const events = ['changed', 'block', 'forked', 'received'] as const;
    const listening = () => events.map((event) => chain.events.listenerCount(event));
    for (const end of ['goodbye', 'cut']) {
      const socket = await openSocket(t, url);
      await socket.get('slotSubscribe');
      await socket.get('logsSubscribe', 'all', { commitment: 'processed' });
      t.same(listening(), [1, 1, 1, 1]);
      const [server] = app.websocketServer.clients;
      if (server === undefined) throw new Error('the server has no client');
      const over = once(server, 'close');
      if (end === 'goodbye') socket.socket.close();
      else server.terminate();
      await over;
      t.same(listening(), [0, 0, 0, 0], `after a ${end}`);
    }
    const last = await openSocket(t, url);
    await last.get('slotSubscribe');
    await app.close();
    t.equal(await last.closed, 1000);
  },
);

/** Collects the arguments of a listener; `notified(n)` waits until there are n. */
function recorder<T extends unknown[]>() {
  const calls: T[] = [];
  let arrived: () => void = () => undefined;
  return {
    calls,
    listener: (...args: T) => {
      calls.push(args);
      arrived();
    },
    async notified(count: number): Promise<T[]> {
      while (calls.length < count) await new Promise<void>((resolve) => (arrived = resolve));
      return calls;
    },
  };
}

void t.test('listeners of web3.js are called until they are removed', async (t) => {
  const chain = await startTestChain(t, { blockMs: 100 });
  const connection = new Connection(chain.rpcUrl, 'confirmed');
  const { keypair, address } = chain.wallet({ usdc: 1n });
  const account = recorder<[AccountInfo<Buffer>, Context]>();
  const program = recorder<[KeyedAccountInfo, Context]>();
  const logs = recorder<[Logs, Context]>();
  const slots = recorder<[SlotInfo]>();
  const roots = recorder<[number]>();
  chain.mineBlocks();
  const accountId = connection.onAccountChange(keypair.publicKey, account.listener, {
    commitment: 'confirmed',
  });
  const filters = [{ dataSize: ACCOUNT_SIZE }, { memcmp: { offset: 32, bytes: address } }];
  const programId = connection.onProgramAccountChange(TOKEN_PROGRAM_ID, program.listener, {
    commitment: 'confirmed',
    filters,
  });
  const logsId = connection.onLogs(keypair.publicKey, logs.listener, 'confirmed');
  const rootId = connection.onRootChange(roots.listener);
  const slotId = connection.onSlotChange(slots.listener);
  // Subscribed last, so the others are there when this one hears.
  await slots.notified(1);

  const latest = await connection.getLatestBlockhash();
  const airdrop = await connection.requestAirdrop(keypair.publicKey, 5);
  const reached = recorder<[SignatureResult, Context]>();
  for (const commitment of ['processed', 'confirmed', 'finalized'] as const)
    connection.onSignature(airdrop, reached.listener, commitment);
  chain.fund(address, { usdc: 6n });
  chain.fund(Keypair.generate().publicKey.toBase58(), { usdc: 9n });
  const [[changed, context] = []] = await account.notified(1);
  t.equal(changed?.lamports, 10_000_000_005);
  t.ok(context !== undefined && context.slot < chain.slot());
  const [[token] = []] = await program.notified(1);
  t.equal(token?.accountId.toBase58(), ata(chain, address));
  t.equal(token?.accountInfo.data.readBigUInt64LE(64), 7n);
  const [[entry] = []] = await logs.notified(1);
  t.match(entry, { signature: airdrop, err: null });
  for (const [result] of await reached.notified(3)) t.same(result, { err: null });
  t.same(
    (await connection.confirmTransaction({ signature: airdrop, ...latest }, 'finalized')).value,
    { err: null },
  );
  const seenSlots = await slots.notified(3);
  for (const [{ slot: at, parent, root }] of seenSlots) t.ok(parent === at - 1 && root <= parent);
  await roots.notified(2);
  t.ok((roots.calls[1]?.[0] ?? 0) > (roots.calls[0]?.[0] ?? 0));

  await connection.removeAccountChangeListener(accountId);
  await connection.removeProgramAccountChangeListener(programId);
  await connection.removeOnLogsListener(logsId);
  await connection.removeRootChangeListener(rootId);
  const counts = () => [account, program, logs, roots].map(({ calls }) => calls.length);
  const before = counts();
  t.same(before.slice(0, 3), [1, 1, 2], 'what was not asked for was not notified');
  chain.fund(address, { lamports: 5n, usdc: 6n });
  await slots.notified(slots.calls.length + 4);
  t.same(counts(), before);
  await connection.removeSlotChangeListener(slotId);
});
