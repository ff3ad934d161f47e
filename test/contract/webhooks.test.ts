// docs/contract.md, Events: what an endpoint gets, how it is signed, and when it is sent again; a
// real dispatcher, a real server, our own receiver's side.
import crypto, { createHmac } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import t, { type Test } from 'tap';
import { verifyWebhook, WebhookVerificationError } from '../../src/client/webhook.ts';
import { appendEvents } from '../../src/domain/outbox/events.ts';
import { DEADLINE_MS } from '../../src/webhooks/http.ts';
import { encryptionKey, testApi } from '../fixtures/http.ts';
import { startReceiver, type Answer, type Received, type Receiver } from '../fixtures/receiver.ts';
import { insertPlan, insertSubscription } from '../fixtures/rows.ts';
import {
  attempted,
  attemptsOf,
  deliveryState,
  runDispatcher,
  until,
} from '../fixtures/webhooks.ts';
import { rulesIn } from './rules.ts';

const rule = rulesIn(t);

interface Delivery {
  id: string;
  eventId: string;
  status: string;
  attempts: number;
}

const minutes = [1, 5, 30, 2 * 60, 12 * 60];

/** Unix seconds before anything was sent. */
const began = Math.floor(Date.now() / 1000);
const api = await testApi(t);
const { sql } = api;
await runDispatcher(t, { url: api.databaseUrl }, { env: { ENCRYPTION_KEY: encryptionKey } });

interface Shop {
  receiver: Receiver;
  secret: string;
  key: string;
  /** Path of the endpoint's deliveries. */
  path: string;
  webhookId: string;
  /** Something happens; resolves with its delivery's id. */
  happen(type?: 'payment_success' | 'cancel_requested'): Promise<string>;
}

/** A merchant with a server at its endpoint, and a subscription. */
async function shop(t: Test, answer: Answer): Promise<Shop> {
  const receiver = await startReceiver(t, answer);
  const merchant = await api.merchant();
  const webhooks = `/merchant/apps/${merchant.appId}/webhooks`;
  const { body } = await api.call<{ id: string; secret: string }>('POST', webhooks, {
    token: merchant.key,
    body: { url: receiver.url },
  });
  const subscriptionId = await insertSubscription(sql, {
    appId: merchant.appId,
    planId: await insertPlan(sql, merchant, { name: 'Kaffee für Zürich ☕ "\\' }),
  });
  return {
    receiver,
    secret: body.data.secret,
    key: merchant.key,
    path: `${webhooks}/${body.data.id}/deliveries`,
    webhookId: body.data.id,
    async happen(type = 'payment_success') {
      await sql.begin((tx) => appendEvents(tx, [{ subscriptionId, type }]));
      const [delivery] = await sql<
        { id: string }[]
      >`select id from all_deliveries where endpoint_id = ${body.data.id} order by id desc limit 1`;
      return delivery!.id;
    },
  };
}

const taking = (response: Parameters<Answer>[0]) => response.writeHead(204).end();
const refusing = (response: Parameters<Answer>[0]) => response.writeHead(500).end();

// One server that takes what it gets; one that never answers, which takes the whole of the deadline
// to see; one that refuses until nothing more comes.
const good = await shop(t, taking);
const hung = await shop(t, () => undefined);
const hungDelivery = await hung.happen();
await good.happen();
await good.happen('cancel_requested');
await good.receiver.got(2);
const taken = good.receiver.requests as [Received, Received];

const bad = await shop(t, refusing);
const exhausted = await bad.happen();
const retries: number[] = [];
for (let number = 1; number <= 6; number += 1) {
  await attempted(sql, exhausted, number);
  const { dueAt } = await deliveryState(sql, exhausted);
  const last = (await attemptsOf(sql, exhausted)).at(-1)!;
  if (number === 6) break;
  retries.push((dueAt.getTime() - last.startedAt.getTime() - last.durationMs) / 60_000);
  await sql`update delivery_queue set due_at = clock_timestamp() where id = ${exhausted}`;
}

const signatureOf = (secret: string, { headers, body }: Pick<Received, 'headers' | 'body'>) =>
  createHmac('sha256', secret)
    .update(`${String(headers['x-service-timestamp'])}.${body.toString()}`)
    .digest('hex');
