// The merchant's own ids of a subscription: given at registration, changed by the merchant, in
// lists, exports and events.
import t from 'tap';
import { appendEvents } from '../../../src/domain/outbox/events.ts';
import { chainApi, testApi } from '../../fixtures/http.ts';
import { insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

interface Subscription {
  id: string;
  externalId: string | null;
  metadata: Record<string, string>;
}

void t.test(
  'ids given at registration are stored, in every event, and hidden from the subscriber',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    await api.call('PATCH', `/merchant/apps/${merchant.appId}`, {
      token: merchant.key,
      body: { ownIdsBySubscriber: true },
    });
    const { token, ...subscriber } = await api.signIn('subscriber', api.funded());
    const subscriptionPda = await api.subscribed({ token, ...subscriber }, plan.id);
    const ids = { externalId: 'customer 1', metadata: { order_id: '1234', 'a b': 'ü💶' } };
    const body = { appId: merchant.appId, planId: plan.id, subscriptionPda, ...ids };
    const created = await api.call('POST', '/subscriber/subscriptions', { token, body });
    t.equal(created.status, 201);
    t.notOk('externalId' in created.body.data || 'metadata' in created.body.data);
    const list = await api.call<Subscription[]>(
      'GET',
      `/merchant/apps/${merchant.appId}/subscriptions?externalId=customer%201`,
      { token: merchant.key },
    );
    t.match(list.body.data, [{ subscriptionPda, ...ids }], 'names keep their spelling');
    const events = await api.sql<{ body: string }[]>`select body from events`;
    t.match(JSON.parse(events[0]!.body), { type: 'subscription_created', data: ids });
  },
);

void t.test(
  'PATCH keeps omitted ids, replaces metadata as a whole, and clears an id with null',
  async (t) => {
    const api = await testApi(t);
    const [merchant, other] = [await api.merchant(), await api.merchant()];
    const planId = await insertPlan(api.sql, merchant);
    const id = await insertSubscription(api.sql, { appId: merchant.appId, planId });
    const path = `/merchant/apps/${merchant.appId}/subscriptions/${id}`;
    const patch = (body: unknown, token = merchant.key) =>
      api.call<Subscription>('PATCH', path, { token, body });
    t.match((await patch({ externalId: 'c-1', metadata: { a: '1', b: '2' } })).body.data, {
      externalId: 'c-1',
      metadata: { a: '1', b: '2' },
    });
    t.same((await patch({ metadata: { b: '3' } })).body.data.metadata, { b: '3' });
    t.equal((await patch({})).body.data.externalId, 'c-1');
    t.equal((await patch({ externalId: null })).body.data.externalId, null);
    t.same(
      (await api.call<Subscription>('GET', path, { token: merchant.key })).body.data.metadata,
      { b: '3' },
    );
    t.equal((await patch({}, other.key)).status, 403);

    await patch({ externalId: 'c-2' });
    await api.sql.begin((tx) =>
      appendEvents(tx, [{ subscriptionId: id, type: 'cancel_requested' }]),
    );
    const [event] = await api.sql<{ body: string }[]>`select body from events`;
    t.match(JSON.parse(event!.body), { data: { externalId: 'c-2', metadata: { b: '3' } } });
  },
);

void t.test(
  'metadata has up to 20 strings and 4 KiB, ids 1 to 120 characters; other values are refused with the field',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const id = await insertSubscription(api.sql, { appId: merchant.appId, planId });
    const path = `/merchant/apps/${merchant.appId}/subscriptions/${id}`;
    const many = (count: number, value = 'x') =>
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, value]));
    const cases: [string, Record<string, unknown>][] = [
      ['externalId', { externalId: '' }],
      ['externalId', { externalId: 'x'.repeat(121) }],
      ['externalId', { externalId: 'a\u202eb' }],
      ['externalId', { externalId: 1 }],
      ['metadata', { metadata: null }],
      ['metadata', { metadata: [] }],
      ['metadata.a', { metadata: { a: 1 } }],
      ['metadata.a', { metadata: { a: { b: 'c' } } }],
      ['metadata.a', { metadata: { a: '\u0000' } }],
      ['metadata', { metadata: { '': 'x' } }],
      ['metadata', { metadata: { 'a\nb': 'x' } }],
      ['metadata', { metadata: many(21) }],
      ['metadata', { metadata: many(20, 'x'.repeat(200)) }],
      ['status', { status: 'cancelled' }],
    ];
    for (const [field, body] of cases) {
      const answer = await api.call('PATCH', path, { token: merchant.key, body });
      t.equal(answer.status, 400, JSON.stringify(body).slice(0, 60));
      t.equal(answer.body.error?.details?.[0]?.path, field, JSON.stringify(body).slice(0, 60));
    }
    const most = { externalId: 'x'.repeat(120), metadata: many(20, 'x'.repeat(190)) };
    t.match(await api.call('PATCH', path, { token: merchant.key, body: most }), {
      status: 200,
      body: { data: most },
    });
  },
);

