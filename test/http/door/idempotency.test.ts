// Idempotency-Key.
import t from 'tap';
import { deleteOldKeys, takeKey } from '../../../src/db/accounts/idempotency.ts';
import { chainApi, testApi, type TestApi } from '../../fixtures/http.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { insertEvent, insertPlan, insertSubscription } from '../../fixtures/rows.ts';
import { until } from '../../fixtures/webhooks.ts';

const post = (api: TestApi, token: string, key: string, body: unknown, url = '/merchant/apps') =>
  api.call<{ id: string }>('POST', url, { token, body, headers: { 'idempotency-key': key } });
const count = async (api: TestApi) => (await api.sql`select 1 from apps`).length;

void t.test(
  'requests with the same idempotency key and body have one effect and get the same response',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.signIn('merchant');
    const first = await post(api, token, 'one', { name: 'A', description: 'x' });
    t.equal(first.status, 201);
    const again = await post(api, token, 'one', { description: 'x', name: 'A' });
    t.equal(again.status, 201);
    t.equal(again.text, first.text, 'byte for byte');
    t.equal(again.headers['idempotency-replayed'], 'true');
    t.equal(await count(api), 1);
  },
);

void t.test('an idempotency key reused with another body or path gets CONFLICT', async (t) => {
  const api = await testApi(t);
  const { token } = await api.signIn('merchant');
  await post(api, token, 'one', { name: 'A' });
  t.match(await post(api, token, 'one', { name: 'B' }), {
    status: 409,
    body: { error: { code: 'CONFLICT' } },
  });
  t.equal(await count(api), 1);
});

void t.test(
  'concurrent requests with one idempotency key have one effect and get the same response',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.signIn('merchant');
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => post(api, token, 'race', { name: 'A' })),
    );
    t.same(
      [...new Set(answers.map(({ status, text }) => `${status} ${text}`))],
      [`201 ${answers[0]!.text}`],
    );
    t.equal(await count(api), 1);
  },
);

void t.test('an idempotency key is scoped to its caller and lasts 24 hours', async (t) => {
  const api = await testApi(t);
  const [one, two] = [await api.signIn('merchant'), await api.signIn('merchant')];
  await post(api, one.token, 'shared', { name: 'A' });
  t.equal((await post(api, two.token, 'shared', { name: 'B' })).status, 201);
  await api.sql`update idempotency_keys set created_at = now() - interval '23 hours 59 minutes'`;
  t.equal((await post(api, one.token, 'shared', { name: 'other' })).status, 409);
  await api.sql`update idempotency_keys set created_at = now() - interval '24 hours'`;
  t.equal((await post(api, one.token, 'shared', { name: 'other' })).status, 201);
  t.equal(
    (await post(api, one.token, 'shared', { name: 'other' })).headers['idempotency-replayed'],
    'true',
    'and it is a new key then',
  );
});

void t.test('a refused request does not use up its idempotency key', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const planId = await insertPlan(api.sql, merchant);
  const subscription = await insertSubscription(
    api.sql,
    { appId: merchant.appId, planId },
    { status: 'expired' },
  );
  const url = `/merchant/apps/${merchant.appId}/subscriptions/${subscription}/cancel`;
  t.equal((await post(api, merchant.key, 'k', {}, url)).status, 409);
  await api.sql`update subscriptions set status = 'active', ended_at = null`;
  t.equal((await post(api, merchant.key, 'k', {}, url)).status, 200);
});

void t.test('an idempotency key has 1 to 255 printable characters', async (t) => {
  const api = await testApi(t);
  const { token } = await api.signIn('merchant');
  t.equal((await post(api, token, 'k'.repeat(255), { name: 'A' })).status, 201);
  for (const key of ['', 'k'.repeat(256), 'é']) {
    t.match(
      await post(api, token, key, { name: 'A' }),
      { status: 400, body: { error: { details: [{ path: 'idempotency-key' }] } } },
      JSON.stringify(key),
    );
  }
});

void t.test('every POST that creates something honours the Idempotency-Key', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const subscriber = await api.signIn('subscriber', api.funded());
  const subscriptionPda = await api.subscribed(subscriber, plan.id);
  const apps = `/merchant/apps/${merchant.appId}`;
  const endpoint = await api.call<{ id: string }>('POST', `${apps}/webhooks`, {
    token: merchant.key,
    body: { url: 'https://a.test/' },
  });
  const registration = { appId: merchant.appId, planId: plan.id, subscriptionPda };
  const registered = await post(
    api,
    subscriber.token,
    'register',
    registration,
    '/subscriber/subscriptions',
  );
  t.equal(registered.status, 201);
  t.equal(
    (await post(api, subscriber.token, 'register', registration, '/subscriber/subscriptions')).text,
    registered.text,
    'instead of CONFLICT',
  );
  const { deliveryId } = await insertEvent(api.sql, registered.body.data.id);
  const cases: [string, unknown, string][] = [
    [`${apps}/plans`, { name: 'Plan', amount: '1', periodHours: 1 }, 'plans'],
    [
      `${apps}/webhooks/${endpoint.body.data.id}/deliveries/${deliveryId}/replay`,
      undefined,
      'all_deliveries',
    ],
    [`${apps}/subscriptions/${registered.body.data.id}/cancel`, { mode: 'force' }, 'events'],
  ];
  for (const [url, body, table] of cases) {
    const rows = async () => (await api.sql`select 1 from ${api.sql(table)}`).length;
    const before = await rows();
    const [first, second] = [
      await post(api, merchant.key, url, body, url),
      await post(api, merchant.key, url, body, url),
    ];
    t.ok(first.status === 201 || first.status === 200, url);
    t.equal(second.text, first.text);
    t.equal(await rows(), before + 1);
  }
  t.equal((await api.sql`select 1 from subscriptions`).length, 1);
});

