import { createHmac } from 'node:crypto';
import { Registry } from 'prom-client';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { deleteEndpoint } from '../../src/db/delivering/endpoints.ts';
import { createNotifier, DELIVERIES_QUEUED } from '../../src/db/postgres/notify.ts';
import { secretBox } from '../../src/domain/accounts/secrets.ts';
import { generateWebhookSecret, openSecrets } from '../../src/domain/outbox/endpoints.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { startReceiver, status, type Received } from '../fixtures/receiver.ts';
import {
  attempted,
  attemptsOf,
  deliveryState,
  claimedUntil,
  encryptionKey,
  queueBodies,
  queueDeliveries,
  runDispatcher,
  seedApp,
  until,
  type SeededApp,
} from '../fixtures/webhooks.ts';

const minute = 60_000;
const hour = 60 * minute;

/** Throws unless both families of headers verify, as merchants would check them. */
function verify({ secret }: SeededApp, { headers, body }: Received): void {
  const timestamp = String(headers['x-service-timestamp']);
  const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');
  if (headers['x-service-signature'] !== `sha256=${expected}`)
    throw new Error('X-Service-Signature does not verify');
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > 300)
    throw new Error('X-Service-Timestamp is too old');
  new Webhook(secret).verify(body, headers as Record<string, string>, { jsonParse: false });
}

void t.test('a queued delivery is posted once, signed, and logged', async (t) => {
  const database = await testDatabase(t);
  const { sql } = database;
  const receiver = await startReceiver(t);
  const app = await seedApp(sql, `${receiver.url}?key=a%20b`);
  const [id = ''] = await queueDeliveries(sql, app, 1);
  await runDispatcher(t, database);
  await attempted(sql, id);
  const [request] = receiver.requests;
  t.equal(receiver.requests.length, 1);
  t.match(request, {
    method: 'POST',
    path: '/hook?key=a%20b',
    headers: { 'content-type': 'application/json' },
  });
  if (request !== undefined) t.doesNotThrow(() => verify(app, request));
  const [event] = await sql<
    { eventId: string }[]
  >`select event_id from all_deliveries where id = ${id}`;
  t.equal(request?.headers['webhook-id'], event?.eventId);
  const traceId = event?.eventId.replaceAll('-', '');
  t.match(request?.headers.traceparent, new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
  t.match(await deliveryState(sql, id), { status: 'delivered', attempts: 1, finishedAt: Date });
  t.match(await attemptsOf(sql, id), [
    { number: 1, httpStatus: 200, error: null, response: Buffer.from('ok'), address: '127.0.0.1' },
  ]);
});

void t.test('a receiver gets the trace of the request that caused the event', async (t) => {
  const database = await testDatabase(t);
  const { sql } = database;
  const receiver = await startReceiver(t);
  const app = await seedApp(sql, receiver.url);
  const [id = ''] = await queueDeliveries(sql, app, 1);
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00';
  await sql`update events set traceparent = ${traceparent}`;
  await runDispatcher(t, database);
  await attempted(sql, id);
  t.equal(receiver.requests[0]?.headers.traceparent, traceparent);
});

void t.test(
  'a delivery fails after six attempts, 1 m, 5 m, 30 m, 2 h and 12 h after the end of the one before',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    const receiver = await startReceiver(t, status(500));
    const app = await seedApp(sql, receiver.url);
    const [id = ''] = await queueDeliveries(sql, app, 1);
    await runDispatcher(t, database);
    for (const [index, delay] of [
      minute,
      5 * minute,
      30 * minute,
      2 * hour,
      12 * hour,
      undefined,
    ].entries()) {
      await attempted(sql, id, index + 1);
      const attempt = (await attemptsOf(sql, id))[index];
      const delivery = await deliveryState(sql, id);
      t.equal(delivery.attempts, index + 1);
      if (delay === undefined) t.match(delivery, { status: 'failed', finishedAt: Date });
      else {
        t.equal(delivery.status, 'pending');
        t.equal(
          delivery.dueAt.getTime() -
            (attempt?.startedAt.getTime() ?? 0) -
            (attempt?.durationMs ?? 0),
          delay,
        );
        t.equal(receiver.requests.length, index + 1, 'nothing is sent before it is due');
        // Twelve hours pass: the first signature would now be refused.
        await sql`update delivery_queue set due_at = clock_timestamp() where id = ${id}`;
      }
    }
    for (const request of receiver.requests) t.doesNotThrow(() => verify(app, request));
    t.equal(new Set(receiver.requests.map(({ body }) => body.toString())).size, 1);
  },
);

