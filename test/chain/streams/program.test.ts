import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createTcpServer, type AddressInfo } from 'node:net';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import {
  followProgram,
  type FollowOptions,
  type ProgramNotification,
  type TransactionNotification,
  websocketUrl,
} from '../../../src/chain/streams/program.ts';
import { type Socket, startNode, until } from '../../fixtures/stream-node.ts';

const log = pino({ level: 'silent' });
/** Far longer than a slow machine needs for a response. */
const silenceMs = 2000;
const SUBSCRIBED: Record<string, number> = {
  programSubscribe: 100,
  slotSubscribe: 200,
  logsSubscribe: 300,
};

/** A follower whose notifications and gaps can be awaited. */
function follow(t: Test, urls: string[], options: Partial<FollowOptions> = {}) {
  const notifications: ProgramNotification[] = [];
  const transactions: TransactionNotification[] = [];
  const slots: bigint[] = [];
  let gaps = 0;
  const follower = followProgram({
    urls,
    programId: SUBSCRIPTIONS_PROGRAM,
    onNotification: (notification) => notifications.push(notification),
    onTransaction: (notification) => transactions.push(notification),
    onGap: () => (gaps += 1),
    onSlot: (slot) => slots.push(slot),
    log,
    ...options,
  });
  t.teardown(() => follower.close());
  return { follower, notifications, transactions, slots, gaps: () => gaps };
}

void t.test('an open stream reports accounts with address, slot and data', async (t) => {
  const node = await startNode(t);
  const { follower, notifications, slots, gaps } = follow(t, [node.url]);
  t.equal(follower.connected(), false);
  await until(() => gaps() === 1);
  t.equal(follower.connected(), true);
  t.same(
    node.requests.map(({ method, params }) => [method, params]),
    [
      ['slotSubscribe', []],
      ['logsSubscribe', [{ mentions: [SUBSCRIPTIONS_PROGRAM] }, { commitment: 'confirmed' }]],
      [
        'programSubscribe',
        [SUBSCRIPTIONS_PROGRAM, { commitment: 'confirmed', encoding: 'base64' }],
      ],
    ],
  );
  const address = generateKeypair().address;
  node.slot(7);
  node.account(address, 8);
  await until(() => notifications.length === 1);
  t.same(notifications, [
    { address, slot: 8n, owner: SUBSCRIPTIONS_PROGRAM, lamports: 5n, data: Buffer.from('data') },
  ]);
  t.same(slots, [7n]);
});

void t.test(
  'transactions that name the program are reported with slot and logs, failed ones are not',
  async (t) => {
    const node = await startNode(t);
    const { transactions, gaps } = follow(t, [node.url]);
    await until(() => gaps() === 1);
    node.logs('failed', 7, ['one'], { InstructionError: [0, { Custom: 508 }] });
    node.logs('landed', 8, ['one', 'two']);
    await until(() => transactions.length === 1);
    t.same(transactions, [{ signature: 'landed', slot: 8n, logs: ['one', 'two'] }]);
    node.notify('logsNotification', 300, {
      context: { slot: 9 },
      value: { signature: 'x', err: null, logs: null },
    });
    await until(() => gaps() === 2);
    t.equal(transactions.length, 1, 'what cannot be read makes a known gap');
  },
);

void t.test('after a lost socket the stream reconnects and then reports the gap', async (t) => {
  const node = await startNode(t);
  const { follower, notifications, gaps } = follow(t, [node.url]);
  await until(() => gaps() === 1);
  for (const [round, end] of [
    (socket: Socket) => socket.terminate(),
    (socket: Socket) => socket.close(),
  ].entries()) {
    end(node.sockets.at(-1)!);
    await until(() => !follower.connected());
    await until(() => gaps() === round + 2);
    t.equal(follower.connected(), true);
    const address = generateKeypair().address;
    node.account(address, 9);
    await until(() => notifications.length === round + 1);
    t.equal(notifications.at(-1)?.address, address);
  }
});

void t.test('a node that was unreachable is connected to again', async (t) => {
  const node = await startNode(t);
  const { gaps, follower } = follow(t, [node.url]);
  await until(() => gaps() === 1);
  await node.close();
  await until(() => !follower.connected());
  await new Promise((resolve) => setTimeout(resolve, 400));
  t.equal(gaps(), 1);
  const again = await startNode(t, node.port);
  await until(() => gaps() === 2);
  t.equal(again.sockets.length, 1);
});

