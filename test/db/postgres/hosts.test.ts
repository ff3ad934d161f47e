// A URL with several hosts: which one is used, and what a dead, frozen or wrong host costs.
import { once } from 'node:events';
import { type AddressInfo, connect as dial, createServer, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { connect, type Sql } from '../../../src/db/postgres/connect.ts';
import { isLost } from '../../../src/db/postgres/outage.ts';
import { daemonLimits } from '../../../src/db/postgres/settings.ts';
import { messageOf } from '../../../src/errors.ts';
import { freePorts } from '../../../src/local/sandbox/ports.ts';
import { startProxy } from '../../fixtures/proxy.ts';
import { startReplicated } from '../../fixtures/replicated-postgres.ts';

const { primary, standby, password, socketDirectory, hasIpv6 } = await startReplicated(t);
const user = `postgres:${password}`;
const at = (port: number) => `127.0.0.1:${port}`;

function pool(t: Test, hosts: string, { query = '', max = 1 } = {}): Sql {
  const url = `postgres://${user}@${hosts}/postgres?${query}`;
  const sql = connect(url, { max, name: 'billing test', limits: daemonLimits });
  t.teardown(() => sql.end({ timeout: 0 }));
  return sql;
}

/** The port of the server that answers. Unix sockets have none. */
async function portOf(sql: Sql): Promise<number | null> {
  const [row] = await sql<{ port: number | null }[]>`select inet_server_port() as port`;
  return row?.port ?? null;
}

const failureOf = (sql: Sql) =>
  sql`select 1`.then(
    () => undefined,
    (error: unknown) => error,
  );

/** A server that runs `behave` for each connection. */
async function pretend(t: Test, behave: (socket: Socket) => void) {
  const fake = { port: 0, connections: 0 };
  const server = createServer((socket) => {
    fake.connections += 1;
    socket.on('error', () => undefined);
    t.teardown(() => socket.destroy());
    behave(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  fake.port = (server.address() as AddressInfo).port;
  return fake;
}

void t.test(
  'with several hosts in the URL, every session is on the primary by default',
  async (t) => {
    const hosts = `${at(standby.port)},${at(primary.port)}`;
    const sql = pool(t, hosts, { max: 5 });
    const ports = await Promise.all(Array.from({ length: 20 }, () => portOf(sql)));
    t.same(new Set(ports), new Set([primary.port]));
    await sql.begin(async (tx) => tx`create temporary table written (n int)`);
  },
);

void t.test('target_session_attrs selects the server by its role, as in libpq', async (t) => {
  const [first, second] = [at(primary.port), at(standby.port)];
  const cases: [string, string, number][] = [
    ['any', `${second},${first}`, standby.port],
    ['primary', `${second},${first}`, primary.port],
    ['read-write', `${second},${first}`, primary.port],
    ['standby', `${first},${second}`, standby.port],
    ['read-only', `${first},${second}`, standby.port],
    ['prefer-standby', `${first},${second}`, standby.port],
    ['prefer-standby', first, primary.port],
    ['any', second, standby.port],
  ];
  for (const [target, hosts, port] of cases)
    t.equal(
      await portOf(pool(t, hosts, { query: `target_session_attrs=${target}` })),
      port,
      target,
    );
  const only = await failureOf(pool(t, second, { query: 'target_session_attrs=primary' }));
  t.match(only, { code: 'NO_HOST', message: /is a standby, and target_session_attrs is primary/ });
});

void t.test('target_session_attrs=read-write also skips a primary that is read-only', async (t) => {
  const query = 'target_session_attrs=read-write&options=-c%20default_transaction_read_only%3Don';
  const error = await failureOf(pool(t, `${at(standby.port)},${at(primary.port)}`, { query }));
  t.match(error, { code: 'NO_HOST', message: /: is a standby, and .*: is read-only, and / });
  t.ok(isLost(error), 'an outage');
  const writable = query.replace('read-write', 'primary');
  t.equal(await portOf(pool(t, at(primary.port), { query: writable })), primary.port);
});

/** A port whose connections the kernel does not complete: its queue is full. */
async function unaccepting(t: Test): Promise<number> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads');
     const server = require('node:net').createServer();
     server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
     });`,
    { eval: true },
  );
  const [port] = (await once(worker, 'message')) as [number];
  const waiting: Socket[] = [];
  for (let n = 0; n < 8; n += 1) {
    const socket = dial(port, '127.0.0.1').on('error', () => undefined);
    waiting.push(socket);
  }
  t.teardown(async () => {
    for (const socket of waiting) socket.destroy();
    await worker.terminate();
  });
  return port;
}

void t.test('a frozen host delays only the first connection by its time limit', async (t) => {
  const mute = () => undefined;
  const asking = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]);
  const kinds = {
    'accepts and is silent': (await pretend(t, mute)).port,
    'asks for a password and is silent then': (
      await pretend(t, (socket) => socket.once('data', () => socket.write(asking)))
    ).port,
    'accepts nothing': await unaccepting(t),
  };
  await Promise.all(
    Object.entries(kinds).map(async ([kind, port]) => {
      const wire = await startProxy(t, port);
      const frozen = kind === 'accepts nothing' ? port : wire.port;
      const sql = pool(t, `${at(frozen)},${at(primary.port)}`, {
        query: 'connect_timeout=1',
        max: 3,
      });
      t.equal(await portOf(sql), primary.port, kind);
      const { connections } = wire;
      await Promise.all([1, 2, 3].map((n) => sql`select ${n}::int, pg_sleep(0.1)`));
      t.equal(wire.connections, connections, 'the working host is tried first');
    }),
  );
});

void t.test(
  'each host has a connect timeout of 5 s, and all hosts share one limit without any response',
  async (t) => {
    const silent = await Promise.all([1, 2, 3].map(() => pretend(t, () => undefined)));
    const began = performance.now();
    const one = await failureOf(pool(t, at(silent[0]?.port ?? 0)));
    t.match(one, { code: 'CONNECT_TIMEOUT', message: /did not answer in time/ });
    t.ok(performance.now() - began >= 4990);
    const limited = pool(t, `${silent.map(({ port }) => at(port)).join()},${at(primary.port)}`);
    t.equal(await portOf(limited), primary.port, 'before the statement is cancelled after 10 s');
  },
);

void t.test(
  'while all hosts are down each statement fails in time, and statements work once a host is up',
  async (t) => {
    const ports = await freePorts(2);
    const wire = await startProxy(t, primary.port);
    wire.cut();
    const sql = pool(t, [...ports.map(at), at(wire.port)].join(), { max: 3 });
    for (let round = 0; round < 3; round += 1) {
      const errors = await Promise.all([
        failureOf(sql),
        failureOf(sql),
        sql.begin((tx) => tx`select 1`).catch((error: unknown) => error),
        sql.reserve().catch((error: unknown) => error),
        sql.listen('news', () => undefined).catch((error: unknown) => error),
      ]);
      for (const error of errors) {
        t.match(error, { code: 'NO_HOST' });
        for (const port of [...ports, wire.port]) t.match(messageOf(error), at(port));
        t.notMatch(messageOf(error), password);
      }
    }
    wire.restore();
    t.equal(await portOf(sql), primary.port);
  },
);

void t.test('a host that is not a usable Postgres is skipped', async (t) => {
  const error = (code: string) => {
    const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0Mof a test\0\0`);
    const head = Buffer.from('E0000');
    head.writeInt32BE(fields.length + 4, 1);
    return Buffer.concat([head, fields]);
  };
  const sasl = Buffer.concat([
    Buffer.from([0x52, 0, 0, 0, 23, 0, 0, 0, 10]),
    Buffer.from('SCRAM-SHA-256\0\0'),
  ]);
  const kinds: Record<string, (socket: Socket) => void> = {
    'closes at once': (socket) => socket.end(),
    resets: (socket) => socket.resetAndDestroy(),
    'starts up': (socket) => socket.once('data', () => socket.end(error('57P03'))),
    'shuts down': (socket) => socket.once('data', () => socket.end(error('57P01'))),
    'speaks HTTP': (socket) =>
      socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n')),
    'closes while it authenticates': (socket) =>
      socket.once('data', () => socket.write(sasl, () => socket.once('data', () => socket.end()))),
    'asks, and closes before the response': (socket) => socket.once('data', () => socket.end(sasl)),
  };
  for (const [kind, behave] of Object.entries(kinds)) {
    const fake = await pretend(t, behave);
    const sql = pool(t, `${at(fake.port)},${at(primary.port)}`);
    t.equal(await portOf(sql), primary.port, kind);
    t.equal(fake.connections, 1);
  }
});