void t.test(
  'a delivery that waits for twelve hours is signed with the time of sending, not of queueing',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    const receiver = await startReceiver(t);
    const app = await seedApp(sql, receiver.url);
    const [id = ''] = await queueDeliveries(sql, app, 1);
    await sql`update delivery_queue set attempts = 5, due_at = now() - interval '1 second' where id = ${id}`;
    await runDispatcher(t, database);
    await receiver.got(1);
    const [request] = receiver.requests;
    if (request !== undefined) t.doesNotThrow(() => verify(app, request));
  },
);

void t.test(
  'a prefetched delivery is signed with the time of sending, not of queueing',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    const receiver = await startReceiver(t);
    const app = await seedApp(sql, receiver.url);
    const [late = '', early = ''] = await queueDeliveries(sql, app, 2);
    await sql`update delivery_queue set due_at = now() - interval '1 hour' where id = ${late}`;
    await sql`update delivery_queue set due_at = now() + interval '1 hour' where id = ${early}`;
    await runDispatcher(t, database);
    await attempted(sql, late);
    t.doesNotThrow(() => verify(app, receiver.requests[0]!));
    t.equal(receiver.requests.length, 1);
    t.match(await deliveryState(sql, early), { status: 'pending', attempts: 0 });
  },
);

void t.test(
  'a webhook’s body arrives byte for byte: key order, numbers, spaces, every kind of character',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    const bodies = [
      '{"z":1,"a":2,"10":3,"2":4,"__proto__":5}',
      '{"amount":1e2,"big":9007199254740993,"zero":-0.0,"long":0.10000000000000000555}',
      ' { "spaced" :\t[ 1 , 2 ] }\r\n',
      '{"text":"\\u00e9 é \\/ \\u2028 \u2028 😀 \\ud83d\\ude00 \\"q\\" {a,b} NULL"}',
      '{"a":1,"a":2}',
    ];
    const receiver = await startReceiver(t, status(500));
    const app = await seedApp(sql, receiver.url);
    const ids = await queueBodies(sql, app, bodies);
    await runDispatcher(t, database);
    await receiver.got(bodies.length);
    await until(
      async () =>
        (await sql`select 1 from all_deliveries where attempts = 1`).length === ids.length,
    );
    await sql`update delivery_queue set due_at = clock_timestamp()`;
    await receiver.got(2 * bodies.length);
    const sent = (from: number) =>
      receiver.requests.slice(from, from + bodies.length).map(({ body }) => body.toString());
    t.same(new Set(sent(0)), new Set(bodies));
    t.same(new Set(sent(bodies.length)), new Set(bodies), 'and again on the retry');
  },
);

void t.test('a 410 fails the delivery immediately; Retry-After on 503 is respected', async (t) => {
  const database = await testDatabase(t);
  const { sql } = database;
  const gone = await startReceiver(t, status(410));
  const busy = await startReceiver(t, status(503, { 'retry-after': '7200' }));
  const [dead = ''] = await queueDeliveries(sql, await seedApp(sql, gone.url), 1);
  const [later = ''] = await queueDeliveries(sql, await seedApp(sql, busy.url), 1);
  await runDispatcher(t, database);
  await attempted(sql, dead);
  await attempted(sql, later);
  t.match(await deliveryState(sql, dead), { status: 'failed', attempts: 1, finishedAt: Date });
  const delivery = await deliveryState(sql, later);
  const [attempt] = await attemptsOf(sql, later);
  t.match(delivery, { status: 'pending', attempts: 1 });
  t.equal(
    delivery.dueAt.getTime() - (attempt?.startedAt.getTime() ?? 0) - (attempt?.durationMs ?? 0),
    2 * hour,
  );
});

void t.test(
  'a response of any bytes is stored; a connection reset is logged as one attempt and not repeated',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    const bytes = Buffer.from([0, 0xff, 0xc3, 0x28, 0x22, 0x7d, 0x5c, 0]);
    const odd = await startReceiver(t, (response) => response.writeHead(500).end(bytes));
    const empty = await startReceiver(t, status(204));
    const resets = await startReceiver(t, (_response, _received, request) =>
      request.socket.resetAndDestroy(),
    );
    const receivers = [odd, empty, resets];
    const ids: string[] = [];
    for (const { url } of receivers)
      ids.push(...(await queueDeliveries(sql, await seedApp(sql, url), 1)));
    await runDispatcher(t, database);
    const [first = '', second = '', third = ''] = ids;
    for (const id of ids) await attempted(sql, id);
    t.match(await attemptsOf(sql, first), [{ httpStatus: 500, error: null, response: bytes }]);
    t.match(await attemptsOf(sql, second), [
      { httpStatus: 204, error: null, response: Buffer.alloc(0) },
    ]);
    t.match(await attemptsOf(sql, third), [
      { httpStatus: null, error: 'reset', response: null, address: '127.0.0.1' },
    ]);
    t.same(
      receivers.map(({ requests }) => requests.length),
      [1, 1, 1],
    );
  },
);

