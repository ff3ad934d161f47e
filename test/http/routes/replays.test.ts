// Replacing an endpoint, and sending again over the API: an event, or all that a filter matches.
import t from 'tap';
import { connect } from '../../../src/db/postgres/connect.ts';
import { reportsOn } from '../../../src/db/postgres/reports.ts';
import { appendEvents } from '../../../src/domain/outbox/events.ts';
import { countReplay } from '../../../src/domain/outbox/replay-quota.ts';
import {
  planReplay,
  runReplay,
  everything,
  workOnReplays,
} from '../../../src/domain/outbox/replay.ts';
import { testApi, type TestApi } from '../../fixtures/http.ts';
import { insertEvent, insertPlan, insertSubscription } from '../../fixtures/rows.ts';
import { finishDeliveries } from '../../fixtures/webhooks.ts';

interface Row {
  id: string;
  eventId: string;
  status: string;
  webhookId: string;
  replayOf: string | null;
}
interface Run {
  id: string | null;
  status: string;
  total: number;
  queued: number;
  matching: { status: string; count: number; deliverable: number }[];
}

async function shop(api: TestApi) {
  const merchant = await api.merchant();
  const app = `/merchant/apps/${merchant.appId}`;
  const token = merchant.key;
  const subscription = await insertSubscription(api.sql, {
    appId: merchant.appId,
    planId: await insertPlan(api.sql, merchant),
  });
  return {
    ...merchant,
    app,
    subscription,
    create: async (extraEvents: string[] = []) =>
      (
        await api.call<{ id: string; secret: string; requeuedDeliveries: number }>(
          'POST',
          `${app}/webhooks`,
          { token, body: { url: 'https://a.test/', extraEvents } },
        )
      ).body.data,
    remove: (id: string) => api.call('DELETE', `${app}/webhooks/${id}`, { token }),
    event: async () => insertEvent(api.sql, subscription),
    list: async (query = '') =>
      (await api.call<Row[]>('GET', `${app}/deliveries${query}`, { token })).body.data,
    post: <T = Run>(path: string, body?: unknown) =>
      api.call<T>('POST', `${app}${path}`, { token, body }),
    get: <T = Run>(path: string) => api.call<T>('GET', `${app}${path}`, { token }),
  };
}

const paused = (subscriptionId: string) => ({
  subscriptionId,
  type: 'subscription_paused' as const,
  extra: { pausedAt: new Date() },
});

void t.test(
  'an endpoint that replaces another within seven days gets its pending deliveries once',
  async (t) => {
    const api = await testApi(t);
    const own = await shop(api);
    const first = await own.create();
    t.equal(first.requeuedDeliveries, 0);
    const [done, open, inHand] = [await own.event(), await own.event(), await own.event()];
    await finishDeliveries(api.sql, 'delivered', { ids: [done.deliveryId!] });
    await api.sql`update delivery_queue set claim_id = gen_random_uuid(), claimed_until = now() + interval '1 hour' where id = ${inHand.deliveryId!}`;
    await own.remove(first.id);
    const second = await own.create();
    t.equal(second.requeuedDeliveries, 2, 'the one that a dispatcher has in hand as well');
    const queued = (await own.list()).filter(({ webhookId }) => webhookId === second.id);
    t.same(
      new Set(queued.map(({ eventId, replayOf, status }) => `${eventId} ${replayOf} ${status}`)),
      new Set([open, inHand].map((each) => `${each.eventId} ${each.deliveryId} pending`)),
    );
    await own.remove(second.id);
    const third = await own.create();
    t.equal(third.requeuedDeliveries, 2, 'those of the endpoint before, each event once');
    await finishDeliveries(api.sql, 'delivered');
    await own.remove(third.id);
    t.equal((await own.create()).requeuedDeliveries, 0);
    t.ok(api.woken.dispatchers > 0);
  },
);

void t.test(
  'an endpoint that replaces another after seven days gets no pending deliveries',
  async (t) => {
    const api = await testApi(t);
    const own = await shop(api);
    const first = await own.create();
    await own.event();
    await own.remove(first.id);
    await api.sql`update webhook_endpoints set deleted_at = now() - interval '7 days 1 second'`;
    t.equal((await own.create()).requeuedDeliveries, 0);
  },
);