const refused = (given: () => unknown) => {
  try {
    given();
  } catch (error) {
    if (error instanceof WebhookVerificationError) return error.reason;
    throw error;
  }
  return undefined;
};
/** Signed by hand, as the document has it. */
const signed = (body: string, seconds: number) => {
  const signature = createHmac('sha256', good.secret).update(`${seconds}.${body}`).digest('hex');
  return { 'x-service-timestamp': String(seconds), 'x-service-signature': `sha256=${signature}` };
};

rule('`Content-Type` | `application/json`', (t) => {
  for (const { headers } of taken) t.equal(headers['content-type'], 'application/json');
});

rule('`X-Service-Signature` | `sha256=` and the HMAC-SHA256 in hex', (t) => {
  for (const { headers } of taken) t.match(headers['x-service-signature'], /^sha256=[0-9a-f]{64}$/);
});

rule('`X-Service-Timestamp` | the time of sending, in Unix seconds', (t) => {
  for (const { headers, at } of taken) {
    t.match(headers['x-service-timestamp'], /^\d{10}$/);
    const timestamp = Number(headers['x-service-timestamp']);
    t.ok(
      timestamp >= began && timestamp <= at / 1000,
      'between the start of the test and its arrival',
    );
  }
});

rule('A webhook request proves that it comes from the service by an HMAC signature.', (t) => {
  for (const request of [...taken, ...bad.receiver.requests]) {
    const { secret } = bad.receiver.requests.includes(request) ? bad : good;
    const now = new Date(request.at);
    t.match(verifyWebhook(request.body, request.headers, secret, now), { type: String });
    t.equal(
      refused(() => verifyWebhook(request.body, request.headers, hung.secret, now)),
      'bad_signature',
      'of another endpoint',
    );
  }
});

rule(
  'What is signed is the timestamp header, a dot and the raw body: `<timestamp>.<body>`.',
  (t) => {
    for (const request of taken) {
      t.equal(
        request.headers['x-service-signature'],
        `sha256=${signatureOf(good.secret, request)}`,
      );
      const later = {
        ...request,
        headers: {
          ...request.headers,
          'x-service-timestamp': String(Number(request.headers['x-service-timestamp']) + 1),
        },
      };
      t.not(request.headers['x-service-signature'], `sha256=${signatureOf(good.secret, later)}`);
    }
  },
);

rule(
  "The signature is the HMAC-SHA256 of that under the endpoint's secret, in hex, after `sha256=`.",
  (t) => {
    const [request] = taken;
    t.equal(request.headers['x-service-signature'], `sha256=${signatureOf(good.secret, request)}`);
    t.not(request.headers['x-service-signature'], `sha256=${signatureOf(bad.secret, request)}`);
    const headers = { ...request.headers, 'webhook-signature': undefined };
    t.equal(
      refused(() => verifyWebhook(request.body, headers, good.secret, new Date(request.at))),
      undefined,
      'this header alone is enough',
    );
  },
);

rule('A receiver compares signatures in constant time.', (t) => {
  const [request] = taken;
  const { timingSafeEqual } = crypto;
  const compared: string[] = [];
  crypto.timingSafeEqual = (one, other) => {
    compared.push(Buffer.from(one as Uint8Array).toString());
    return timingSafeEqual(one, other);
  };
  syncBuiltinESMExports();
  try {
    verifyWebhook(
      request.body,
      { ...request.headers, 'webhook-signature': undefined },
      good.secret,
      new Date(request.at),
    );
  } finally {
    crypto.timingSafeEqual = timingSafeEqual;
    syncBuiltinESMExports();
  }
  t.same(compared, [request.headers['x-service-signature']]);
});

rule('A receiver refuses a timestamp that is more than 300 seconds from its own clock.', (t) => {
  const now = new Date(1_800_000_000_000);
  const at = (difference: number) =>
    refused(() =>
      verifyWebhook(
        '{"id":"1","type":"x"}',
        signed('{"id":"1","type":"x"}', 1_800_000_000 + difference),
        good.secret,
        now,
      ),
    );
  t.same([-301, -300, 0, 300, 301].map(at), [
    'timestamp_out_of_tolerance',
    undefined,
    undefined,
    undefined,
    'timestamp_out_of_tolerance',
  ]);
});

