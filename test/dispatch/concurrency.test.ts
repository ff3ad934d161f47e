// The places of a dispatcher: who may take how many, and that new endpoints do not wait for slow.
import type { ServerResponse } from 'node:http';
import t from 'tap';
import {
  Concurrency,
  EndpointQueue,
  type Pace,
  type Place,
} from '../../src/dispatch/concurrency.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { attempted, queueDeliveries, runDispatcher, seedApp, until } from '../fixtures/webhooks.ts';

/** An endpoint of this pace with one delivery after another. */
function endpoint(concurrency: Concurrency, pace: Pace, name: string): EndpointQueue {
  const queue = new EndpointQueue(name);
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

void t.test('slow and failing endpoints leave two places of their half to new ones', async (t) => {
  for (const [total, slow] of [
    [200, 98],
    [10, 3],
    [8, 2],
    [4, 1],
    [2, 1],
    [1, 1],
  ] as const) {
    const concurrency = new Concurrency({ total, perEndpoint: () => 1000, perEndpointOfAll: 1000 });
    endpoint(concurrency, 'slow', 'slow');
    endpoint(concurrency, 'failing', 'failing');
    t.equal(fill(concurrency).length, slow, `of ${total} places`);
    endpoint(concurrency, 'new', 'new');
    const kept = Math.min(2, total - slow);
    t.equal(fill(concurrency).length, kept, `${kept} for a new one, of ${total}`);
    endpoint(concurrency, 'fast', 'fast');
    t.equal(fill(concurrency).length, total - slow - kept, 'and the others for fast ones');
  }
});

void t.test('new endpoints use the half that slow ones leave, and no more', async (t) => {
  const concurrency = new Concurrency({
    total: 20,
    perEndpoint: () => 1000,
    perEndpointOfAll: 1000,
  });
  endpoint(concurrency, 'new', 'new');
  const places = fill(concurrency);
  t.equal(places.length, 10);
  endpoint(concurrency, 'slow', 'slow');
  t.equal(fill(concurrency).length, 1, 'one slow request may always start');
  endpoint(concurrency, 'fast', 'fast');
  t.equal(fill(concurrency).length, 9);
});

void t.test('the first response decides the pace', async (t) => {
  const concurrency = new Concurrency({ total: 8, perEndpoint: () => 10, perEndpointOfAll: 10 });
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

void t.test('a new endpoint is delivered to while slow ones hold all their places', async (t) => {
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
  await until(() => held.length === 2);
  await queueDeliveries(sql, other, 1);
  await quick.got(1);
  const [row] = await sql<{ count: number }[]>`select count(*)::int from delivery_attempts`;
  t.ok(row!.count <= 3, 'before a slow request gave its place back');
});
