// Endpoints that are disabled, by their merchant or by a dispatcher, and enabled again.
import t, { type Test } from 'tap';
import { workOnReplays } from '../../../src/domain/outbox/replay.ts';
import { testApi, type TestApi } from '../../fixtures/http.ts';
import { startReceiver } from '../../fixtures/receiver.ts';
import { insertEvent, insertPlan, insertSubscription } from '../../fixtures/rows.ts';
import { runDispatcher, until } from '../../fixtures/webhooks.ts';

interface Endpoint {
  id: string;
  disabledAt: string | null;
  disabledReason: string | null;
  missedEvents: number;
  requeuedDeliveries: number;
}

/** An app with an endpoint and a subscription. */
async function stage(t: Test, url = 'https://tea.example/hook') {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const { token, appId } = merchant;
  const planId = await insertPlan(api.sql, merchant);
  const subscriptionId = await insertSubscription(api.sql, { appId, planId });
  const webhooks = `/merchant/apps/${appId}/webhooks`;
  const create = async () =>
    (await api.call<Endpoint>('POST', webhooks, { token, body: { url } })).body.data;
  const endpoint = await create();
  const patch = (body: unknown, id = endpoint.id) =>
    api.call<Endpoint>('PATCH', `${webhooks}/${id}`, { token, body });
  const counts = async () => {
    const [row] = await api.sql`
      select (select count(*)::int from delivery_queue) as queued,
        (select count(*)::int from deliveries where status = 'cancelled') as cancelled,
        (select count(*)::int from events where not queued) as unsent`;
    return row;
  };
  return { api, merchant, token, appId, subscriptionId, endpoint, webhooks, create, patch, counts };
}

/** Runs the replays that requests started. */
async function replayAll({ sql }: TestApi): Promise<void> {
  while (await workOnReplays(sql));
}

void t.test(
  'a disabled endpoint gets nothing, and enabling it queues exactly the events it missed',
  async (t) => {
    const { api, token, appId, subscriptionId, endpoint, webhooks, patch, counts } = await stage(t);
    const { sql } = api;
    const event = () => insertEvent(sql, subscriptionId);
    t.match(endpoint, { disabledAt: null, disabledReason: null });
    await event();
    await event();
    // An operator cancelled one of them earlier: it is not what was missed.
    await sql`
      with gone as (delete from delivery_queue where id = (select id from delivery_queue order by id limit 1) returning *)
      insert into deliveries (id, endpoint_id, event_id, event_type, status, attempts, replayed, finished_at)
      select id, endpoint_id, event_id, event_type, 'cancelled', 0, false, now() - interval '1 hour' from gone`;
    const off = await patch({ disabled: true });
    t.match(off, { status: 200, body: { data: { disabledReason: 'merchant', missedEvents: 0 } } });
    t.type(off.body.data.disabledAt, 'string');
    const events = `/merchant/apps/${appId}/events?type=endpoint_disabled`;
    const listed = await api.call<{ id: string; payload: object }[]>('GET', events, { token });
    t.match(listed.body.data, [
      {
        type: 'endpoint_disabled',
        subscriptionId: null,
        payload: { data: { appId, webhookId: endpoint.id, disabledReason: 'merchant' } },
      },
    ]);
    const [told] = listed.body.data;
    const resend = `/merchant/apps/${appId}/events/${told!.id}/replay`;
    t.match(await api.call('POST', resend, { token }), {
      status: 409,
      body: { error: { message: /only listed/ } },
    });
    t.same(await counts(), { queued: 0, cancelled: 2, unsent: 1 });
    const again = await patch({ disabled: true });
    t.equal(again.body.data.disabledAt, off.body.data.disabledAt, 'again changes nothing');
    await event();
    await event();
    t.same(await counts(), { queued: 0, cancelled: 2, unsent: 3 });
    const [last] = (
      await api.call<{ id: string }[]>('GET', `/merchant/apps/${appId}/events`, { token })
    ).body.data;
    const path = `/merchant/apps/${appId}/events/${last!.id}/replay`;
    t.match(await api.call('POST', path, { token }), {
      status: 409,
      body: { error: { message: /enable the disabled one/ } },
    });
    t.match(
      await api.call('POST', `/merchant/apps/${appId}/replays`, {
        token,
        body: { status: 'unsent', dryRun: true },
      }),
      { body: { data: { total: 0, matching: [{ count: 2, deliverable: 0 }] } } },
    );
    const woken = api.woken.replays;
    const on = await patch({ disabled: false });
    t.match(on, {
      status: 200,
      body: { data: { disabledAt: null, disabledReason: null, missedEvents: 3 } },
    });
    t.equal(api.woken.replays, woken + 1);
    await replayAll(api);
    t.match(await counts(), { queued: 3 });
    t.match((await patch({ disabled: false })).body.data, { missedEvents: 0 });
    await replayAll(api);
    t.match(await counts(), { queued: 3 }, 'again queues nothing');
    await event();
    t.match(await counts(), { queued: 4 });

    // Disabled a second time: what the first run queued and is cancelled again is sent once.
    await patch({ disabled: true });
    t.match((await patch({ disabled: false })).body.data, { missedEvents: 4 });
    await replayAll(api);
    const twice = await sql`
      select event_id from delivery_queue group by event_id having count(*) > 1`;
    t.same(twice, []);
    t.match(await counts(), { queued: 4 });

    for (const body of [{ disabled: null }, { disabled: 'yes' }, { url: 'https://x.example' }])
      t.equal((await patch(body)).status, 400);
    const other = await api.merchant();
    const foreign = await api.call('PATCH', `${webhooks}/${endpoint.id}`, {
      token: other.token,
      body: { disabled: true },
    });
    t.equal(foreign.status, 403);
    t.equal((await patch({ disabled: true }, other.appId)).status, 404);
  },
);

