// docs/contract.md, Limits: counting of requests across all serve processes. Each limiter has its
// own pool, like a process.
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { connect, type Sql } from '../../../src/db/postgres/connect.ts';
import { createTokens } from '../../../src/domain/accounts/tokens.ts';
import { createLimiter, type Limiter } from '../../../src/http/door/limits.ts';
import { randomAddress, testApi } from '../../fixtures/http.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

async function limiters(t: Test, count: number): Promise<{ all: Limiter[]; sql: Sql }> {
  const { url, sql } = await testDatabase(t);
  const all = Array.from({ length: count }, () => {
    const pool = connect(url, { max: 4, name: 'limiter' });
    t.teardown(() => pool.end({ timeout: 1 }));
    return createLimiter(pool);
  });
  return { all, sql };
}

/**
 * Windows of more than an hour: they do not end while the test runs, however slow the machine is.
 */
async function stretchWindows(sql: Sql): Promise<void> {
  await sql.unsafe(`
    create function stretch() returns trigger language plpgsql as
      $$ begin new.ends_at = new.ends_at + interval '1 hour'; return new; end $$;
    create trigger stretch before insert on rate_budgets for each row execute function stretch()`);
}

void t.test(
  'four processes together allow exactly the limit, however requests are distributed',
  async (t) => {
    const { all, sql } = await limiters(t, 4);
    await stretchWindows(sql);
    const shapes: Record<string, (n: number) => number> = {
      'in turn': (n) => n % 4,
      'one only': () => 2,
      'one, then another': (n) => (n < 60 ? 0 : 3),
      'one request to three of them, the rest to the fourth': (n) => Math.min(n, 3),
      'at random': () => Math.floor(Math.random() * 4),
    };
    const cases = Object.entries(shapes).flatMap(([shape, pick]) =>
      [100, 1000].map((limit) => ({ shape, pick, limit })),
    );
    await Promise.all(
      cases.map(async ({ shape, pick, limit }) => {
        let allowed = 0;
        for (let n = 0; n < limit * 1.2; n += 1) {
          if ((await all[pick(n)]!.spend(`${shape} ${limit}`, limit)).allowed) allowed += 1;
          else if (n < limit) t.fail(`${shape}: request ${n + 1} of ${limit} was refused`);
        }
        t.equal(allowed, limit, `${shape}, ${limit}`);
      }),
    );
  },
);

void t.test('four processes together allow exactly the limit of concurrent requests', async (t) => {
  const { all, sql } = await limiters(t, 4);
  await stretchWindows(sql);
  for (const limit of [100, 1000]) {
    const spent = await Promise.all(
      Array.from({ length: limit * 3 }, (_, n) => all[n % 4]!.spend(`storm ${limit}`, limit)),
    );
    t.equal(spent.filter(({ allowed }) => allowed).length, limit);
  }
});

void t.test(
  'concurrent requests are counted in one SQL statement, and refused requests cause none',
  async (t) => {
    const { sql } = await testDatabase(t);
    let asked = 0;
    const counting = new Proxy(sql, {
      apply(target, self, given: [TemplateStringsArray, ...unknown[]]) {
        // Not the rows that are part of the statement.
        if (given[0].join('').includes('rate_budgets')) asked += 1;
        return Reflect.apply(target, self, given) as unknown;
      },
    });
    const limiter = createLimiter(counting);
    const subjects = Array.from({ length: 300 }, (_, n) => `subject ${n % 3}`);
    const standings = await Promise.all(subjects.map((subject) => limiter.spend(subject, 60)));
    t.equal(asked, 1);
    for (const subject of new Set(subjects)) {
      const own = standings.filter((_, n) => subjects[n] === subject);
      t.same(
        own.map(({ remaining }) => remaining),
        own.map((_, n) => Math.max(0, 59 - n)),
      );
      t.equal(own.filter(({ allowed }) => allowed).length, 60);
      t.equal((await limiter.spend(subject, 60)).allowed, false);
    }
    t.equal(asked, 1);
  },
);

