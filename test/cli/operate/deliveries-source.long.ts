// `billing deliveries` on a terminal while Postgres is slow, silent or unreachable: rows stay, keys
// respond, and it exits immediately.
import { once } from 'node:events';
import { connect as connectTo, createServer, type AddressInfo, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { preload } from '../../fixtures/command.ts';
import { openDeliveries, small } from '../../fixtures/deliveries.ts';
import { testDatabase, type TestDatabase } from '../../fixtures/postgres.ts';
import { queueDeliveries, seedApp } from '../../fixtures/webhooks.ts';

/**
 * The way to Postgres, which can be closed (connections are refused and cut) or silent (nothing
 * comes through until it no longer is).
 */
async function startWay(t: Test, database: TestDatabase) {
  const target = new URL(database.url);
  const pairs = new Set<[Socket, Socket]>();
  let held: (() => void)[] | undefined;
  const server = createServer((client) => {
    const upstream = connectTo({ host: target.hostname, port: Number(target.port) });
    const pair: [Socket, Socket] = [client, upstream];
    pairs.add(pair);
    for (const [one, other] of [pair, [upstream, client] as const]) {
      one.on('error', () => undefined);
      one.on('data', (data) => {
        if (held === undefined) other.write(data);
        else held.push(() => other.write(data));
      });
      one.on('close', () => {
        other.destroy();
        pairs.delete(pair);
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const cut = () => {
    for (const [client] of pairs) client.destroy();
  };
  t.teardown(() => {
    cut();
    server.close();
  });
  const url = new URL(database.url);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  return {
    url: url.href,
    silence(on: boolean) {
      const late = held ?? [];
      held = on ? [] : undefined;
      for (const pass of late) pass();
    },
    close() {
      server.close();
      cut();
    },
    async reopen() {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
  };
}

/**
 * Makes a Node process wait for a month in place of five seconds, the limit of a query. Other
 * timers stay: after a poll of 400 ms the next one follows in four seconds.
 */
const noLimits = preload(`
  const { setTimeout } = globalThis;
  globalThis.setTimeout = (run, ms, ...args) =>
    setTimeout(run, ms === 5000 ? 2 ** 31 - 1 : ms, ...args);
`);

async function withDeliveries(t: Test) {
  const database = await testDatabase(t);
  const app = await seedApp(database.sql, 'http://127.0.0.1:9/hook');
  await queueDeliveries(database.sql, app, 30);
  return { database, app };
}

void t.test(
  'in an outage of Postgres the deliveries screen keeps its rows and keys, and updates resume afterwards',
  async (t) => {
    const { database, app } = await withDeliveries(t);
    const way = await startWay(t, database);
    const terminal = openDeliveries(t, { url: way.url });
    await terminal.waitFor('1 of 30');
    way.close();
    let screen = await terminal.waitFor(/ago · Postgres/);
    t.match(screen, /payment_success/, 'the rows are still there');
    terminal.press('down', 'down');
    await terminal.waitFor('3 of 30');
    terminal.press('enter');
    await terminal.waitFor(/Reading/);
    terminal.press('r');
    screen = await terminal.waitFor(/Replay of delivery [^]*ECONN|Replay of delivery [^]*Postgres/);
    t.notMatch(screen, /y\/N/, 'nothing can be said yes to');
    terminal.press('escape');
    await terminal.waitGone('Replay of');
    terminal.press('escape');
    await terminal.waitFor('3 of 30');
    await queueDeliveries(database.sql, app, 1);
    await way.reopen();
    await terminal.waitFor(/live, as of[^]*4 of 31/);
    terminal.press('q');
    t.match(await terminal.ended, { code: 0 });
  },
);

void t.test(
  'while Postgres is slow, the deliveries screen says so, responds to keys and can be left',
  async (t) => {
    const { database } = await withDeliveries(t);
    const way = await startWay(t, database);
    const terminal = openDeliveries(t, { url: way.url }, [], {
      ...small,
      env: { NODE_OPTIONS: noLimits },
    });
    await terminal.waitFor('1 of 30');
    way.silence(true);
    await terminal.waitFor(/waiting for an answer for \d/);
    terminal.press('down', 'down', 'down');
    await terminal.waitFor('4 of 30');
    terminal.press('?');
    await terminal.waitFor('clear the filters');
    terminal.press('escape');
    way.silence(false);
    await terminal.waitFor(/live, as of[^]*4 of 30/);

    way.silence(true);
    terminal.press('l');
    await terminal.waitFor(/waiting for an answer for \d/);
    // Without a time limit an answer that never comes has no end: the screen leaves before it, or
    // never.
    terminal.press('ctrl-c');
    t.match(await terminal.ended, { code: 0 }, 'it left without waiting for the answer');
    t.equal(terminal.buffer(), 'normal');
  },
);

void t.test(
  'a query of the deliveries screen to a locked or silent Postgres is given up and repeated',
  async (t) => {
    const { database } = await withDeliveries(t);
    const way = await startWay(t, database);
    const terminal = openDeliveries(t, { url: way.url });
    await terminal.waitFor('1 of 30');
    // An ALTER TABLE locks the table exclusively.
    const altering = await database.sql.reserve();
    await altering`begin`;
    await altering`lock table deliveries in access exclusive mode`;
    await terminal.waitFor(/ago · Postgres/);
    terminal.press('down', 'down', 'down');
    await terminal.waitFor('4 of 30');
    await altering`rollback`;
    altering.release();
    await terminal.waitFor(/live, as of[^]*4 of 30/);
    way.silence(true);
    await terminal.waitFor('did not answer within 5 s');
    terminal.press('ctrl-c');
    t.match(await terminal.ended, { code: 0 });
    t.equal(terminal.buffer(), 'normal');
  },
);
