// The places of a dispatcher: who may take how many, and that new endpoints do not wait for slow.
import type { ServerResponse } from 'node:http';
import t from 'tap';
import {
  Concurrency,
  EndpointQueue,
  type Pace,
  type Place,
} from '../../src/dispatch/concurrency.ts';
import { type Host, Hosts } from '../../src/dispatch/hosts.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { attempted, queueDeliveries, runDispatcher, seedApp, until } from '../fixtures/webhooks.ts';

const concurrencyOf = (limits: { total: number; share?: () => number; perHostOfAll?: number }) =>
  new Concurrency({
    total: limits.total,
    perEndpoint: limits.share ?? (() => 1000),
    perEndpointOfAll: 1000,
    perHostOfAll: limits.perHostOfAll ?? 1000,
  });

/** An endpoint of this pace with one delivery after another. */
function endpoint(concurrency: Concurrency, pace: Pace, name: string, host?: Host): EndpointQueue {
  const queue = new EndpointQueue(name);
  queue.host = host;
  queue.window = 1000;
  queue.isFailing = pace === 'failing';
  if (pace !== 'new') queue.responseMs = pace === 'fast' ? 1 : 1000;
  queue.ready = Array.from({ length: 1000 }, () => ({}) as never);
  concurrency.update(queue);
  return queue;
}

/** Starts requests until none may start; returns the places by endpoint. */
function fill(concurrency: Concurrency): Place[] {
  const places: Place[] = [];
  for (let next = concurrency.next(); next !== undefined; next = concurrency.next()) {
    next.ready.shift();
    places.push(concurrency.take(next));
  }
  return places;
}

void t.test(
  'slow and failing endpoints use at most half of the requests in flight, less two for new endpoints',
  async (t) => {
    for (const [total, slow] of [
      [200, 98],
      [10, 3],
      [8, 2],
      [4, 1],
      [2, 1],
      [1, 1],
    ] as const) {
      const concurrency = concurrencyOf({ total });
      endpoint(concurrency, 'slow', 'slow');
      endpoint(concurrency, 'failing', 'failing');
      t.equal(fill(concurrency).length, slow, `of ${total} places`);
      endpoint(concurrency, 'new', 'new');
      const kept = Math.min(2, total - slow);
      t.equal(fill(concurrency).length, kept, `${kept} for a new one, of ${total}`);
      endpoint(concurrency, 'fast', 'fast');
      t.equal(fill(concurrency).length, total - slow - kept, 'and the others for fast ones');
    }
  },
);

void t.test(
  'new endpoints use at most the half of the requests in flight that slow endpoints leave free',
  async (t) => {
    const concurrency = concurrencyOf({ total: 20 });
    endpoint(concurrency, 'new', 'new');
    const places = fill(concurrency);
    t.equal(places.length, 10);
    endpoint(concurrency, 'slow', 'slow');
    t.equal(fill(concurrency).length, 1, 'one slow request may always start');
    endpoint(concurrency, 'fast', 'fast');
    t.equal(fill(concurrency).length, 9);
  },
);

void t.test('the first response classifies a new endpoint as fast, slow or failing', async (t) => {
  const concurrency = concurrencyOf({ total: 8 });
  for (const [isGood, ms, pace] of [
    [true, 5, 'fast'],
    [true, 900, 'slow'],
    [false, 5, 'failing'],
  ] as const) {
    const queue = new EndpointQueue(pace);
    queue.ready = [{} as never];
    concurrency.update(queue);
    t.equal(queue.pace, 'new');
    const [place] = fill(concurrency) as [Place];
    concurrency.give(place, isGood, ms);
    t.equal(queue.pace, pace);
  }
  t.equal(concurrency.inFlight, 0);
  for (const pace of ['fast', 'slow', 'failing', 'new'] as const)
    t.ok(concurrency.free(pace) > 0, 'every place is given back');
});

