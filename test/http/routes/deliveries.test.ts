// Deliveries of an endpoint, their attempts, replay; the event log.
import t from 'tap';
import { testApi, type TestApi } from '../../fixtures/http.ts';
import { insertEvent, insertPlan, insertSubscription } from '../../fixtures/rows.ts';
import { queuedAt, finishDeliveries } from '../../fixtures/webhooks.ts';

interface Delivery {
  id: string;
  eventId: string;
  status: string;
  [field: string]: unknown;
}

async function hooked(api: TestApi) {
  const merchant = await api.merchant();
  const app = `/merchant/apps/${merchant.appId}`;
  const endpoint = await api.call<{ id: string }>('POST', `${app}/webhooks`, {
    token: merchant.key,
    body: { url: 'https://a.test/' },
  });
  const subscription = await insertSubscription(api.sql, {
    appId: merchant.appId,
    planId: await insertPlan(api.sql, merchant),
  });
  return {
    ...merchant,
    app,
    path: `${app}/webhooks/${endpoint.body.data.id}/deliveries`,
    subscription,
  };
}

void t.test(
  'deliveries of an endpoint can be filtered by status, type, since and until',
  async (t) => {
    const api = await testApi(t);
    const { key, path, subscription } = await hooked(api);
    const queued = async () => (await insertEvent(api.sql, subscription)).deliveryId!;
    const one = await queuedAt(api.sql, await queued(), new Date('2026-01-01'));
    const two = await queuedAt(api.sql, await queued(), new Date('2026-01-02'));
    const three = await queued();
    await finishDeliveries(api.sql, 'failed', { ids: [one], attempts: 6 });
    await finishDeliveries(api.sql, 'delivered', { ids: [two] });
    const list = async (query: string) =>
      (await api.call<Delivery[]>('GET', `${path}?${query}`, { token: key })).body.data.map(
        ({ id }) => id,
      );
    t.same(await list(''), [three, two, one]);
    t.same(await list('status=failed'), [one]);
    t.same(await list('type=payment_success&until=2026-01-03'), [two, one]);
    t.same(await list('type=cancel_forced'), []);
    t.same(await list('since=2026-01-02&until=2026-01-03'), [two]);
    t.equal((await api.call('GET', `${path}?status=lost`, { token: key })).status, 400);
    const failed = await api.call<Delivery[]>('GET', `${path}?status=failed`, { token: key });
    t.match(failed.body.data[0], {
      eventType: 'payment_success',
      attempts: 6,
      nextAttemptAt: null,
      replayOf: null,
    });
  },
);

void t.test('deliveries are filtered by the response to the last attempt', async (t) => {
  const api = await testApi(t);
  const { key, app, path, subscription } = await hooked(api);
  const queued = async () => (await insertEvent(api.sql, subscription)).deliveryId!;
  const answered = async (status: 'failed' | 'delivered', httpStatus: number | null) => {
    const id = await queued();
    await finishDeliveries(api.sql, status, { ids: [id] });
    await api.sql`update deliveries set last_started_at = now(), last_duration_ms = 1,
      last_http_status = ${httpStatus}, last_error = ${httpStatus === null ? 'timeout' : null}
      where id = ${id}`;
    return id;
  };
  const good = await answered('delivered', 204);
  const refused = await answered('failed', 503);
  const silent = await answered('failed', null);
  const waiting = await queued();
  await api.sql`insert into earlier_attempts (delivery_id, number, started_at, duration_ms, http_status) values (${waiting}, 1, now(), 1, 503)`;
  await queued();
  for (const list of [path, `${app}/deliveries`])
    for (const [query, expected] of [
      ['httpStatus=204', [good]],
      ['httpStatus=2xx', [good]],
      ['httpStatus=200', []],
      ['httpStatus=503', [waiting, refused]],
      ['httpStatus=5xx&limit=1', [waiting]],
      ['httpStatus=5xx&status=failed', [refused]],
      ['httpStatus=none', [silent]],
      ['httpStatus=4xx', []],
    ] as const) {
      const { body } = await api.call<Delivery[]>('GET', `${list}?${query}`, { token: key });
      t.same(
        body.data.map(({ id }) => id),
        expected,
        query,
      );
    }
  const [failed] = (await api.call<Delivery[]>('GET', `${path}?httpStatus=none`, { token: key }))
    .body.data;
  t.match(failed, { lastHttpStatus: null, lastError: 'timeout' });
  t.equal((await api.call('GET', `${path}?httpStatus=6xx`, { token: key })).status, 400);
});

void t.test(
  'GET attention lists everything in an app that needs attention in one response',
  async (t) => {
    const api = await testApi(t);
    const { key, app, appId, subscription } = await hooked(api);
    interface Attention {
      endpoints: { lastError: string | null; disabledAt: string | null }[];
      blockedPlans: { name: string; collectionBlockedReason: string }[];
      pastDue: number;
      unregistered: number;
    }
    const read = async () =>
      (await api.call<Attention>('GET', `${app}/attention`, { token: key })).body.data;
    t.same(await read(), { endpoints: [], blockedPlans: [], pastDue: 0, unregistered: 0 });
    await api.sql`
    insert into endpoint_health (endpoint_id, last_failure_at, failing_since, last_error)
    select id, now(), now(), 'HTTP 503' from webhook_endpoints`;
    await api.sql`update plans set collection_blocked_reason = 'receiver_frozen' where app_id = ${appId}`;
    await api.sql`update subscriptions set status = 'past_due', past_due_since = now() where id = ${subscription}`;
    await api.sql`
    insert into unregistered_subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet)
    select ${appId}, id, 'an account', 'a wallet' from plans where app_id = ${appId} limit 1`;
    t.match(await read(), {
      endpoints: [{ lastError: 'HTTP 503', disabledAt: null }],
      blockedPlans: [{ collectionBlockedReason: 'receiver_frozen' }],
      pastDue: 1,
      unregistered: 1,
    });
    const other = await api.merchant();
    t.equal((await api.call('GET', `${app}/attention`, { token: other.key })).status, 403);
  },
);

