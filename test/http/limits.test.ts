// service.md, Limits, and decisions.md: how requests are counted over all serve processes. Each limiter here has its own pool, as a process has.
import t, { type Test } from 'tap';
import { connect, type Sql } from '../../src/db/connect.ts';
import { createLimiter, type Limiter } from '../../src/http/limits.ts';
import { testApi } from '../fixtures/http.ts';
import { testDatabase } from '../fixtures/postgres.ts';

const fail = (error: unknown) => {
  throw error;
};

async function limiters(t: Test, count: number): Promise<{ all: Limiter[]; sql: Sql }> {
  const { url, sql } = await testDatabase(t);
  const all: Limiter[] = [];
  for (let n = 0; n < count; n += 1) {
    const pool = connect(url, { max: 4, name: 'limiter' });
    const limiter = createLimiter(pool, fail);
    await limiter.start();
    t.teardown(async () => {
      await limiter.stop();
      await pool.end({ timeout: 1 });
    });
    all.push(limiter);
  }
  return { all, sql };
}

void t.test('four processes together let through exactly the limit, however the requests fall on them', async (t) => {
  const { all } = await limiters(t, 4);
  const shapes: Record<string, (n: number) => number> = {
    'in turn': (n) => n % 4,
    'one only': () => 2,
    'one, then another': (n) => (n < 60 ? 0 : 3),
    'one request to three of them, the rest to the fourth': (n) => Math.min(n, 3),
    'at random': () => Math.floor(Math.random() * 4),
  };
  for (const [shape, pick] of Object.entries(shapes)) {
    for (const limit of [100, 1000]) {
      let allowed = 0;
      for (let n = 0; n < limit * 1.2; n += 1) {
        if ((await all[pick(n)]!.spend(`${shape} ${limit}`, limit)).allowed) allowed += 1;
        else if (n < limit) t.fail(`${shape}: request ${n + 1} of ${limit} was refused`);
      }
      t.equal(allowed, limit, `${shape}, ${limit}`);
    }
  }
});

void t.test('also when all of them come at once', async (t) => {
  const { all } = await limiters(t, 4);
  for (const limit of [100, 1000]) {
    const spent = await Promise.all(Array.from({ length: limit * 3 }, (_, n) => all[n % 4]!.spend(`storm ${limit}`, limit)));
    t.equal(spent.filter(({ allowed }) => allowed).length, limit);
  }
});

void t.test('a client far from its limit costs a round trip to Postgres in few of its requests', async (t) => {
  const { sql } = await testDatabase(t);
  let asked = 0;
  const counting = new Proxy(sql, {
    apply(target, self, given: [TemplateStringsArray, ...unknown[]]) {
      asked += 1;
      return Reflect.apply(target, self, given) as unknown;
    },
  });
  const limiter = createLimiter(counting, fail);
  for (let n = 0; n < 500; n += 1) t.ok((await limiter.spend('calm', 1000)).allowed);
  t.ok(asked <= 10, `${asked} statements for 500 requests`);
});

void t.test('a refused client that waits as long as it is told gets through', async (t) => {
  const { all, sql } = await limiters(t, 2);
  const [one, two] = all;
  const began = performance.now();
  while ((await one!.spend('patient', 5)).allowed);
  t.equal((await two!.spend('patient', 5)).allowed, false);
  const refused = await one!.spend('patient', 5);
  t.match(refused, { allowed: false, limit: 5, remaining: 0 });
  const passed = (performance.now() - began) / 1000;
  t.ok(refused.resetSeconds >= 59 - passed && refused.resetSeconds <= 60, `told to wait ${refused.resetSeconds} s`);
  // The window as it is three seconds before its end; new limiters, since the old ones know better.
  const { all: fresh } = await onDatabase(t, sql);
  await sql`update rate_budgets set window_ends_at = clock_timestamp() + interval '2900 ms' where subject = 'patient'`;
  const soon = await fresh.spend('patient', 5);
  t.equal(soon.allowed, false);
  t.ok(soon.resetSeconds >= 1 && soon.resetSeconds <= 3, `told to wait ${soon.resetSeconds} s`);
  await new Promise((resolve) => setTimeout(resolve, soon.resetSeconds * 1000));
  t.match(await fresh.spend('patient', 5), { allowed: true, remaining: 4 });
});

async function onDatabase(t: Test, sql: Sql): Promise<{ all: Limiter }> {
  const limiter = createLimiter(sql, fail);
  await limiter.start();
  t.teardown(() => limiter.stop());
  return { all: limiter };
}

void t.test('a change of tier counts from the next request on, both ways', async (t) => {
  const { all } = await limiters(t, 2);
  const [one, two] = all;
  for (let n = 0; n < 110; n += 1) await one!.spend('grows', 100);
  t.equal((await one!.spend('grows', 1000)).allowed, true, 'more is allowed at once');
  t.equal((await two!.spend('grows', 1000)).allowed, true);
  for (let n = 0; n < 200; n += 1) await one!.spend('shrinks', 1000);
  t.equal((await one!.spend('shrinks', 100)).allowed, false, 'what was let through counts');
});