void t.test(
  'a new endpoint gets deliveries while slow endpoints use all requests in flight allowed to them',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    const held: ServerResponse[] = [];
    let holds = false;
    // Slow at the first request, and without an answer at the others.
    const slow = await startReceiver(t, (response) => {
      if (holds) held.push(response);
      else setTimeout(() => response.writeHead(200).end(), 600);
    });
    const quick = await startReceiver(t);
    const [first, second, other] = [
      await seedApp(sql, slow.url),
      await seedApp(sql, slow.url),
      await seedApp(sql, quick.url),
    ];
    const measured = [
      ...(await queueDeliveries(sql, first, 1)),
      ...(await queueDeliveries(sql, second, 1)),
    ];
    await runDispatcher(t, database, { env: { WEBHOOK_CONCURRENCY: '8' } });
    for (const id of measured) await attempted(sql, id);
    holds = true;
    await queueDeliveries(sql, first, 20);
    await queueDeliveries(sql, second, 20);
    await until(() => held.length >= 2);
    await queueDeliveries(sql, other, 1);
    await quick.got(1);
    // On a slow machine a held request may have ended at its timeout by then.
    const [row] = await sql<{ count: number }[]>`
    select count(*)::int from delivery_attempts where http_status is not null`;
    t.ok(row!.count <= 3, 'while no held request is answered');
  },
);

void t.test(
  'the endpoints of a host share its limit of requests in flight, and other hosts do not wait',
  async (t) => {
    let share = 1000;
    const concurrency = concurrencyOf({ total: 100, share: () => share, perHostOfAll: 6 });
    const hosts = new Hosts();
    for (const name of ['a', 'b', 'c', 'd'])
      endpoint(concurrency, 'fast', name, hosts.get('victim.test'));
    const places = fill(concurrency);
    t.equal(places.length, 6);
    t.equal(new Set(places.map(({ queue }) => queue.endpointId)).size, 4, 'in turns');
    const own = endpoint(concurrency, 'fast', 'own', hosts.get('shop.test'));
    own.window = 10;
    t.equal(fill(concurrency).length, 6, 'another host has places of its own');
    concurrency.give(places[0]!, true, 1);
    t.same(
      fill(concurrency).map(({ host }) => host?.name),
      ['victim.test'],
      'a place that is given back is taken',
    );
    share = 500;
    for (const place of places.slice(1, 3)) concurrency.give(place, true, 1);
    t.equal(fill(concurrency).length, 0, 'half of the dispatchers’ share is half of the places');
    for (const place of places.slice(3, 5)) concurrency.give(place, true, 1);
    t.equal(fill(concurrency).length, 1);
    hosts.forget();
    t.equal(hosts.get('victim.test').inFlight, 3, 'a host with requests in flight is kept');
  },
);

void t.test('requests to one host are limited over all its endpoints', async (t) => {
  const database = await testDatabase(t);
  const { sql } = database;
  let [inFlight, most] = [0, 0];
  const held: ServerResponse[] = [];
  const hold = (response: ServerResponse) => {
    inFlight += 1;
    most = Math.max(most, inFlight);
    response.on('close', () => (inFlight -= 1));
    held.push(response);
  };
  // Two ports of one host, as a stranger may name them.
  const receivers = [await startReceiver(t, hold), await startReceiver(t, hold)];
  const quick = await startReceiver(t);
  for (let n = 0; n < 12; n += 1)
    await queueDeliveries(sql, await seedApp(sql, receivers[n % 2]!.url), 3);
  const env = { WEBHOOK_ENDPOINT_CONCURRENCY: '2', WEBHOOK_HOST_CONCURRENCY: '3' };
  await runDispatcher(t, database, { env });
  await until(() => held.length >= 3);
  const other = quick.url.replace('127.0.0.1', 'localhost');
  await queueDeliveries(sql, await seedApp(sql, other), 5);
  await quick.got(5);
  t.equal(most, 3, 'another host is served meanwhile');
  const answer = setInterval(() => held.splice(0).forEach((response) => response.end()), 5);
  t.teardown(() => clearInterval(answer));
  await until(async () => (await sql`select from delivery_queue`).length === 0);
  t.equal(most, 3);
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int from deliveries where status = 'delivered'`;
  t.equal(row?.count, 41);
});