void t.test('if a WebSocket URL does not work, the next URL is tried', async (t) => {
  const node = await startNode(t);
  const { gaps } = follow(t, ['ws://127.0.0.1:1', node.url]);
  await until(() => gaps() === 1);
  t.equal(node.sockets.length, 1);
});

void t.test('a connection without any message is closed and replaced', async (t) => {
  const node = await startNode(t);
  const { gaps } = follow(t, [node.url], { silenceMs });
  await until(() => gaps() === 1);
  const heartbeat = setInterval(() => node.slot(1), 50);
  await new Promise((resolve) => setTimeout(resolve, 1.5 * silenceMs));
  t.equal(gaps(), 1, 'slots keep it');
  clearInterval(heartbeat);
  await until(() => gaps() === 2);
});

void t.test(
  'a node that accepts a connection but never responds is replaced by the next node',
  async (t) => {
    const open = createTcpServer(() => undefined);
    open.listen(0, '127.0.0.1');
    await once(open, 'listening');
    const node = await startNode(t);
    const { gaps } = follow(
      t,
      [`ws://127.0.0.1:${(open.address() as AddressInfo).port}`, node.url],
      {
        silenceMs,
      },
    );
    t.teardown(() => open.close());
    await until(() => gaps() === 1);
    t.equal(node.sockets.length, 1);
  },
);