rule('A receiver checks the raw body, not one that was parsed and written again.', async (t) => {
  const odd = ' {"type" : "x",\t"id":"1", "amount": 1e2, "text": "\\u00e9"}\n';
  const seconds = Math.floor(Date.now() / 1000);
  t.equal(
    refused(() => verifyWebhook(odd, signed(odd, seconds), good.secret)),
    undefined,
  );
  t.equal(
    refused(() =>
      verifyWebhook(JSON.stringify(JSON.parse(odd)), signed(odd, seconds), good.secret),
    ),
    'bad_signature',
  );
  const stored = await sql<{ body: string }[]>`
    select body from events join all_deliveries deliveries on deliveries.event_id = events.id where endpoint_id = ${good.webhookId} order by events.id`;
  t.same(
    taken.map(({ body }) => body.toString()).sort(),
    stored.map(({ body }) => body).sort(),
    'sent byte for byte as it was stored',
  );
});

rule("A receiver that cannot verify a webhook's signature answers 401.", async (t) => {
  const strict = await startReceiver(t, (response, { body, headers }) => {
    const reason = refused(() => verifyWebhook(body, headers, good.secret));
    response.writeHead(reason === undefined ? 204 : 401).end();
  });
  const [request] = taken;
  const post = async (body: string, headers: Record<string, string>) =>
    (await fetch(strict.url, { method: 'POST', body, headers })).status;
  const text = request.body.toString();
  const fresh = signed(text, Math.floor(Date.now() / 1000));
  t.equal(await post(text, fresh), 204);
  t.equal(await post(`${text} `, fresh), 401);
  t.equal(await post(text, { ...fresh, 'x-service-signature': `sha256=${'0'.repeat(64)}` }), 401);
  t.equal(await post(text, signed(text, Math.floor(Date.now() / 1000) - 400)), 401);
});

rule(
  'A failed delivery is retried after 1 minute, then 5 minutes, 30 minutes, 2 hours and 12 hours.',
  (t) => {
    t.same(retries, minutes);
  },
);

rule(
  'After 6 attempts (5 retries) a delivery is `failed` for good and is not sent again.',
  async (t) => {
    t.match(await deliveryState(sql, exhausted), {
      status: 'failed',
      attempts: 6,
      finishedAt: Date,
    });
    t.equal(bad.receiver.requests.length, 6);
    // The dispatcher is alive, and this one's time has come again: it is left alone.
    await sql`update delivery_queue set due_at = clock_timestamp() - interval '1 day' where id = ${exhausted}`;
    const next = await bad.happen();
    await attempted(sql, next);
    t.same(
      bad.receiver.requests.slice(6).map(({ headers }) => headers['webhook-id']),
      [
        (
          await sql<{ eventId: string }[]>`select event_id from all_deliveries where id = ${next}`
        )[0]?.eventId,
      ],
    );
  },
);

rule('Retries of a webhook | 5, which makes 6 attempts', async (t) => {
  t.equal(retries.length, 5);
  t.equal((await attemptsOf(sql, exhausted)).length, 6);
});

rule('A delivery has a status.', async (t) => {
  for (const { key, path } of [good, hung, bad]) {
    const { body } = await api.call<Delivery[]>('GET', path, { token: key });
    t.ok(body.data.length > 0);
    for (const { status } of body.data) t.match(status, /^(pending|delivered|failed|cancelled)$/);
  }
});

rule('`failed` marks a delivery that used up its retries.', async (t) => {
  t.match(
    (await api.call<Delivery>('GET', `${bad.path}/${exhausted}`, { token: bad.key })).body.data,
    { status: 'failed', attempts: 6 },
  );
  const { body } = await api.call<Delivery[]>('GET', bad.path, { token: bad.key });
  t.same(
    new Set(body.data.filter(({ id }) => id !== exhausted).map(({ status }) => status)),
    new Set(['pending']),
    'not one that was tried once',
  );
});

rule(
  'An event may arrive more than once; a receiver deduplicates by its id and handles it idempotently.',
  async (t) => {
    const { body: failed } = await api.call<Delivery>('GET', `${bad.path}/${exhausted}`, {
      token: bad.key,
    });
    await api.call('POST', `${bad.path}/${exhausted}/replay`, { token: bad.key });
    const ofEvent = () =>
      bad.receiver.requests.filter(({ headers }) => headers['webhook-id'] === failed.data.eventId);
    await until(() => ofEvent().length === 7);
    const handled = new Set<string>();
    for (const { body } of ofEvent())
      handled.add((JSON.parse(body.toString()) as { id: string }).id);
    t.same([...handled], [failed.data.eventId], 'stable over retries and replay');
    t.equal(new Set(ofEvent().map(({ body }) => body.toString())).size, 1);
  },
);