void t.test('after a wrong password no other host is tried', async (t) => {
  const fake = await pretend(t, () => undefined);
  const sql = connect(`postgres://postgres:no@${at(primary.port)},${at(fake.port)}/postgres`, {
    max: 1,
    name: 'billing test',
  });
  t.teardown(() => sql.end({ timeout: 0 }));
  t.match(await failureOf(sql), { code: '28P01' });
  t.equal(fake.connections, 0);
});

void t.test(
  'Postgres URLs accept Unix sockets, IPv6, host names with several addresses and lists in the query',
  async (t) => {
    const directory = encodeURIComponent(socketDirectory);
    const query = `host=${socketDirectory}&port=${primary.port}`;
    t.equal(await portOf(pool(t, '', { query })), null, 'a directory in the query');
    t.equal(await portOf(pool(t, `${directory}:${primary.port}`)), null, 'percent-encoded');
    const both = `host=${socketDirectory},127.0.0.1&port=${standby.port},${primary.port}`;
    t.equal(await portOf(pool(t, '', { query: both })), primary.port, 'lists of hosts and ports');
    t.equal(await portOf(pool(t, `localhost:${primary.port}`)), primary.port);
    t.equal(await portOf(pool(t, `localhost:${standby.port}`)), standby.port, 'on 127.0.0.1 alone');
    if (!hasIpv6) return;
    t.equal(await portOf(pool(t, `[::1]:${primary.port}`)), primary.port, 'IPv6');
    const [free] = await freePorts(1);
    t.equal(await portOf(pool(t, `[::1]:${free ?? 0},[::1]:${primary.port}`)), primary.port);
  },
);

void t.test('closing a pool while it connects closes its sockets', async (t) => {
  const fake = await pretend(t, () => undefined);
  const sql = pool(t, `${at(fake.port)},${at(fake.port)}`);
  const failed = failureOf(sql);
  while (fake.connections === 0) await new Promise(setImmediate);
  await sql.end({ timeout: 0 });
  t.match(await failed, { code: 'CONNECTION_DESTROYED' });
  t.equal(fake.connections, 1, 'no further host is tried');
});