void t.test(
  'lists can be filtered by externalId with other filters and pages; exports include both ids',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const [a, b] = [await insertPlan(api.sql, merchant), await insertPlan(api.sql, merchant)];
    const put = (planId: string, externalId: string | null, fields = {}) =>
      insertSubscription(api.sql, { appId: merchant.appId, planId }, { externalId, ...fields });
    const one = await put(a, 'c-1');
    const two = await put(b, 'c-1', { status: 'expired' });
    await put(a, 'c-2');
    await put(a, null);
    const three = await put(a, 'c-1', { metadata: { note: '=1+1' } });
    const list = async (query: string) => {
      const path = `/merchant/apps/${merchant.appId}/subscriptions?externalId=c-1${query}`;
      const { body, headers } = await api.call<Subscription[]>('GET', path, {
        token: merchant.key,
      });
      return { ids: body.data.map(({ id }) => id), next: headers['x-next-cursor'] };
    };
    t.same((await list('')).ids, [three, two, one]);
    t.same((await list(`&planId=${a}`)).ids, [three, one]);
    t.same((await list('&status=expired')).ids, [two]);
    const first = await list('&limit=2');
    t.same(first.ids, [three, two]);
    t.same((await list(`&limit=2&cursor=${String(first.next)}`)).ids, [one]);
    const other = await api.merchant();
    const foreign = `/merchant/apps/${other.appId}/subscriptions?externalId=c-1`;
    t.same((await api.call('GET', foreign, { token: other.key })).body.data, []);

    await api.sql`update merchants set tier = 'pro'`;
    await insertPayment(api.sql, three, '2026-01-01T00:00:00Z');
    const csv = await api.call('GET', `/merchant/apps/${merchant.appId}/transactions/export`, {
      token: merchant.key,
    });
    const [head, row] = csv.text.split('\r\n').map((line) => line.split(','));
    t.equal(row?.[head!.indexOf('externalId')], 'c-1');
    t.match(csv.text, '"{""note"": ""=1+1""}"');
  },
);

void t.test(
  'graceHours is 0 to 72, may change at any time, and moves accessUntil of subscriptions',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const paidThrough = new Date(Date.UTC(2026, 0, 10));
    const due = { paidThrough, nextPaymentDue: paidThrough };
    const id = await insertSubscription(api.sql, { appId: merchant.appId, planId }, due);
    const plan = `/merchant/apps/${merchant.appId}/plans/${planId}`;
    const patch = (body: unknown) => api.call('PATCH', plan, { token: merchant.key, body });
    const until = async () => {
      const path = `/merchant/apps/${merchant.appId}/subscriptions/${id}`;
      return (await api.call('GET', path, { token: merchant.key })).body.data.accessUntil;
    };
    t.equal(await until(), '2026-01-13T00:00:00.000Z', '72 hours of a month by default');
    for (const [graceHours, expected] of [
      [0, '2026-01-10T00:00:00.000Z'],
      [1, '2026-01-10T01:00:00.000Z'],
      [72, '2026-01-13T00:00:00.000Z'],
    ] as const) {
      t.match(await patch({ graceHours }), { status: 200, body: { data: { graceHours } } });
      t.equal(await until(), expected);
    }
    for (const graceHours of [-1, 73, 1.5, '1'])
      t.match(await patch({ graceHours }), {
        status: 400,
        body: { error: { details: [{ path: 'graceHours' }] } },
      });
    await patch({ graceHours: 1 });
    await patch({ name: 'Renamed' });
    t.match((await api.call('GET', plan, { token: merchant.key })).body.data, {
      graceHours: 1,
      name: 'Renamed',
    });
    t.equal((await patch({ graceHours: null })).body.data.graceHours, null);
    await api.call('POST', `/merchant/apps/${merchant.appId}/subscriptions/${id}/cancel`, {
      token: merchant.key,
    });
    t.equal(await until(), '2026-01-10T00:00:00.000Z', 'no grace after a cancel request');
  },
);

void t.test(
  "a plan's retryHours allow ten ascending delays, pastDueDays 1 to 90; null means the default",
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const patch = (body: unknown) =>
      api.call('PATCH', `/merchant/apps/${merchant.appId}/plans/${planId}`, {
        token: merchant.key,
        body,
      });
    const own = { retryHours: [2, 48], pastDueDays: 3 };
    t.match(await patch(own), { status: 200, body: { data: own } });
    t.match((await patch({ name: 'Other' })).body.data, own);
    t.match((await patch({ retryHours: null, pastDueDays: null })).body.data, {
      retryHours: null,
      pastDueDays: null,
    });
    for (const [path, body] of [
      ['retryHours', { retryHours: [] }],
      ['retryHours', { retryHours: [2, 1] }],
      ['retryHours', { retryHours: [1, 1] }],
      ['retryHours.0', { retryHours: [0] }],
      ['retryHours', { retryHours: Array.from({ length: 11 }, (_, n) => n + 1) }],
      ['pastDueDays', { pastDueDays: 0 }],
      ['pastDueDays', { pastDueDays: 91 }],
    ] as const)
      t.match(
        await patch(body),
        { status: 400, body: { error: { details: [{ path }] } } },
        JSON.stringify(body),
      );
  },
);