void t.test('a request fails if Postgres cannot count it', async (t) => {
  const { all } = await limiters(t, 1);
  const pool = connect('postgres://postgres@127.0.0.1:1/none', { max: 1, name: 'limiter' });
  t.teardown(() => pool.end({ timeout: 0 }));
  await t.rejects(createLimiter(pool).spend('anyone', 5));
  t.equal((await all[0]!.spend('anyone', 5)).allowed, true);
});

void t.test('a client that got 429 is served after Retry-After', async (t) => {
  const { all, sql } = await limiters(t, 2);
  const [one, two] = all;
  while ((await one!.spend('patient', 5)).allowed);
  t.equal((await two!.spend('patient', 5)).allowed, false);
  const refused = await one!.spend('patient', 5);
  t.match(refused, { allowed: false, limit: 5, remaining: 0 });
  const [left] = await sql<{ seconds: number }[]>`
    select extract(epoch from ends_at - clock_timestamp())::float8 as seconds from rate_budgets where subject = 'patient'`;
  t.ok(
    refused.resetSeconds >= left!.seconds && refused.resetSeconds <= 60,
    `asked to wait ${refused.resetSeconds} s`,
  );
  // The window as it is three seconds before its end; new limiters, since the old ones know better.
  const fresh = createLimiter(sql);
  await sql`update rate_budgets set ends_at = clock_timestamp() + interval '2900 ms' where subject = 'patient'`;
  const soon = await fresh.spend('patient', 5);
  t.equal(soon.allowed, false);
  t.ok(soon.resetSeconds >= 1 && soon.resetSeconds <= 3, `asked to wait ${soon.resetSeconds} s`);
  await new Promise((resolve) => setTimeout(resolve, soon.resetSeconds * 1000));
  t.match(await fresh.spend('patient', 5), { allowed: true, remaining: 4 });
});

void t.test('a change of tier up or down changes the limit from the next request on', async (t) => {
  const { all } = await limiters(t, 2);
  const [one, two] = all;
  for (let n = 0; n < 110; n += 1) await one!.spend('grows', 100);
  t.equal((await one!.spend('grows', 1000)).allowed, true, 'more is allowed at once');
  t.equal((await two!.spend('grows', 1000)).allowed, true);
  for (let n = 0; n < 200; n += 1) await one!.spend('shrinks', 1000);
  t.equal((await one!.spend('shrinks', 100)).allowed, false, 'what was let through counts');
});

void t.test(
  'the 101st request of a Free merchant gets 429 with Retry-After, counted over all its keys and tokens',
  async (t) => {
    const api = await testApi(t, { requestsPerMinute: { free: 100, pro: 1000 } });
    const merchant = await api.merchant();
    // merchant() made three requests of its own.
    for (let n = 0; n < 97; n += 1) {
      const { status, headers } = await api.call('GET', '/merchant/profile', {
        token: n % 2 === 0 ? merchant.key : merchant.token,
      });
      t.equal(status, 200);
      t.match(headers, { 'ratelimit-limit': '100', 'ratelimit-remaining': String(96 - n) });
    }
    for (const url of [
      '/merchant/profile',
      `/merchant/apps/${merchant.appId}/subscriptions`,
      '/merchant/api-keys',
    ]) {
      const refused = await api.call('GET', url, { token: merchant.token });
      t.match(refused, {
        status: 429,
        body: { success: false, data: null, error: { code: 'RATE_LIMITED' } },
      });
      t.match(refused.headers['retry-after'], /^\d+$/);
      t.ok(
        Number(refused.headers['retry-after']) >= 1 && Number(refused.headers['retry-after']) <= 60,
      );
      t.match(refused.headers, {
        'ratelimit-limit': '100',
        'ratelimit-remaining': '0',
        'ratelimit-reset': String(refused.headers['retry-after']),
      });
    }
    t.equal(
      (await api.call('GET', '/merchant/profile', { token: `${merchant.key}x` })).status,
      401,
      'an unknown caller gets 401',
    );
    const other = await api.signIn('merchant');
    t.equal(
      (await api.call('GET', '/merchant/profile', { token: other.token })).status,
      200,
      'others are not concerned',
    );
    await api.sql`update merchants set tier = 'pro' where id = ${merchant.merchantId}`;
    const grown = await api.call('GET', `/merchant/apps/${merchant.appId}/subscriptions`, {
      token: merchant.key,
    });
    t.match(
      grown,
      { status: 200, headers: { 'ratelimit-limit': '1000' } },
      'a new tier takes effect at once',
    );
  },
);

