import type { ServerResponse } from 'node:http';
import t from 'tap';
import { createNotifier, DELIVERIES_QUEUED } from '../../src/db/postgres/notify.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { ok, startReceiver, status } from '../fixtures/receiver.ts';
import { queueDeliveries, runDispatcher, seedApp, until } from '../fixtures/webhooks.ts';

void t.test(
  'a hung endpoint with 1,000 due deliveries does not delay nine healthy ones',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    const waiting = new Set<ServerResponse>();
    let most = 0;
    const hung = await startReceiver(t, (response) => {
      most = Math.max(most, waiting.add(response).size);
      response.on('close', () => waiting.delete(response));
    });
    await queueDeliveries(sql, await seedApp(sql, hung.url), 1000);
    const healthy = await Promise.all(
      Array.from({ length: 9 }, async () => {
        const receiver = await startReceiver(t, ok);
        return { receiver, app: await seedApp(sql, receiver.url) };
      }),
    );
    const dispatcher = await runDispatcher(t, database, { env: { WEBHOOK_CONCURRENCY: '20' } });
    await hung.got(1);
    const notifier = createNotifier(sql, DELIVERIES_QUEUED);
    for (let round = 1; round <= 10; round += 1) {
      for (const { app } of healthy) await queueDeliveries(sql, app, 5);
      notifier.notify();
      await Promise.all(healthy.map(({ receiver }) => receiver.got(5 * round)));
    }
    await notifier.flush();
    // A request that hangs occupies its place for 5 s.
    t.ok(hung.requests.length < 1000, `after ${hung.requests.length} of the 1,000`);
    await until(
      async () =>
        (await sql`select 1 from all_deliveries where status = 'delivered'`).length === 450,
    );
    t.ok(most <= 10, `${most} requests wait for the hung one`);
    const stopped = dispatcher.stop();
    for (const response of waiting) response.destroy();
    await stopped;
    const attempts = await sql`
      select 1 from delivery_attempts a join all_deliveries d on d.id = a.delivery_id where d.status = 'delivered'`;
    t.equal(attempts.length, 450, 'each at the first attempt');
  },
);

void t.test('at most the configured number of requests is in flight to one endpoint', async (t) => {
  const database = await testDatabase(t);
  const { sql } = database;
  let inFlight = 0;
  let most = 0;
  const receiver = await startReceiver(t, (response) => {
    inFlight += 1;
    most = Math.max(most, inFlight);
    setTimeout(() => {
      inFlight -= 1;
      response.end();
    }, 5);
  });
  await queueDeliveries(sql, await seedApp(sql, receiver.url), 400);
  await runDispatcher(t, database, { env: { WEBHOOK_ENDPOINT_CONCURRENCY: '7' } });
  await receiver.got(400);
  t.equal(most, 7);
});

void t.test(
  '10,000 deliveries that failed together are spread when they are due again, with new events in between',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    let inFlight = 0;
    let most = 0;
    let refusing = true;
    const receiver = await startReceiver(t, (response) => {
      inFlight += 1;
      most = Math.max(most, inFlight);
      setImmediate(() => {
        inFlight -= 1;
        response.writeHead(refusing ? 500 : 200).end();
      });
    });
    const apps = await Promise.all(Array.from({ length: 20 }, () => seedApp(sql, receiver.url)));
    for (const app of apps) await queueDeliveries(sql, app, 500);
    // All of them failed together a minute ago.
    await sql`update delivery_queue set attempts = 1, due_at = clock_timestamp()`;
    const fresh = await startReceiver(t, ok);
    const other = await seedApp(sql, fresh.url);
    await runDispatcher(t, database, { env: { WEBHOOK_CONCURRENCY: '40' } });
    await receiver.got(200);
    await queueDeliveries(sql, other, 20);
    await fresh.got(20);
    t.ok(receiver.requests.length < 10_000, 'while the retries were still going on');
    t.ok(most <= 35, `${most} retries at once`);
    refusing = false;
    await until(
      async () =>
        (await sql`select 1 from all_deliveries where attempts = 1 and finished_at is null limit 1`)
          .length === 0,
    );
    const [early] = await sql<{ count: bigint }[]>`
    select count(*) as count from all_deliveries delivery join delivery_attempts attempt on attempt.delivery_id = delivery.id and number = 2
    where delivery.status = 'pending' and delivery.next_attempt_at < attempt.started_at + attempt.duration_ms * interval '1 ms' + interval '5 minutes'`;
    t.equal(early?.count, 0n, 'none is due early');
  },
);

void t.test(
  'an endpoint that is down is probed by one request at a time; once it is up its backlog is sent, oldest first',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    let inFlight = 0;
    let most = 0;
    let down = true;
    const receiver = await startReceiver(t, (response) => {
      inFlight += 1;
      if (receiver.requests.length > 10) most = Math.max(most, inFlight);
      setTimeout(() => {
        inFlight -= 1;
        response.writeHead(down ? 503 : 200).end();
      }, 5);
    });
    const app = await seedApp(sql, receiver.url);
    const ids = await queueDeliveries(sql, app, 300);
    await runDispatcher(t, database);
    await receiver.got(40);
    t.equal(most, 1);
    down = false;
    const failed = receiver.requests.length;
    await until(
      async () => (await sql`select 1 from all_deliveries where attempts = 0 limit 1`).length === 0,
    );
    // In the receiver's order: the clock of the log is set from Postgres each second, and jumps by
    // the latency of that answer.
    const events = await sql<
      { eventId: string; id: string }[]
    >`select event_id, id from all_deliveries`;
    const places = new Map(events.map(({ eventId, id }) => [eventId, ids.indexOf(id)]));
    const positions = receiver.requests
      .slice(failed)
      .map(({ headers }) => places.get(String(headers['webhook-id'])) ?? NaN);
    t.ok(positions.length > 200);
    const strays = positions.filter(
      (position, index) => Math.abs(position - (positions[0] ?? 0) - index) > 20,
    );
    t.same(
      strays,
      [],
      'nothing is further out of turn than the requests that were in flight with it',
    );
  },
);

void t.test(
  'an endpoint that refuses connections is probed by one request at a time',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    const receiver = await startReceiver(t, status(500));
    const app = await seedApp(sql, receiver.url);
    await queueDeliveries(sql, app, 50);
    await runDispatcher(t, database);
    await until(
      async () => (await sql`select 1 from all_deliveries where attempts = 0 limit 1`).length === 0,
    );
    const [state] = await sql<{ attempts: bigint; pending: bigint }[]>`
    select sum(attempts) as attempts, count(*) filter (where status = 'pending') as pending from all_deliveries`;
    t.match(state, { pending: 50n });
    t.equal(receiver.requests.length, 50, 'each had its one attempt and none more');
  },
);