void t.test(
  'creating a second endpoint gets CONFLICT, and the message explains the effect of a deletion',
  async (t) => {
    const api = await testApi(t);
    const own = await shop(api);
    await own.create();
    const refused = await own.post('/webhooks', { url: 'https://b.test/' });
    t.equal(refused.status, 409);
    t.match(refused.body.error?.message, /delete it first.+cancels.+within 7 days/);
  },
);

void t.test(
  'deliveries of an app are listed with those to deleted endpoints, their attempts and replay',
  async (t) => {
    const api = await testApi(t);
    const own = await shop(api);
    const first = await own.create();
    const sent = [await own.event(), await own.event()];
    await finishDeliveries(api.sql, 'failed', { attempts: 6 });
    await own.remove(first.id);
    const second = await own.create();
    sent.push(await own.event());
    const ids = sent.map(({ deliveryId }) => deliveryId).reverse();
    t.same(
      (await own.list()).map(({ id }) => id),
      ids,
    );
    t.same(
      (await own.list('?status=failed')).map(({ webhookId }) => webhookId),
      [first.id, first.id],
    );
    const page = await own.get<Row[]>('/deliveries?limit=2');
    t.same(
      page.body.data.map(({ id }) => id),
      ids.slice(0, 2),
    );
    const rest = await own.get<Row[]>(
      `/deliveries?cursor=${String(page.headers['x-next-cursor'])}`,
    );
    t.same(
      rest.body.data.map(({ id }) => id),
      ids.slice(2),
    );
    const path = `/deliveries/${sent[0]!.deliveryId!}`;
    t.match(await own.get(path), {
      status: 200,
      body: { data: { webhookId: first.id, attemptLog: [{ number: 6, httpStatus: 500 }] } },
    });
    t.match(await own.post(`${path}/replay`), {
      status: 201,
      body: { data: { webhookId: second.id, replayOf: sent[0]!.deliveryId, status: 'pending' } },
    });
    const other = await shop(api);
    t.equal((await other.get(path)).status, 404);
    t.equal((await other.post(`${path}/replay`)).status, 404);
    t.same(await other.list(), []);
  },
);

void t.test('an event can be replayed, also if it was never sent', async (t) => {
  const api = await testApi(t);
  const own = await shop(api);
  const { eventId, deliveryId } = await own.event();
  t.equal(deliveryId, undefined);
  t.match(await own.post(`/events/${eventId}/replay`), {
    status: 409,
    body: { error: { message: /no webhook endpoint/ } },
  });
  const { id } = await own.create();
  t.match(await own.post(`/events/${eventId}/replay`), {
    status: 201,
    body: { data: { eventId, webhookId: id, status: 'pending', replayOf: null } },
  });
  const other = await shop(api);
  t.equal((await other.post(`/events/${eventId}/replay`)).status, 404);
});

void t.test(
  'a replay sends an opt-in event to an endpoint without that type only if event or type is named',
  async (t) => {
    const api = await testApi(t);
    const own = await shop(api);
    await api.sql.begin((tx) => appendEvents(tx, [paused(own.subscription)]));
    const asked = await own.create(['subscription_paused']);
    const unsent = (filter = {}) =>
      own.post('/replays', { status: 'unsent', dryRun: true, ...filter });
    t.match((await unsent()).body.data, { total: 1 }, 'asked for');
    await own.remove(asked.id);
    await own.create();
    t.match((await unsent()).body.data, {
      total: 0,
      matching: [{ status: 'unsent', count: 1, deliverable: 0 }],
    });
    t.match((await unsent({ type: 'subscription_paused' })).body.data, { total: 1 });
    await own.post('/replays', { status: 'unsent' });
    while (await workOnReplays(api.sql));
    t.same(await own.list(), []);
    const [event] = (await own.get<{ id: string; type: string }[]>('/events')).body.data;
    t.equal(event!.type, 'subscription_paused', 'it is listed');
    t.match(await own.post(`/events/${event!.id}/replay`), { status: 201 });
  },
);