void t.test('after a downgrade the lower limit applies to the very next request', async (t) => {
  const api = await testApi(t, { requestsPerMinute: { free: 20, pro: 1000 } });
  const merchant = await api.merchant();
  const url = `/merchant/apps/${merchant.appId}/subscriptions`;
  await api.sql`update merchants set tier = 'pro' where id = ${merchant.merchantId}`;
  for (let n = 0; n < 30; n += 1)
    t.equal((await api.call('GET', url, { token: merchant.key })).status, 200);
  await api.sql`update merchants set tier = 'free' where id = ${merchant.merchantId}`;
  t.equal((await api.call('GET', url, { token: merchant.key })).status, 429);
});

void t.test(
  'subscribers are counted per wallet with the Free limit, sign-in per address',
  async (t) => {
    const api = await testApi(t, {
      requestsPerMinute: { free: 10, pro: 1000 },
      trustProxy: ['127.0.0.1'],
    });
    const subscriber = await api.signIn('subscriber');
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1)
      statuses.push(
        (await api.call('GET', '/subscriber/subscriptions', { token: subscriber.token })).status,
      );
    t.same(statuses, [...Array<number>(10).fill(200), 429, 429]);

    const from = (address: string) =>
      api.call('POST', '/auth/nonce', {
        body: { wallet: subscriber.wallet },
        headers: { 'x-forwarded-for': address },
      });
    const nonces: number[] = [];
    for (let n = 0; n < 62; n += 1) nonces.push((await from('203.0.113.7')).status);
    t.same(nonces, [...Array<number>(60).fill(200), 429, 429]);
    t.equal((await from('203.0.113.8')).status, 200, 'another address');
    for (let n = 0; n < 60; n += 1) await from(`2001:db8:1:2::${n}`);
    t.equal(
      (await from('2001:db8:1:ff:ffff::1')).status,
      429,
      'an IPv6 network of /56 is one address',
    );
    t.equal((await from('2001:db8:1:100::1')).status, 200);
  },
);

void t.test(
  'requests with bad credentials count only in a separate budget of their address',
  async (t) => {
    const api = await testApi(t, { requestsPerMinute: { free: 10, pro: 1000 } });
    const merchant = await api.merchant();
    const profile = (token?: string) => api.call('GET', '/merchant/profile', { token });
    t.equal((await profile(merchant.key)).status, 200);
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1)
      statuses.push((await profile(n % 2 === 0 ? `${merchant.key}x` : undefined)).status);
    t.same(statuses, [...Array<number>(10).fill(401), 429, 429]);
    t.match((await profile('nonsense')).headers, {
      'retry-after': /^\d+$/,
      'ratelimit-limit': '10',
      'ratelimit-remaining': '0',
    });
    t.equal((await profile(merchant.key)).status, 200, 'a valid key of the address');
    t.equal((await profile(merchant.token)).status, 200, 'a valid token of the address');
    const nonce = await api.call('POST', '/auth/nonce', { body: { wallet: merchant.wallet } });
    t.equal(nonce.status, 200, 'signing in');
    t.equal((await api.call('GET', '/plans/x')).status, 404, 'public data');
  },
);

