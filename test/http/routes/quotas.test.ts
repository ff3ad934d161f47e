// What one merchant and one address can store.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { deleteEndedSessions } from '../../../src/db/subscriptions/checkout-sessions.ts';
import { chainApi, randomAddress, testApi } from '../../fixtures/http.ts';
import { insertPlan, insertSubscription } from '../../fixtures/rows.ts';
import { startServe } from '../../fixtures/serve.ts';
import { until } from '../../fixtures/webhooks.ts';

const conflict = (message: RegExp) => ({
  status: 409,
  body: { error: { code: 'CONFLICT', message } },
});

void t.test('a merchant has at most 100 apps, also by concurrent requests', async (t) => {
  const api = await testApi(t);
  const { token, merchantId } = await api.merchant();
  await api.sql`
    insert into apps (merchant_id, name) select ${merchantId}, 'App' from generate_series(1, 97)`;
  const create = () => api.call('POST', '/merchant/apps', { token, body: { name: 'Tea' } });
  const answers = await Promise.all(Array.from({ length: 5 }, create));
  t.same(answers.map(({ status }) => status).sort(), [201, 201, 409, 409, 409]);
  t.match(await create(), conflict(/at most 100 apps/));
  const other = await api.merchant();
  t.ok(other.appId, 'another merchant is not affected');
});

void t.test(
  'a merchant has at most 50 live API keys, and revoking one allows another',
  async (t) => {
    const api = await testApi(t);
    const { token, merchantId } = await api.merchant();
    await api.sql`
    insert into api_keys (merchant_id, prefix, hash)
    select ${merchantId}, 'sk_test_', sha256(n::text::bytea) from generate_series(1, 48) as n`;
    const create = () => api.call<{ id: string }>('POST', '/merchant/api-keys', { token });
    const last = await create();
    t.equal(last.status, 201);
    t.match(await create(), conflict(/at most 50 live API keys/));
    await api.call('DELETE', `/merchant/api-keys/${last.body.data.id}`, { token });
    t.equal((await create()).status, 201);
  },
);

void t.test(
  'a merchant has at most 10,000 open sessions in all its apps; ended ones do not count',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const { token, appId, merchantId } = merchant;
    const plan = await api.publishedPlan(merchant);
    const second = await api.call<{ id: string }>('POST', '/merchant/apps', {
      token,
      body: { name: 'Tea' },
    });
    const fill = (app: string, count: number) => api.sql`
      insert into checkout_sessions (app_id, plan_id)
      select ${app}, ${plan.id} from generate_series(1, ${count}::int)`;
    await fill(appId, 5000);
    await fill(second.body.data.id, 4999);
    const create = () =>
      api.call('POST', `/merchant/apps/${appId}/checkout-sessions`, {
        token,
        body: { planId: plan.id },
      });
    const answers = await Promise.all([create(), create(), create()]);
    t.same(answers.map(({ status }) => status).sort(), [201, 409, 409]);
    t.match(await create(), conflict(/at most 10000 open checkout sessions/));
    const ended = (change: string) =>
      api.sql.unsafe(`
        update checkout_sessions set ${change} where id = (
          select s.id from checkout_sessions s join apps a on a.id = s.app_id
          where a.merchant_id = '${merchantId}' and expires_at > now() and subscription_id is null
          limit 1)`);
    await ended(`expires_at = now()`);
    t.equal((await create()).status, 201, 'one expired');
    const subscription = await insertSubscription(api.sql, { appId, planId: plan.id });
    await ended(`subscription_id = '${subscription}', subscriber_wallet = 'w'`);
    t.equal((await create()).status, 201, 'one is complete');
    t.equal((await create()).status, 409);
  },
);

void t.test('sessions that ended 30 days ago are deleted, complete ones too', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const session = async (daysAgo: number, complete: boolean) => {
    const subscriptionId = complete
      ? await insertSubscription(api.sql, { appId: merchant.appId, planId: plan.id })
      : null;
    const row = {
      appId: merchant.appId,
      planId: plan.id,
      subscriptionId,
      subscriberWallet: complete ? 'w' : null,
      expiresAt: new Date(Date.now() - daysAgo * 86_400_000),
    };
    const [made] = await api.sql<{ id: string }[]>`
      insert into checkout_sessions ${api.sql(row)} returning id`;
    return made!.id;
  };
  const kept = [await session(-1, false), await session(29, false), await session(29, true)];
  await session(31, false);
  await session(31, true);
  t.equal(await deleteEndedSessions(api.deps.sql), 2, 'under the role of serve');
  const left = await api.sql<{ id: string }[]>`select id from checkout_sessions order by id`;
  t.same(
    left.map(({ id }) => id),
    kept,
  );
  t.equal((await api.sql`select 1 from subscriptions`).length, 2);
});