void t.test(
  'unsent deliveries of an opt-in type go to the next endpoint only if it lists that type',
  async (t) => {
    const api = await testApi(t);
    const own = await shop(api);
    const pause = () => api.sql.begin((tx) => appendEvents(tx, [paused(own.subscription)]));
    const first = await own.create(['subscription_paused']);
    await pause();
    await own.event();
    await own.remove(first.id);
    const second = await own.create(['subscription_paused']);
    t.equal(second.requeuedDeliveries, 2);
    await own.remove(second.id);
    t.equal((await own.create()).requeuedDeliveries, 1, 'the payment alone');
  },
);

void t.test(
  'a replay by filter counts, runs in the background, and can be resumed by the command',
  async (t) => {
    const api = await testApi(t);
    const own = await shop(api);
    await own.event();
    await own.create();
    for (let n = 0; n < 5; n += 1) await own.event();
    const failed = (await own.list()).slice(0, 3).map(({ id }) => id);
    await finishDeliveries(api.sql, 'failed', { ids: failed });
    const filter = { status: 'failed', type: 'payment_success', since: '2026-01-01' };
    const counted = await own.post('/replays', { ...filter, dryRun: true });
    t.match(counted, {
      status: 200,
      body: {
        data: {
          id: null,
          status: 'counted',
          total: 3,
          queued: 0,
          matching: [{ status: 'failed', count: 3, deliverable: 3 }],
        },
      },
    });
    t.equal(api.woken.replays, 0);
    const started = await own.post('/replays', filter);
    t.match(started, { status: 201, body: { data: { status: 'running', total: 3, queued: 0 } } });
    t.equal(api.woken.replays, 1);
    const { id } = started.body.data;
    t.equal((await own.post('/replays', filter)).body.data.id, id, 'one run at a time');

    t.equal(await workOnReplays(api.sql, 2), true);
    t.match((await own.get(`/replays/${id!}`)).body.data, { status: 'running', queued: 2 });
    const selection = {
      ...everything,
      appId: own.appId,
      status: 'failed',
      type: 'payment_success',
      since: new Date('2026-01-01'),
    };
    const plan = await planReplay(api.sql, selection);
    t.equal(plan.interrupted?.id, id);
    await runReplay(api.sql, selection, plan);
    t.match((await own.get(`/replays/${id!}`)).body.data, { status: 'finished', queued: 3 });
    t.equal(await workOnReplays(api.sql), false);
    t.same(
      new Set((await own.list('?status=pending')).flatMap(({ replayOf }) => replayOf ?? [])),
      new Set(failed),
    );

    const unsent = await own.post('/replays', { status: 'unsent' });
    t.match(unsent.body.data, { total: 1, matching: [{ status: 'unsent', count: 1 }] });
    const other = await shop(api);
    t.equal((await other.get(`/replays/${unsent.body.data.id!}`)).status, 404);
  },
);

void t.test(
  'a delivery that waits for its next attempt is sent at once, as the same delivery',
  async (t) => {
    const api = await testApi(t);
    const own = await shop(api);
    await own.create();
    for (let n = 0; n < 3; n += 1) await own.event();
    const [exhausted] = await own.list();
    await finishDeliveries(api.sql, 'failed', { ids: [exhausted!.id], attempts: 6 });
    await api.sql`update delivery_queue set attempts = 2, due_at = now() + interval '30 minutes'`;
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const run = (status: string, dryRun = false) => own.post('/replays', { status, since, dryRun });
    t.match((await run('failed', true)).body.data, { total: 1 });
    t.match((await run('retrying', true)).body.data, {
      total: 2,
      matching: [{ status: 'pending' }],
    });
    t.match(await run('retrying'), { status: 201, body: { data: { total: 2 } } });
    while (await workOnReplays(api.sql));
    t.match(await api.sql`select count(*)::int as due from delivery_queue where due_at <= now()`, [
      { due: 2 },
    ]);
    t.equal((await own.list()).length, 3, 'no delivery is added');
    t.match((await run('retrying', true)).body.data, { total: 0 });
  },
);

void t.test(
  'a replay by the billing command is not listed among the replays of the API',
  async (t) => {
    const api = await testApi(t);
    const own = await shop(api);
    await own.create();
    await own.event();
    const selection = { ...everything, appId: own.appId };
    await runReplay(api.sql, selection, await planReplay(api.sql, selection), {
      signal: AbortSignal.abort(),
    });
    const [run] = await api.sql<{ id: string }[]>`select id from replays`;
    t.equal((await own.get(`/replays/${run!.id}`)).status, 404);
    t.equal(await workOnReplays(api.sql), false, 'and serve leaves it alone');
  },
);