void t.test(
  'once an address has used up its budget for failures, only recently accepted credentials work',
  async (t) => {
    const lookUps: string[][] = [];
    const database = await testDatabase(t);
    const pool = connect(database.url, { max: 4, name: 'serve' });
    t.teardown(() => pool.end({ timeout: 1 }));
    const sql = new Proxy(pool, {
      apply(target, self, given: [TemplateStringsArray, ...unknown[]]) {
        if (given[0].join('').includes('from unnest') && given[0].join('').includes('api_keys'))
          lookUps.push(given[1] as string[]);
        return Reflect.apply(target, self, given) as unknown;
      },
    });
    const api = await testApi(t, {
      database,
      sql,
      requestsPerMinute: { free: 10, pro: 1000 },
      trustProxy: ['127.0.0.1'],
    });
    const [one, other] = [await api.merchant(), await api.merchant()];
    const ask = async (token: string, address = '203.0.113.7') =>
      (
        await api.call('GET', '/merchant/profile', {
          token,
          headers: { 'x-forwarded-for': address },
        })
      ).status;
    const guess = () => `${one.key.slice(0, -6)}${Math.random().toString(36).slice(2, 8)}`;
    t.equal(await ask(one.key), 200);
    for (let n = 0; n < 10; n += 1) t.equal(await ask(guess()), 401);
    const before = lookUps.length;
    t.equal(before, 11);
    for (let n = 0; n < 30; n += 1) t.equal(await ask(guess()), 429);
    t.equal(await ask(other.key), 429, 'a key that this process has not accepted yet');
    t.equal(lookUps.length, before, 'none of them was looked up');
    t.equal(await ask(other.key, '203.0.113.8'), 200, 'from another address');
    t.equal(await ask(other.key), 200, 'after which it is known here');
    t.equal(await ask(one.key), 200);
    await api.sql`update api_keys set revoked_at = now() where merchant_id = ${one.merchantId}`;
    t.equal(await ask(one.key), 429, 'a revoked key is not accepted');
    const after = lookUps.length;
    t.equal(await ask(one.key), 429);
    t.equal(lookUps.length, after, 'and no more looked up');
  },
);

void t.test('public data has a separate rate limit, six times that of a caller', async (t) => {
  const api = await testApi(t, { requestsPerMinute: { free: 10, pro: 1000 } });
  const statuses: number[] = [];
  for (let n = 0; n < 61; n += 1) statuses.push((await api.call('GET', '/plans/x')).status);
  t.same(statuses, [...Array<number>(60).fill(404), 429]);
  const { wallet } = await api.signIn('subscriber');
  t.ok(wallet, 'signing in is not concerned');
});

void t.test(
  'callers of one address share an upper limit, except merchants of the Pro tier',
  async (t) => {
    const api = await testApi(t, {
      requestsPerMinute: { free: 3, pro: 1000 },
      trustProxy: ['127.0.0.1'],
    });
    const tokens = createTokens(api.deps.jwtSecrets, api.deps.publicUrl);
    const ask = async (token: string, address: string) =>
      (
        await api.call('GET', '/subscriber/subscriptions', {
          token,
          headers: { 'x-forwarded-for': address },
        })
      ).status;
    const statuses: number[] = [];
    for (let n = 0; n < 61; n += 1) {
      const { token } = await tokens.issue({
        wallet: randomAddress(),
        role: 'subscriber',
        page: null,
      });
      statuses.push(await ask(token, '203.0.113.7'));
    }
    t.same(statuses, [...Array<number>(60).fill(200), 429]);
    const { token } = await tokens.issue({
      wallet: randomAddress(),
      role: 'subscriber',
      page: null,
    });
    t.equal(await ask(token, '203.0.113.7'), 429);
    t.equal(await ask(token, '203.0.113.8'), 200);
    const wallet = randomAddress();
    await api.sql`insert into merchants (wallet, tier) values (${wallet}, 'pro')`;
    const merchant = await tokens.issue({ wallet, role: 'merchant', page: null });
    const profile = await api.call('GET', '/merchant/profile', {
      token: merchant.token,
      headers: { 'x-forwarded-for': '203.0.113.7' },
    });
    t.equal(profile.status, 200);
  },
);