void t.test(
  'a response with a secret is repeated unchanged, and is encrypted at rest',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const hooks = `/merchant/apps/${merchant.appId}/webhooks`;
    const url = { url: 'https://a.test/' };
    const created = await post(api, merchant.key, 'hook', url, hooks);
    const rotate = `${hooks}/${created.body.data.id}/rotate-secret`;
    const answers = [
      created,
      await post(api, merchant.token, 'key', undefined, '/merchant/api-keys'),
      await post(api, merchant.key, 'rotation', { overlapHours: 1 }, rotate),
    ];
    const again = [
      await post(api, merchant.key, 'hook', url, hooks),
      await post(api, merchant.token, 'key', undefined, '/merchant/api-keys'),
      await post(api, merchant.key, 'rotation', { overlapHours: 1 }, rotate),
    ];
    for (const [index, first] of answers.entries()) {
      t.match(first.text, /whsec_|sk_test_/);
      t.match(again[index], {
        status: first.status,
        text: first.text,
        headers: { 'idempotency-replayed': 'true' },
      });
    }
    t.equal((await api.sql`select 1 from api_keys`).length, 2);
    const stored = await api.sql<{ body: Buffer }[]>`select body from idempotency_keys`;
    t.equal(stored.length, 3);
    for (const { body } of stored) t.notMatch(body.toString('latin1'), /whsec_|sk_test_|success/);
  },
);

void t.test(
  'under one idempotency key, bodies that differ only in the order of fields count as the same',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.signIn('merchant');
    const send = (payload: string) =>
      api.call('POST', '/merchant/apps', {
        token,
        payload,
        headers: { 'idempotency-key': 'order' },
      });
    t.equal((await send('{"name":"A","websiteUrl":null}')).status, 201);
    t.equal((await send('{"websiteUrl":null,"name":"A"}')).status, 201);
    t.equal(await count(api), 1);
  },
);

void t.test(
  'a route without idempotency keys refuses a request with Idempotency-Key, without an effect',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const headers = { 'idempotency-key': 'k' };
    const app = `/merchant/apps/${merchant.appId}`;
    const refused = { status: 400, body: { error: { details: [{ path: 'idempotency-key' }] } } };
    const { token } = merchant;
    const body = { name: 'Other' };
    t.match(await api.call('PATCH', app, { token, body, headers }), refused);
    t.match(await post(api, token, 'k', { type: 'ping' }, `${app}/events/sample`), refused);
    t.match(
      await api.call('POST', '/auth/nonce', { body: { wallet: merchant.wallet }, headers }),
      refused,
    );
    t.equal(
      (await api.call('GET', app, { token, headers })).status,
      200,
      'a reading changes nothing',
    );
    t.equal((await api.call('HEAD', app, { token, headers })).status, 200);
    t.equal((await api.call('POST', '/nothing', { token, headers })).status, 404);
    t.equal((await api.call('POST', app, { headers })).status, 405);
  },
);

void t.test(
  'a repeated idempotent request gets the same response even after the created row was deleted',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const hooks = `/merchant/apps/${merchant.appId}/webhooks`;
    const endpoint = await api.call<{ id: string }>('POST', hooks, {
      token: merchant.key,
      body: { url: 'https://a.test/' },
    });
    const hook = `${hooks}/${endpoint.body.data.id}`;
    const subscription = await insertSubscription(api.sql, {
      appId: merchant.appId,
      planId: await insertPlan(api.sql, merchant),
    });
    const { deliveryId } = await insertEvent(api.sql, subscription);
    const replay = (key: string) =>
      post(api, merchant.key, key, undefined, `${hook}/deliveries/${deliveryId!}/replay`);
    const first = await replay('one');
    await api.call('DELETE', hook, { token: merchant.key });
    t.match(await replay('one'), { status: 201, text: first.text });
    t.equal((await replay('another')).status, 404);
  },
);

void t.test('an old idempotency key that a request is using again is not deleted', async (t) => {
  const { sql } = await testDatabase(t);
  const taken = { scope: 'a scope', key: 'old', fingerprint: Buffer.of(1) };
  await takeKey(sql, taken);
  await sql`update idempotency_keys set created_at = now() - interval '25 hours'`;
  const { sweep } = await sql.begin(async (tx) => {
    t.ok(await takeKey(tx, taken));
    const sweep = deleteOldKeys(sql);
    void sweep.catch(() => undefined);
    const waiting = () =>
      sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await until(async () => (await waiting()).length > 0);
    return { sweep };
  });
  t.equal(await sweep, 0);
  t.equal((await sql`select from idempotency_keys`).length, 1);
});