void t.test(
  'a replay counts its matches on the Postgres connections that are reserved for reports',
  async (t) => {
    const api = await testApi(t);
    const own = await shop(api);
    await own.create();
    await own.event();
    const reports = connect(api.databaseUrl, { max: 1, name: 'billing test reports' });
    await reports.end();
    api.deps.reports = reportsOn(reports, false);
    t.equal((await own.post('/replays', { dryRun: true })).status, 503, 'there are none');
  },
);

void t.test(
  'replays are limited to 50,000 deliveries a day per app, and below Pro per address',
  async (t) => {
    const api = await testApi(t);
    const own = await shop(api);
    const setSpent = (spent: number) =>
      api.sql`update rate_budgets set spent = ${spent} where subject like 'replays %'`;
    const spent = async () =>
      (
        await api.sql<{ subject: string; spent: number }[]>`
          select subject, spent from rate_budgets where subject like 'replays %' order by subject`
      ).map((row) => [row.subject.replace(own.appId, 'the app'), row.spent]);
    await own.create();
    const event = (await own.event()).eventId;
    const { deliveryId } = await own.event();
    await finishDeliveries(api.sql, 'delivered');
    const all = () => own.post('/replays', { status: 'delivered' });
    t.match(await all(), { status: 201, body: { data: { total: 2 } } });
    t.match(await all(), { status: 201, body: { data: { total: 2 } } }, 'the same run');
    const counted = (count: number) => [
      ['replays from address:127.0.0.1', count],
      ['replays of the app', count],
    ];
    t.same(await spent(), counted(2));
    await workOnReplays(api.deps.sql);
    await finishDeliveries(api.sql, 'delivered');

    await setSpent(49_999);
    const conflict = (message: RegExp) => ({
      status: 409,
      body: { error: { code: 'CONFLICT', message } },
    });
    const full = conflict(
      /^At most 50000 deliveries .* for this app in a day: wait \d+ s\. Narrow/,
    );
    t.match(await all(), full);
    t.match(await own.post('/replays', { status: 'delivered', dryRun: true }), { status: 200 });
    t.match(await own.post('/replays', { status: 'retrying' }), { status: 201 });
    t.same(await spent(), counted(49_999), 'a refused request is not counted');
    t.match(await own.post(`/events/${event}/replay`), { status: 201 });
    t.match(await own.post(`/events/${event}/replay`), full);
    t.match(await own.post(`/deliveries/${deliveryId!}/replay`), full);
    t.equal((await own.list()).length, 5, 'two, two again, and one');

    // The other requests that queue deliveries again.
    const endpoint = (await own.list())[0]!.webhookId;
    const patch = (disabled: boolean) =>
      api.call('PATCH', `${own.app}/webhooks/${endpoint}`, {
        token: own.token,
        body: { disabled },
      });
    await own.event();
    t.equal((await patch(true)).status, 200);
    t.match(await patch(false), full);
    t.match(await own.get(`/webhooks/${endpoint}`), {
      body: { data: { disabledReason: 'merchant' } },
    });
    await setSpent(49_999);
    t.match(await patch(false), { status: 200, body: { data: { missedEvents: 2 } } });
    for (let n = 0; n < 2; n += 1) await workOnReplays(api.deps.sql);
    await own.remove(endpoint);
    const create = () => own.post('/webhooks', { url: 'https://a.test/' });
    t.match(await create(), full);
    await setSpent(49_999);
    t.match(await create(), { status: 201, body: { data: { requeuedDeliveries: 2 } } });

    // Another merchant at the same address.
    const other = await shop(api);
    await other.create();
    const theirs = (await other.event()).eventId;
    t.match(await other.post(`/events/${theirs}/replay`), conflict(/ by callers at this address /));
    await api.sql`update merchants set tier = 'pro' where id = ${other.merchantId}`;
    t.match(await other.post(`/events/${theirs}/replay`), { status: 201 });
    await t.rejects(
      api.deps.sql.begin((tx) => countReplay(tx, { appId: theirs, address: null }, 50_001)),
      { code: 'CONFLICT', message: /would queue 50001 deliveries, and one queues at most 50000/ },
    );
  },
);
