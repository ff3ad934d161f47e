// Receivers that end kept-alive connections without announcing it.
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { start } from '../fixtures/command.ts';
import { startNameServer } from '../fixtures/name-server.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { startReceiver, type Receiver } from '../fixtures/receiver.ts';
import {
  deliveryState,
  encryptionKey,
  queueDeliveries,
  runDispatcher,
  seedApp,
  until,
} from '../fixtures/webhooks.ts';

const COUNT = 400;
const TLS_COUNT = 150;

const endings: Record<string, (socket: Socket) => void> = {
  'with its answer': (socket) => socket.end(),
  'one turn of its event loop after its answer': (socket) => setImmediate(() => socket.end()),
  'a millisecond after its answer': (socket) => setTimeout(() => socket.end(), 1),
};
for (const [when, end] of Object.entries(endings)) {
  void t.test(
    `a receiver that ends each connection ${when} gets every delivery at the first attempt`,
    async (t) => {
      const database = await testDatabase(t);
      const { sql } = database;
      const receiver = await startReceiver(t, (_response, _received, { socket }) => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
        end(socket);
      });
      const app = await seedApp(sql, receiver.url);
      const ids = await queueDeliveries(sql, app, COUNT);
      await runDispatcher(t, database);
      t.equal(await deliveredAtFirst(sql, ids), COUNT);
      t.ok(Math.max(...timesReceived(receiver)) <= 2, 'sent again once at most');
    },
  );
}

void t.test(
  'a request whose reused connection closes without an answer is sent again once',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    // Reads the second request of each connection, and ends the connection in place of an answer.
    const served = new WeakSet();
    const receiver = await startReceiver(t, (response, _received, { socket }) => {
      if (served.has(socket)) socket.end();
      else response.end('ok');
      served.add(socket);
    });
    const app = await seedApp(sql, receiver.url);
    const ids = await queueDeliveries(sql, app, COUNT);
    await runDispatcher(t, database);
    t.equal(await deliveredAtFirst(sql, ids), COUNT);
    t.ok(receiver.requests.length > COUNT, 'some were sent again');
    t.ok(Math.max(...timesReceived(receiver)) <= 2, 'none more than once');
  },
);

void t.test(
  'over TLS, a request on a connection that closed is sent again at most once',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const fixture = (name: string) => new URL(`../fixtures/tls/${name}`, import.meta.url);
    const tls = {
      key: await readFile(fixture('leaf.key')),
      cert: await readFile(fixture('leaf.pem')),
    };
    const served = new WeakSet();
    const closings: Record<string, (socket: Socket) => void> = {
      ...Object.fromEntries(
        Object.entries(endings).map(([when, end]) => [
          when,
          (socket: Socket) => {
            socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
            end(socket);
          },
        ]),
      ),
      'in place of the second answer': (socket) => {
        if (served.has(socket)) socket.end();
        else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
        served.add(socket);
      },
    };
    const cases = [];
    for (const [when, close] of Object.entries(closings)) {
      const receiver = await startReceiver(t, (_response, _received, { socket }) => close(socket), {
        tls,
      });
      const app = await seedApp(sql, `https://secure.example:${receiver.port}/hook`);
      cases.push({ when, receiver, ids: await queueDeliveries(sql, app, TLS_COUNT) });
    }
    const running = start(t, ['dispatch'], {
      BILLING_ENV: 'production',
      DATABASE_URL: url,
      ENCRYPTION_KEY: encryptionKey,
      METRICS_PORT: '0',
      WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
      WEBHOOK_DNS_SERVERS: await startNameServer(t, () => ['127.0.0.1']),
      NODE_EXTRA_CA_CERTS: fileURLToPath(fixture('ca.pem')),
    });
    await running.line('dispatch is running');
    const all = cases.flatMap(({ ids }) => ids);
    await until(async () => (await sql`select from delivery_attempts`).length >= all.length);
    for (const { when, receiver, ids } of cases) {
      t.equal(await deliveredAtFirst(sql, ids), TLS_COUNT, when);
      t.ok(Math.max(...timesReceived(receiver)) <= 2, `sent again once at most: ${when}`);
    }
  },
);

/** Waits for the first attempts; returns how many were delivered by it alone. */
async function deliveredAtFirst(sql: Sql, ids: readonly string[]): Promise<number> {
  await until(async () => (await sql`select from delivery_attempts`).length >= ids.length);
  const states = await Promise.all(ids.map((id) => deliveryState(sql, id)));
  return states.filter(({ status, attempts }) => status === 'delivered' && attempts === 1).length;
}

/** Number of times that the receiver got each delivery. */
function timesReceived({ requests }: Receiver): number[] {
  const times = new Map<unknown, number>();
  for (const { headers } of requests)
    times.set(headers['webhook-id'], (times.get(headers['webhook-id']) ?? 0) + 1);
  return [...times.values()];
}