rule(
  'Failed deliveries are listed for each endpoint, over the API and in `billing deliveries`.',
  async (t) => {
    const listed = async (shop: Shop, status: string) =>
      (
        await api.call<Delivery[]>('GET', `${shop.path}?status=${status}`, { token: shop.key })
      ).body.data.map(({ id }) => id);
    t.same(await listed(bad, 'failed'), [exhausted]);
    t.same(await listed(good, 'failed'), []);
    t.equal((await listed(good, 'delivered')).length, 2);
    const one = await api.call<{ attemptLog: unknown[] }>('GET', `${bad.path}/${exhausted}`, {
      token: bad.key,
    });
    t.equal(one.body.data.attemptLog.length, 6, 'with all that a dashboard shows of it');
  },
);

rule('Webhook endpoints | 1 for each app', async (t) => {
  const url = good.path.replace(/\/[^/]+\/deliveries$/, '');
  t.equal((await api.call<unknown[]>('GET', url, { token: good.key })).body.data.length, 1);
  t.equal(
    (await api.call('POST', url, { token: good.key, body: { url: 'https://shop.test/' } })).status,
    409,
  );
});

rule("Age of a webhook's timestamp | 300 seconds", (t) => {
  const body = '{"id":"1","type":"x"}';
  for (const [milliseconds, reason] of [
    [300_000, undefined],
    [300_001, 'timestamp_out_of_tolerance'],
  ] as const)
    for (const side of [-1, 1])
      t.equal(
        refused(() =>
          verifyWebhook(
            body,
            signed(body, 1_800_000_000),
            good.secret,
            new Date(1_800_000_000_000 + side * milliseconds),
          ),
        ),
        reason,
      );
});

rule('A delivery fails if the endpoint does not answer with a 2xx within 5 seconds.', async (t) => {
  const codes = [200, 201, 204, 299, 301, 304, 400, 404, 418, 500];
  let next = 0;
  const mixed = await shop(t, (response) => response.writeHead(codes[next++] ?? 200).end());
  for (const [index, code] of codes.entries()) {
    const id = await mixed.happen();
    await attempted(sql, id);
    t.equal(mixed.receiver.requests.length, index + 1);
    t.match(
      await deliveryState(sql, id),
      { status: code < 300 ? 'delivered' : 'pending', attempts: 1 },
      String(code),
    );
  }
  await attempted(sql, hungDelivery);
  // It was sent long ago: on a slow machine its next attempt has failed too.
  for (const attempt of await attemptsOf(sql, hungDelivery))
    t.match(attempt, { httpStatus: null, error: 'timeout' });
  t.equal((await deliveryState(sql, hungDelivery)).status, 'pending');
});

rule('Answer to a webhook | within 5 seconds', async (t) => {
  await attempted(sql, hungDelivery);
  const [attempt] = await attemptsOf(sql, hungDelivery);
  t.equal(attempt!.error, 'timeout', 'it ended by itself');
  t.ok(attempt!.durationMs >= 4900, `${attempt!.durationMs} ms`);
  t.equal(DEADLINE_MS, 5000);
});

void t.test(
  'GET /webhooks/{id} shows the health of an endpoint after real deliveries',
  async (t) => {
    let answer = refusing;
    const changing = await shop(t, (response) => answer(response));
    const path = changing.path.replace('/deliveries', '');
    const health = async () => {
      const shown = await api.call('GET', path, { token: changing.key });
      const { failingSince, lastSuccessAt, lastErrorAt, lastError, successRate } = shown.body.data;
      return { failingSince, lastSuccessAt, lastErrorAt, lastError, successRate };
    };
    const none = { lastSuccessAt: null, lastErrorAt: null, lastError: null, successRate: null };
    t.same(await health(), { failingSince: null, ...none });

    const first = await changing.happen();
    await attempted(sql, first);
    const [attempt] = await attemptsOf(sql, first);
    await until(async () => (await health()).failingSince !== null);
    const failing = await health();
    t.match(failing, { lastSuccessAt: null, lastError: 'HTTP 500', successRate: 0 });
    t.ok(Date.parse(String(failing.failingSince)) >= attempt!.startedAt.getTime());

    answer = taking;
    for (let n = 0; n < 3; n += 1) await changing.happen();
    await until(async () => (await health()).successRate === 0.75);
    const healthy = await health();
    t.match(healthy, { ...failing, failingSince: null, lastSuccessAt: String, successRate: 0.75 });
    t.ok(Date.parse(String(healthy.lastSuccessAt)) > Date.parse(String(failing.lastErrorAt)));
  },
);