void t.test(
  'an address may send POST and PATCH requests of 200 times its per-minute limit in a day',
  async (t) => {
    const api = await testApi(t, { requestsPerMinute: { free: 100, pro: 1000 } });
    const merchant = await api.merchant();
    const pro = await api.merchant();
    await api.sql`update merchants set tier = 'pro' where id = ${pro.merchantId}`;
    const spent = await api.sql`
      update rate_budgets set spent = 19999 where subject = 'posts of address:127.0.0.1'
      returning 1`;
    t.equal(spent.length, 1, 'both merchants share one budget');
    const create = (token: string) =>
      api.call('POST', '/merchant/apps', { token, body: { name: 'Tea' } });
    t.equal((await create(merchant.key)).status, 201);
    const refused = await create(merchant.key);
    t.match(refused, {
      status: 429,
      body: {
        error: { code: 'RATE_LIMITED', message: /20000 POST and PATCH requests .* in a day/ },
      },
    });
    const wait = Number(refused.headers['retry-after']);
    t.ok(wait > 80_000 && wait <= 86_400, `Retry-After ${wait}`);
    t.match(
      await api.call('PATCH', `/merchant/apps/${merchant.appId}`, {
        token: merchant.key,
        body: { name: 'Coffee' },
      }),
      { status: 429 },
    );
    t.equal((await api.call('GET', '/merchant/apps', { token: merchant.key })).status, 200);
    t.equal((await create(pro.key)).status, 201);
    const signIn = await api.call('POST', '/auth/nonce', { body: { wallet: merchant.wallet } });
    t.equal(signIn.status, 429);
  },
);

void t.test('a running serve deletes sessions that ended 30 days ago', async (t) => {
  const served = await startServe(t);
  const { sql } = served;
  const { appId, wallet } = await served.merchant();
  const planId = await insertPlan(sql, { appId, wallet });
  await served.stop('SIGTERM');
  await sql`
    insert into checkout_sessions (app_id, plan_id, created_at, expires_at)
    select ${appId}, ${planId}, now() - (days + 1) * interval '1 day', now() - days * interval '1 day'
    from unnest(array[29, 31] || array_fill(400, array[1500])) as days`;
  await served.restart();
  await until(async () => (await sql`select from checkout_sessions limit 2`).length < 2);
  t.match(
    await sql`select expires_at > now() - interval '30 days' as is_kept from checkout_sessions`,
    [{ isKept: true }],
  );
});

void t.test(
  'the largest requests of one address store at most half a gigabyte a day',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    await api.call('PATCH', `/merchant/apps/${merchant.appId}`, {
      token: merchant.token,
      body: { returnOrigins: ['https://tea.example'] },
    });
    const bytes = async () => {
      const [row] = await api.sql<{ bytes: number }[]>`
      select sum(pg_total_relation_size(oid))::int as bytes from pg_class
      where relkind = 'r' and relnamespace = 'public'::regnamespace`;
      return row!.bytes;
    };
    const text = (length: number) => randomBytes(length).toString('hex').slice(0, length);
    const create = (key: string) =>
      api.call('POST', `/merchant/apps/${merchant.appId}/checkout-sessions`, {
        token: merchant.token,
        headers: { 'idempotency-key': key },
        body: {
          planId: plan.id,
          externalId: text(120),
          metadata: Object.fromEntries(Array.from({ length: 8 }, () => [text(12), text(490)])),
          subscriberWallet: randomAddress(),
          successUrl: `https://tea.example/${text(2028)}`,
          cancelUrl: `https://tea.example/${text(2028)}`,
        },
      });
    t.equal((await create('first')).status, 201);
    const before = await bytes();
    const count = 100;
    for (let n = 0; n < count; n += 1) {
      const { status } = await create(`key ${n}`);
      if (status !== 201) t.fail(`answered ${status}`);
    }
    const perRequest = ((await bytes()) - before) / count;
    t.comment(`${Math.round(perRequest)} bytes a request`);
    t.ok(perRequest > 10_000, 'a large request');
    // 20,000 requests, as the test before shows; 59 GB without that limit.
    t.ok(perRequest * 20_000 < 500_000_000, `${Math.round(perRequest)} bytes a request`);
  },
);