void t.test(
  'checkout offers, sign-ins and refused sign-ins each have their own budget',
  async (t) => {
    const api = await testApi(t, {
      requestsPerMinute: { free: 4, pro: 1000 },
      trustProxy: ['127.0.0.1'],
    });
    const wallet = randomAddress();
    const call = async (method: 'GET' | 'POST', url: string, from: string, more: object = {}) =>
      api.call(method, url, { headers: { 'x-forwarded-for': from }, ...more });
    const offer = (from = '203.0.113.7') =>
      call('POST', '/checkout/plans/x/offers', from, { body: { wallet } });
    const nonce = (from = '203.0.113.7') => call('POST', '/auth/nonce', from, { body: { wallet } });
    const verify = (from: string) =>
      call('POST', '/auth/verify', from, {
        body: { wallet, nonce: 'x', signature: '1'.repeat(64) },
      });
    const offers = [];
    for (let n = 0; n < 25; n += 1) offers.push((await offer()).status);
    t.same(offers, [...Array<number>(24).fill(404), 429]);
    t.match((await offer()).headers, { 'retry-after': /^\d+$/, 'ratelimit-limit': '24' });
    t.equal((await nonce()).status, 200, 'signing in is not concerned');

    const address = '198.51.100.1';
    const refused = [];
    for (let n = 0; n < 5; n += 1) refused.push((await verify(address)).status);
    t.same(refused, [...Array<number>(4).fill(401), 429]);
    t.match((await nonce(address)).headers, { 'retry-after': /^\d+$/, 'ratelimit-remaining': '0' });
    t.equal((await offer(address)).status, 404, 'offers are not concerned');
  },
);

void t.test('a client address with a port counts as the address without the port', async (t) => {
  const api = await testApi(t, {
    requestsPerMinute: { free: 1, pro: 1000 },
    trustProxy: ['127.0.0.1', '10.0.0.0/8', 'fd00::/8'],
  });
  const from = async (forwarded: string) =>
    (
      await api.call('POST', '/auth/nonce', {
        body: { wallet: api.deps.network.treasury },
        headers: { 'x-forwarded-for': forwarded },
      })
    ).status;
  for (let n = 0; n < 4; n += 1) await Promise.all([from('203.0.113.7'), from('2001:db8::1')]);
  t.same(
    [
      await from('203.0.113.7:4711'),
      await from('203.0.113.7, 10.1.2.3:80, [fd00::1]:443'),
      await from('203.0.113.7:4712'),
    ],
    [200, 200, 429],
  );
  t.same(
    [await from('[2001:db8::1]:443'), await from('2001:db8::2'), await from('2001:db8::3')],
    [200, 200, 429],
  );
});

void t.test('X-Forwarded-For is only used from configured proxies', async (t) => {
  const api = await testApi(t, { requestsPerMinute: { free: 1, pro: 1000 } });
  const statuses: number[] = [];
  for (let n = 0; n < 8; n += 1) {
    const headers = { 'x-forwarded-for': `203.0.113.${n}` };
    statuses.push(
      (
        await api.call('POST', '/auth/nonce', {
          body: { wallet: api.deps.network.treasury },
          headers,
        })
      ).status,
    );
  }
  t.same(statuses, [...Array<number>(6).fill(200), 429, 429]);
});

void t.test('X-Forwarded-For from an untrusted peer is logged once', async (t) => {
  const lines: Record<string, unknown>[] = [];
  const log = pino(
    {},
    { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
  );
  const warnings = () => lines.filter(({ level }) => level === 40);
  const headers = { 'x-forwarded-for': '203.0.113.7' };
  const trusting = await testApi(t, { log, trustProxy: ['127.0.0.1'] });
  await trusting.call('GET', '/healthz', { headers });
  t.same(warnings(), []);
  const api = await testApi(t, { log });
  for (let n = 0; n < 3; n += 1) await api.call('GET', '/healthz', { headers });
  t.match(warnings(), [{ peer: '127.0.0.1', msg: /TRUST_PROXY/ }]);
  t.equal(warnings().length, 1);
});

void t.test(
  'every answer has RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    for (const [url, token] of [
      ['/healthz'],
      ['/nowhere'],
      ['/%zz'],
      ['/merchant/profile'],
      ['/merchant/profile', merchant.key],
      ['/openapi.json'],
      ['/docs/swagger-ui.css'],
    ]) {
      const { headers } = await api.call('GET', url!, { token });
      for (const name of ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'])
        t.match(headers[name], /^\d+$/, `${url} ${name}`);
    }
  },
);
