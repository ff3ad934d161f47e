// What one merchant and one address can store.
import t from 'tap';
import { deleteEndedSessions } from '../../../src/db/checkout-sessions.ts';
import { chainApi, testApi } from '../../fixtures/http.ts';
import { insertSubscription } from '../../fixtures/rows.ts';

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

void t.test('a merchant has at most 50 live keys; a revoked one makes room', async (t) => {
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
});

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
  'an address sends at most 200 times its POST requests of a minute in a day; Pro and reads go on',
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
      body: { error: { code: 'RATE_LIMITED', message: /20000 POST requests .* in a day/ } },
    });
    const wait = Number(refused.headers['retry-after']);
    t.ok(wait > 80_000 && wait <= 86_400, `Retry-After ${wait}`);
    t.equal((await api.call('GET', '/merchant/apps', { token: merchant.key })).status, 200);
    t.equal((await create(pro.key)).status, 201);
    const signIn = await api.call('POST', '/auth/nonce', { body: { wallet: merchant.wallet } });
    t.equal(signIn.status, 429);
  },
);