void t.test('a delivery shows its attempts, with responses of any bytes', async (t) => {
  const api = await testApi(t);
  const { key, path, subscription } = await hooked(api);
  const { deliveryId } = await insertEvent(api.sql, subscription);
  const bytes = Buffer.from([0x00, 0xff, 0x41, 0xc3]);
  await api.sql`insert into earlier_attempts (delivery_id, number, started_at, duration_ms, http_status, response, address) values (${deliveryId!}, 1, '2026-01-01', 12, 500, ${bytes}, '203.0.113.1')`;
  await api.sql`insert into earlier_attempts (delivery_id, number, started_at, duration_ms, error) values (${deliveryId!}, 2, '2026-01-02', 5000, 'timeout')`;
  await api.sql`update delivery_queue set attempts = 2 where id = ${deliveryId!}`;
  const { status, body } = await api.call<Delivery>('GET', `${path}/${deliveryId!}`, {
    token: key,
  });
  t.equal(status, 200);
  t.same(body.data.attemptLog, [
    {
      number: 1,
      startedAt: '2026-01-01T00:00:00.000Z',
      durationMs: 12,
      httpStatus: 500,
      error: null,
      response: '\0\ufffdA\ufffd',
      address: '203.0.113.1',
    },
    {
      number: 2,
      startedAt: '2026-01-02T00:00:00.000Z',
      durationMs: 5000,
      httpStatus: null,
      error: 'timeout',
      response: null,
      address: null,
    },
  ]);
  t.equal((await api.call('GET', `${path}/malformed`, { token: key })).status, 404);
  const other = await hooked(api);
  t.equal(
    (await api.call('GET', `${other.path}/${deliveryId!}`, { token: other.key })).status,
    404,
  );
  t.equal((await api.call('GET', `${path}/${deliveryId!}`, { token: other.key })).status, 403);
});

void t.test('replay queues the same event again as a new delivery', async (t) => {
  const api = await testApi(t);
  const { key, path, app, subscription } = await hooked(api);
  const { deliveryId, eventId } = await insertEvent(api.sql, subscription);
  await finishDeliveries(api.sql, 'failed', { attempts: 6 });
  const replayed = await api.call<Delivery>('POST', `${path}/${deliveryId!}/replay`, {
    token: key,
  });
  t.match(replayed, {
    status: 201,
    body: { data: { eventId, status: 'pending', attempts: 0, replayOf: deliveryId } },
  });
  t.not(replayed.body.data.id, deliveryId);
  t.equal(api.woken.dispatchers, 1);
  t.equal(
    (await api.sql`select 1 from events`).length,
    1,
    'the event, and so the id that receivers deduplicate by, is the same',
  );
  const [webhook] = (await api.call<{ id: string }[]>('GET', `${app}/webhooks`, { token: key }))
    .body.data;
  await api.call('DELETE', `${app}/webhooks/${webhook!.id}`, { token: key });
  t.equal(
    (await api.call('POST', `${path}/${deliveryId!}/replay`, { token: key })).status,
    404,
    'the endpoint is gone',
  );
});

void t.test(
  'the event log shows the exact payload, also in an app without an endpoint',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant, { name: 'Ünïcödé "plan" \\ 💶' });
    const subscription = await insertSubscription(api.sql, { appId: merchant.appId, planId });
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) ids.push((await insertEvent(api.sql, subscription)).eventId);
    const path = `/merchant/apps/${merchant.appId}/events`;
    const listed = await api.call<{ id: string; sequence: number }[]>('GET', `${path}?limit=3`, {
      token: merchant.key,
    });
    t.same(
      listed.body.data.map(({ id }) => id),
      ids.slice(2).reverse(),
    );
    t.same(
      listed.body.data.map(({ sequence }) => sequence),
      [5, 4, 3],
    );
    const rest = await api.call<{ id: string }[]>(
      'GET',
      `${path}?limit=3&cursor=${String(listed.headers['x-next-cursor'])}`,
      {
        token: merchant.key,
      },
    );
    t.same(
      rest.body.data.map(({ id }) => id),
      ids.slice(0, 2).reverse(),
    );
    const one = await api.call<{ body: string; payload: unknown }>('GET', `${path}/${ids[0]!}`, {
      token: merchant.key,
    });
    const [row] = await api.sql<{ body: string }[]>`select body from events where id = ${ids[0]!}`;
    t.equal(one.body.data.body, row!.body, 'byte for byte');
    t.ok(one.text.includes(`"payload":${row!.body}`));
    t.match(one.body.data.payload, {
      id: ids[0],
      data: { amountGross: '9007199254740993', planName: 'Ünïcödé "plan" \\ 💶' },
    });
    const other = await api.merchant();
    t.equal(
      (
        await api.call('GET', `/merchant/apps/${other.appId}/events/${ids[0]!}`, {
          token: other.key,
        })
      ).status,
      404,
    );
  },
);