void t.test(
  'pending deliveries of a deleted endpoint are cancelled without a request',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    const receiver = await startReceiver(t);
    const app = await seedApp(sql, receiver.url);
    const [known = ''] = await queueDeliveries(sql, app, 1);
    await deleteEndpoint(sql, app.endpointId);
    // A transaction that has not seen the deletion can still queue a delivery.
    const [late = ''] = await queueDeliveries(sql, app, 1);
    t.match(await deliveryState(sql, known), {
      status: 'cancelled',
      attempts: 0,
      finishedAt: Date,
    });
    await runDispatcher(t, database);
    await until(async () => (await deliveryState(sql, late)).status === 'cancelled');
    t.match(await deliveryState(sql, late), { attempts: 0 });
    t.same(await attemptsOf(sql, late), []);
    t.equal(receiver.connections, 0);
  },
);

void t.test('a notification wakes the dispatcher; without one it polls', async (t) => {
  const database = await testDatabase(t);
  const { sql } = database;
  const receiver = await startReceiver(t);
  const app = await seedApp(sql, receiver.url);
  // Its next poll would be in ten minutes.
  const heedful = await runDispatcher(t, database, { pollMs: 600_000 });
  const notifier = createNotifier(sql, DELIVERIES_QUEUED);
  for (let round = 1; round <= 5; round += 1) {
    await queueDeliveries(sql, app, 1);
    notifier.notify();
    await until(() => receiver.requests.length === round);
  }
  await heedful.stop();
  await queueDeliveries(sql, app, 1);
  await runDispatcher(t, database);
  await receiver.got(6);
  await queueDeliveries(sql, app, 1);
  await receiver.got(7);
});

void t.test(
  'if an endpoint’s secret cannot be decrypted, nothing is sent and no attempt is counted',
  async (t) => {
    const database = await testDatabase(t);
    const { sql } = database;
    const receiver = await startReceiver(t);
    const sealed = await seedApp(sql, receiver.url);
    const good = await seedApp(sql, receiver.url);
    await sql`update webhook_endpoints set secret = 'nonsense' where id = ${sealed.endpointId}`;
    const [queued = ''] = await queueDeliveries(sql, sealed, 1);
    const [sent = ''] = await queueDeliveries(sql, good, 1);
    const dispatcher = await runDispatcher(t, database);
    await attempted(sql, sent);
    await dispatcher.stop();
    t.match(await deliveryState(sql, queued), { status: 'pending', attempts: 0 });
    t.equal(receiver.requests.length, 1);
    t.equal(
      await claimedUntil(sql, sealed),
      undefined,
      'a dispatcher that has the key may send it',
    );
  },
);

void t.test('metrics count attempts by outcome, durations and due deliveries', async (t) => {
  const database = await testDatabase(t);
  const { sql } = database;
  const receiver = await startReceiver(t);
  const down = await startReceiver(t, status(500));
  await queueDeliveries(sql, await seedApp(sql, receiver.url), 3);
  const [failing = ''] = await queueDeliveries(sql, await seedApp(sql, down.url), 1);
  const registry = new Registry();
  await runDispatcher(t, database, { registry });
  await receiver.got(3);
  await attempted(sql, failing);
  await until(async () =>
    (await registry.metrics()).includes('outcome="delivered",answer="2xx"} 3'),
  );
  const text = await registry.metrics();
  t.match(text, 'billing_webhook_attempts_total{outcome="retried",answer="5xx"} 1');
  t.match(text, 'billing_webhook_attempt_seconds_count 4');
  t.match(text, 'billing_webhook_in_flight 0');
  t.match(text, /billing_webhook_due \d/);
  t.match(text, /billing_webhook_oldest_due_seconds \d/);
  t.match(text, /billing_queue_oldest_seconds\{queue="mails"[^}]*\} \d/);
});

void t.test(
  'if the previous secret cannot be decrypted, deliveries are signed with the new secret alone',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const receiver = await startReceiver(t);
    const app = await seedApp(sql, receiver.url);
    const lost = secretBox(['another key of at least thirty-two bytes']).seal(
      generateWebhookSecret(),
      app.endpointId,
    );
    await sql`update webhook_endpoints set previous_secret = ${lost}, rotated_at = now(), previous_until = now() + interval '1 day'`;
    t.same(await openSecrets(sql, secretBox([encryptionKey]), app.endpointId), {
      secret: app.secret,
    });
    const [id = ''] = await queueDeliveries(sql, app, 1);
    await runDispatcher(t, { url });
    await attempted(sql, id);
    t.match(await deliveryState(sql, id), { status: 'delivered' });
    t.doesNotThrow(() => verify(app, receiver.requests[0]!));
  },
);