void t.test(
  'an abandoned connection is closed even if the other side never closes it',
  async (t) => {
    const ended: unknown[] = [];
    const dead = createTcpServer((socket) => {
      socket.on('error', () => undefined).once('close', () => ended.push(socket));
      // Upgrades, and sends nothing more.
      socket.once('data', (request) => {
        const key = /sec-websocket-key: (.*)\r/i.exec(request.toString())![1]!;
        const accept = createHash('sha1')
          .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
          .digest('base64');
        socket.write(
          `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
        );
      });
    });
    dead.listen(0, '127.0.0.1');
    await once(dead, 'listening');
    const node = await startNode(t);
    const { gaps } = follow(
      t,
      [`ws://127.0.0.1:${(dead.address() as AddressInfo).port}`, node.url],
      { silenceMs },
    );
    t.teardown(() => dead.close());
    await until(() => gaps() === 1);
    await until(() => ended.length === 1);
    t.pass();
  },
);

void t.test('a refused subscription is requested again, and the others stay', async (t) => {
  const node = await startNode(t);
  let refusals = 2;
  node.onRequest((socket, { id, method }) => {
    const refused = method === 'programSubscribe' && refusals-- > 0;
    socket.send(
      JSON.stringify({
        jsonrpc: '2.0',
        id,
        ...(refused ? { error: { code: -32601, message: 'no' } } : { result: SUBSCRIBED[method] }),
      }),
    );
  });
  const refused: string[] = [];
  const { follower, gaps, slots } = follow(t, [node.url], {
    refusedMs: 100,
    onRefused: (method) => refused.push(method),
  });
  await until(() => gaps() === 1);
  t.equal(follower.connected(), false);
  node.slot(3);
  await until(() => slots.length === 1);
  await until(() => gaps() === 2);
  t.same(refused, ['programSubscribe', 'programSubscribe']);
  t.equal(follower.connected(), true);
  t.equal(node.sockets.length, 1);
});

void t.test(
  'a connection without slot notifications stays open while the node answers pings',
  async (t) => {
    const node = await startNode(t);
    node.onRequest((socket, { id, method }) => {
      const outcome =
        method === 'slotSubscribe'
          ? { error: { code: -32601, message: 'no' } }
          : { result: SUBSCRIBED[method] };
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }));
    });
    const { gaps, notifications } = follow(t, [node.url], { silenceMs });
    await until(() => gaps() === 1);
    await new Promise((resolve) => setTimeout(resolve, 1.5 * silenceMs));
    node.account(generateKeypair().address, 8);
    await until(() => notifications.length === 1);
    t.equal(node.sockets.length, 1);
  },
);

void t.test('the stream opens one subscription for each list of filters', async (t) => {
  const node = await startNode(t);
  let last = 0;
  node.onRequest((socket, { id }) =>
    socket.send(JSON.stringify({ jsonrpc: '2.0', id, result: (last += 1) })),
  );
  const [kind, mint] = [
    { offset: 0, bytes: '5' },
    { offset: 43, bytes: SUBSCRIPTIONS_PROGRAM },
  ];
  const { gaps, notifications } = follow(t, [node.url], { filters: [[kind], [kind, mint]] });
  await until(() => gaps() === 1);
  t.same(
    node.requests.flatMap(({ method, params }) =>
      method === 'programSubscribe' ? [(params[1] as { filters: unknown }).filters] : [],
    ),
    [[{ memcmp: kind }], [{ memcmp: kind }, { memcmp: mint }]],
  );
  const account = { data: ['', 'base64'], owner: SUBSCRIPTIONS_PROGRAM, lamports: 5 };
  for (const subscription of [3, 4])
    node.notify('programNotification', subscription, {
      context: { slot: 7 },
      value: { pubkey: `of ${subscription}`, account },
    });
  await until(() => notifications.length === 2);
  t.same(
    notifications.map(({ address }) => address),
    ['of 3', 'of 4'],
  );
});

void t.test('an unreadable message is reported as a gap', async (t) => {
  const node = await startNode(t);
  const { gaps, notifications } = follow(t, [node.url]);
  await until(() => gaps() === 1);
  for (const [round, message] of ['{', '7', '{"method":"programNotification"}'].entries()) {
    node.sockets.at(-1)!.send(message);
    await until(() => gaps() === round + 2);
  }
  node.notify('programNotification', 100, { context: { slot: 1 }, value: { pubkey: 7 } });
  await until(() => gaps() === 5);
  t.same(notifications, []);
});

void t.test('notifications of an unknown subscription are ignored', async (t) => {
  const node = await startNode(t);
  const { gaps, notifications, slots } = follow(t, [node.url]);
  await until(() => gaps() === 1);
  node.notify('programNotification', 999, { nonsense: true });
  node.notify('accountNotification', 100, { nonsense: true });
  node.slot(3);
  await until(() => slots.length === 1);
  t.same(notifications, []);
  t.equal(gaps(), 1);
});

void t.test('a listener that throws does not stop the stream', async (t) => {
  const node = await startNode(t);
  let calls = 0;
  const { gaps } = follow(t, [node.url], {
    onNotification: () => {
      calls += 1;
      throw new Error('a bug');
    },
  });
  await until(() => gaps() === 1);
  node.account(generateKeypair().address, 1);
  node.account(generateKeypair().address, 2);
  await until(() => calls === 2);
  t.equal(gaps(), 1);
});

void t.test('after closing the stream reports nothing and does not reconnect', async (t) => {
  const node = await startNode(t);
  const { follower, gaps, notifications } = follow(t, [node.url]);
  await until(() => gaps() === 1);
  follower.close();
  t.equal(follower.connected(), false);
  node.account(generateKeypair().address, 1);
  await new Promise((resolve) => setTimeout(resolve, 400));
  t.same([gaps(), notifications.length, node.sockets.length], [1, 0, 1]);
  const away = follow(t, ['ws://127.0.0.1:1']);
  await new Promise((resolve) => setTimeout(resolve, 50));
  away.follower.close();
  t.equal(away.follower.connected(), false, 'also while it is trying to connect');
});

void t.test('the WebSocket URL is derived from the RPC URL as Solana’s clients do', (t) => {
  t.equal(websocketUrl('http://127.0.0.1:8899'), 'ws://127.0.0.1:8900/');
  t.equal(websocketUrl('https://rpc.example.com/?api-key=x'), 'wss://rpc.example.com/?api-key=x');
  t.end();
});

void t.test('a malformed stream URL is refused at startup', (t) => {
  const start = (urls: string[]) => () =>
    followProgram({
      urls,
      programId: SUBSCRIPTIONS_PROGRAM,
      onNotification() {},
      onTransaction() {},
      onGap() {},
      log,
    });
  t.throws(start([]), /at least one/);
  t.throws(start(['http://127.0.0.1']), /ws:\/\/ or wss:\/\//);
  t.throws(start(['nonsense']), TypeError);
  t.end();
});