void t.test(
  'an app’s next endpoint gets the pending deliveries of an endpoint that was disabled and deleted',
  async (t) => {
    const { api, token, subscriptionId, endpoint, webhooks, create, patch, counts } =
      await stage(t);
    await insertEvent(api.sql, subscriptionId);
    await patch({ disabled: true });
    await api.call('DELETE', `${webhooks}/${endpoint.id}`, { token });
    t.match(await create(), { requeuedDeliveries: 1 });
    t.match(await counts(), { queued: 1 });
  },
);

void t.test(
  'a delivery in flight while its endpoint is disabled is cancelled, and queued again afterwards',
  async (t) => {
    let answer: () => void = () => undefined;
    const receiver = await startReceiver(t, (response) => {
      answer = () => response.writeHead(503).end();
    });
    const { api, subscriptionId, patch, counts } = await stage(t, receiver.url);
    const env = { ENCRYPTION_KEY: 'an encryption key of 32 bytes ...' };
    await runDispatcher(t, { url: api.databaseUrl }, { env });
    await insertEvent(api.sql, subscriptionId);
    await receiver.got(1);
    await patch({ disabled: true });
    t.match(await counts(), { queued: 1, cancelled: 0 });
    answer();
    await until(async () => (await counts())?.cancelled === 1);
    t.match(await counts(), { queued: 0 });
    t.match((await patch({ disabled: false })).body.data, { missedEvents: 1 });
    await replayAll(api);
    await receiver.got(2);
    answer();
  },
);

void t.test(
  'an endpoint that only fails for ENDPOINT_DISABLE_DAYS is disabled; enabling it restarts the count',
  async (t) => {
    const { api, endpoint, patch, token, webhooks } = await stage(t);
    const { sql } = api;
    const health = (since: number, last: number) => sql`
      insert into endpoint_health (endpoint_id, last_failure_at, failing_since, last_error)
      values (${endpoint.id}, now() - ${last} * interval '1 hour', now() - ${since} * interval '1 hour', 'timeout')
      on conflict (endpoint_id) do update set last_failure_at = excluded.last_failure_at, failing_since = excluded.failing_since`;
    const read = async () =>
      (await api.call<Endpoint>('GET', `${webhooks}/${endpoint.id}`, { token })).body.data;
    const judged = async (days: string) => {
      const env = {
        ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
        ENDPOINT_DISABLE_DAYS: days,
      };
      const dispatcher = await runDispatcher(t, { url: api.databaseUrl }, { env });
      await dispatcher.stop();
      return (await read()).disabledReason;
    };
    await health(49, 0);
    t.equal(await judged('0'), null, 'never by default');
    t.equal(await judged('3'), null, 'not long enough');
    await health(490, 480);
    t.equal(await judged('2'), null, 'ten hours of failures, then nothing');
    await health(49, 0);
    t.equal(await judged('2'), 'failing');
    const events = `${webhooks.replace('webhooks', 'events')}?type=endpoint_disabled`;
    t.match((await api.call('GET', events, { token })).body.data, [
      {
        payload: {
          data: { disabledReason: 'failing', failingSince: String, lastError: 'timeout' },
        },
      },
    ]);
    await patch({ disabled: false });
    t.match(await read(), { disabledReason: null, failingSince: String });
    t.equal(await judged('2'), null, 'from the time at which it was enabled');
  },
);