void t.test('over HTTP: the 101st request of a Free merchant is 429 with Retry-After, on all its keys and tokens together', async (t) => {
  const api = await testApi(t, { requestsPerMinute: { free: 100, pro: 1000 } });
  const merchant = await api.merchant();
  // merchant() made three requests of its own.
  for (let n = 0; n < 97; n += 1) {
    const { status, headers } = await api.call('GET', '/merchant/profile', { token: n % 2 === 0 ? merchant.key : merchant.token });
    t.equal(status, 200);
    t.match(headers, { 'ratelimit-limit': '100', 'ratelimit-remaining': String(96 - n) });
  }
  for (const url of ['/merchant/profile', `/merchant/apps/${merchant.appId}/subscriptions`, '/merchant/api-keys']) {
    const refused = await api.call('GET', url, { token: merchant.token });
    t.match(refused, { status: 429, body: { success: false, data: null, error: { code: 'RATE_LIMITED' } } });
    t.match(refused.headers['retry-after'], /^\d+$/);
    t.ok(Number(refused.headers['retry-after']) >= 1 && Number(refused.headers['retry-after']) <= 60);
    t.match(refused.headers, {
      'ratelimit-limit': '100',
      'ratelimit-remaining': '0',
      'ratelimit-reset': String(refused.headers['retry-after']),
    });
  }
  t.equal((await api.call('GET', '/merchant/profile', { token: `${merchant.key}x` })).status, 401, 'who is unknown is told that');
  const other = await api.signIn('merchant');
  t.equal((await api.call('GET', '/merchant/profile', { token: other.token })).status, 200, 'others are not concerned');
  await api.sql`update merchants set tier = 'pro' where id = ${merchant.merchantId}`;
  const grown = await api.call('GET', `/merchant/apps/${merchant.appId}/subscriptions`, { token: merchant.key });
  t.match(grown, { status: 200, headers: { 'ratelimit-limit': '1000' } }, 'a new tier takes effect at once');
});

void t.test('a lowered tier counts with the very next request', async (t) => {
  const api = await testApi(t, { requestsPerMinute: { free: 20, pro: 1000 } });
  const merchant = await api.merchant();
  const url = `/merchant/apps/${merchant.appId}/subscriptions`;
  await api.sql`update merchants set tier = 'pro' where id = ${merchant.merchantId}`;
  for (let n = 0; n < 30; n += 1) t.equal((await api.call('GET', url, { token: merchant.key })).status, 200);
  await api.sql`update merchants set tier = 'free' where id = ${merchant.merchantId}`;
  t.equal((await api.call('GET', url, { token: merchant.key })).status, 429);
});

void t.test('subscribers are counted per wallet with the Free limit, sign-in per address', async (t) => {
  const api = await testApi(t, { requestsPerMinute: { free: 10, pro: 1000 }, trustProxy: ['127.0.0.1'] });
  const subscriber = await api.signIn('subscriber');
  const statuses: number[] = [];
  for (let n = 0; n < 12; n += 1) statuses.push((await api.call('GET', '/subscriber/subscriptions', { token: subscriber.token })).status);
  t.same(statuses, [...Array<number>(10).fill(200), 429, 429]);

  const from = (address: string) =>
    api.call('POST', '/auth/nonce', { body: { wallet: subscriber.wallet }, headers: { 'x-forwarded-for': address } });
  const nonces: number[] = [];
  for (let n = 0; n < 12; n += 1) nonces.push((await from('203.0.113.7')).status);
  t.same(nonces, [...Array<number>(10).fill(200), 429, 429]);
  t.equal((await from('203.0.113.8')).status, 200, 'another address');
  for (let n = 0; n < 10; n += 1) await from(`2001:db8:1:2::${n}`);
  t.equal((await from('2001:db8:1:2:ffff::1')).status, 429, 'an IPv6 network of /64 is one address');
  t.equal((await from('2001:db8:1:3::1')).status, 200);
});

void t.test('X-Forwarded-For is believed of configured proxies only', async (t) => {
  const api = await testApi(t, { requestsPerMinute: { free: 3, pro: 1000 } });
  const statuses: number[] = [];
  for (let n = 0; n < 5; n += 1) {
    const headers = { 'x-forwarded-for': `203.0.113.${n}` };
    statuses.push((await api.call('POST', '/auth/nonce', { body: { wallet: api.deps.network.treasury }, headers })).status);
  }
  t.same(statuses, [200, 200, 200, 429, 429]);
});

void t.test('every answer carries RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  for (const [url, token] of [
    ['/healthz'],
    ['/nowhere'],
    ['/%zz'],
    ['/merchant/profile'],
    ['/merchant/profile', merchant.key],
    ['/openapi.json'],
    ['/docs/static/index.css'],
  ]) {
    const { headers } = await api.call('GET', url!, { token });
    for (const name of ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset']) t.match(headers[name], /^\d+$/, `${url} ${name}`);
  }
});
