// billing/client against a listening API.
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import {
  BillingError,
  createClient,
  type Client,
  type ClientOptions,
} from '../../src/client/client.ts';
import type { ApiDeps } from '../../src/http/door/context.ts';
import { testApi, type TestApi } from '../fixtures/http.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { insertPayment, insertPlan, insertSubscription } from '../fixtures/rows.ts';

async function serving(t: Test, overrides: Partial<ApiDeps> = {}) {
  const api: TestApi = await testApi(t, overrides);
  await api.app.listen({ port: 0 });
  const baseUrl = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
  const merchant = await api.merchant();
  const client = (options: Partial<ClientOptions> = {}): Client =>
    createClient({ baseUrl: `${baseUrl}/`, token: merchant.key, ...options });
  return { api, baseUrl, merchant, client };
}

const refusalOf = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );

void t.test(
  'calls return the data of the response and send bodies, paths and queries unchanged',
  async (t) => {
    const { client, merchant } = await serving(t);
    const billing = client();
    const app = await billing.post('/merchant/apps', { body: { name: 'Tea & Co' } });
    t.equal(
      (await billing.get('/merchant/apps/{appId}', { path: { appId: app.id } })).name,
      'Tea & Co',
    );
    t.equal(
      (
        await billing.patch('/merchant/apps/{appId}', {
          path: { appId: app.id },
          body: { name: 'Tea' },
        })
      ).name,
      'Tea',
    );
    t.equal((await billing.get('/merchant/profile')).wallet, merchant.wallet);
    const hook = await billing.post('/merchant/apps/{appId}/webhooks', {
      path: { appId: app.id },
      body: { url: 'https://a.test/' },
    });
    t.match(hook.secret, /^whsec_/);
    const params = { appId: app.id, webhookId: hook.id };
    t.equal(
      (await billing.delete('/merchant/apps/{appId}/webhooks/{webhookId}', { path: params })).id,
      hook.id,
    );
    t.same(await billing.get('/merchant/apps/{appId}/webhooks', { path: { appId: app.id } }), []);
    let remaining: string | null = null;
    const onHeaders = (headers: Headers) => (remaining = headers.get('ratelimit-remaining'));
    await billing.get('/merchant/profile', { onHeaders });
    t.match(remaining, /^\d+$/, 'the headers of the response');
    const wallet = client({ token: async () => merchant.token });
    t.match(
      (await wallet.post('/merchant/api-keys')).key,
      /^sk_test_/,
      'a token may come from a function; a POST needs no body',
    );
  },
);

void t.test('lists are followed to their end, row by row or page by page', async (t) => {
  const { api, client, merchant } = await serving(t);
  const planId = await insertPlan(api.sql, merchant);
  const ids: string[] = [];
  for (let n = 0; n < 7; n += 1)
    ids.unshift(
      await insertSubscription(
        api.sql,
        { appId: merchant.appId, planId },
        { createdAt: new Date(2026, 0, n + 1) },
      ),
    );
  const path = { appId: merchant.appId };
  const seen: string[] = [];
  for await (const { id } of client().list('/merchant/apps/{appId}/subscriptions', {
    path,
    query: { limit: 3 },
  }))
    seen.push(id);
  t.same(seen, ids);
  const sizes: number[] = [];
  for await (const page of client().pages('/merchant/apps/{appId}/subscriptions', {
    path,
    query: { limit: 3 },
  }))
    sizes.push(page.length);
  t.same(sizes, [3, 3, 1]);
  for await (const { id } of client().list('/merchant/apps/{appId}/subscriptions', {
    path,
    query: { status: ['cancelled', 'expired'], since: '2026-01-01T00:00:00Z' },
  }))
    t.fail(id);
});

void t.test(
  'a refused request throws BillingError with code, status, faults and request id',
  async (t) => {
    const { client } = await serving(t);
    const invalid = await refusalOf(
      client().post('/merchant/apps', { body: { name: '' }, requestId: 'mine-1' }),
    );
    t.ok(invalid instanceof BillingError);
    t.match(invalid, {
      code: 'VALIDATION_ERROR',
      status: 400,
      details: [{ path: 'name' }],
      requestId: 'mine-1',
      message: /name must be/,
    });
    t.match(await refusalOf(client({ token: 'sk_test_nothing' }).get('/merchant/profile')), {
      code: 'UNAUTHORIZED',
      status: 401,
    });
    t.match(await refusalOf(client({ token: undefined }).get('/merchant/profile')), {
      code: 'UNAUTHORIZED',
    });
    t.match(await refusalOf(client().get('/merchant/api-keys')), {
      code: 'FORBIDDEN',
      status: 403,
    });
    t.match(
      await refusalOf(client().get('/merchant/apps/{appId}', { path: { appId: '../profile' } })),
      { code: 'NOT_FOUND' },
      'a path cannot be left',
    );
    await t.rejects(client().get('/merchant/apps/{appId}', { path: { appId: '' } }), TypeError);
    for (const wrong of ['billing', 'https://u:hunter2@x', 'https://x/?a=1', 'https://x/#a'])
      t.throws(() => createClient({ baseUrl: wrong }), {
        message: /^baseUrl must be a URL such as [^]*without user name, password/,
      });
  },
);

void t.test('connection errors name the request and the cause', async (t) => {
  const { client, merchant } = await serving(t);
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  taken.close();
  await once(taken, 'close');
  const nowhere = client({ baseUrl: `http://127.0.0.1:${port}` });
  t.match(await refusalOf(nowhere.get('/merchant/profile')), {
    name: 'BillingConnectionError',
    method: 'GET',
    url: `http://127.0.0.1:${port}/merchant/profile`,
    message: `GET http://127.0.0.1:${port}/merchant/profile got no answer of the service: connect ECONNREFUSED 127.0.0.1:${port}`,
    reason: `connect ECONNREFUSED 127.0.0.1:${port}`,
    status: undefined,
  });
  const path = { appId: merchant.appId };
  const refused = await refusalOf(
    client().post('/merchant/apps/{appId}/plans', { path, body: { name: 'x' } }),
  );
  t.match(refused, { name: 'BillingError', method: 'POST', reason: /^amount is required/ });
  t.match(
    (refused as Error).message,
    new RegExp(
      `^amount is required.* \\(POST http://\\S+/merchant/apps/${path.appId}/plans answered 400\\)$`,
    ),
  );
  const page = await startReceiver(t, (response) => response.end('<h1>Welcome</h1>'));
  t.match(await refusalOf(client({ baseUrl: page.url }).get('/merchant/profile')), {
    name: 'BillingConnectionError',
    message: /^GET \S+\/merchant\/profile got no answer of the service: Unexpected token/,
    status: 200,
  });
  page.answer = (response) => response.writeHead(502).end('bad gateway');
  t.match(await refusalOf(client({ baseUrl: page.url }).get('/merchant/profile')), {
    code: undefined,
    message: /is it the billing API\? \(GET \S+\/merchant\/profile answered 502\)$/,
  });
});

void t.test(
  'after a 429 the client waits for Retry-After if configured; otherwise the error has the wait',
  async (t) => {
    const { api, client } = await serving(t, { requestsPerMinute: { free: 6, pro: 6 } });
    const short = () =>
      api.sql`update rate_budgets set ends_at = clock_timestamp() + interval '900 ms'`;
    let refused: BillingError | undefined;
    for (let n = 0; n < 7 && refused === undefined; n += 1)
      refused = (await refusalOf(client().get('/merchant/profile'))) as BillingError | undefined;
    t.match(refused, { code: 'RATE_LIMITED', status: 429 });
    t.ok(refused!.retryAfter! > 1 && refused!.retryAfter! <= 60);
    t.match(
      await refusalOf(client({ retries: 1, maxWaitSeconds: 1 }).get('/merchant/profile')),
      { code: 'RATE_LIMITED' },
      'longer than it may wait',
    );
    // A process without this window: it reads the end from the table.
    await short();
    const second = await testApiOn(t, api);
    t.equal((await client({ baseUrl: second, retries: 1 }).get('/merchant/profile')).tier, 'free');
  },
);

/** Another process's API on the same database. */
async function testApiOn(t: Test, { deps }: TestApi): Promise<string> {
  const { buildApp } = await import('../../src/http/app.ts');
  const app = buildApp(deps);
  t.teardown(() => app.close());
  return app.listen({ port: 0, host: '127.0.0.1' });
}

void t.test(
  'every POST that creates something sends an idempotency key, so a repeated POST creates once',
  async (t) => {
    const { api, client, baseUrl } = await serving(t);
    let sent = 0;
    const keys = new Set<string | null>();
    // The answer to the first try is lost on its way.
    const lossy: typeof fetch = async (url, init) => {
      keys.add(new Headers(init?.headers).get('idempotency-key'));
      const answer = await fetch(url, init);
      sent += 1;
      if (sent === 1) {
        await answer.body?.cancel();
        throw new TypeError('fetch failed');
      }
      return answer;
    };
    const app = await client({ retries: 2, fetch: lossy }).post('/merchant/apps', {
      body: { name: 'Once' },
    });
    t.equal(sent, 2);
    t.equal(keys.size, 1);
    t.equal((await api.sql`select 1 from apps where name = 'Once'`).length, 1);
    sent = 0;
    const endpoint = await client({ retries: 2, fetch: lossy, baseUrl }).post(
      '/merchant/apps/{appId}/webhooks',
      { path: { appId: app.id }, body: { url: 'https://a.test/' } },
    );
    t.match(endpoint.secret, /^whsec_/, 'one that creates a secret as well');
    t.equal(sent, 2);
    sent = 0;
    keys.clear();
    await t.rejects(
      client({ retries: 2, fetch: lossy, baseUrl }).post(
        '/merchant/apps/{appId}/webhooks/{webhookId}/test',
        { path: { appId: 'x', webhookId: 'x' } },
      ),
    );
    t.equal(sent, 1, 'a POST that takes no key is not repeated');
    t.same([...keys], [null], 'and is sent without a key, which the service would refuse');
  },
);

void t.test('a request can be aborted by a signal or a timeout', async (t) => {
  const { client } = await serving(t);
  const never: typeof fetch = (_url, init) =>
    new Promise((_resolve, reject) =>
      init?.signal?.addEventListener('abort', () => reject(init.signal?.reason as Error)),
    );
  t.match(await refusalOf(client({ fetch: never, timeoutMs: 20 }).get('/merchant/profile')), {
    name: 'BillingConnectionError',
    message:
      /^GET http:\/\/\S+\/merchant\/profile got no answer of the service: No answer within 20 ms\.$/,
    cause: { name: 'TimeoutError' },
  });
  const given = new AbortController();
  const call = refusalOf(
    client({ fetch: never, retries: 5 }).get('/merchant/profile', { signal: given.signal }),
  );
  given.abort(new Error('changed my mind'));
  t.match(await call, { message: 'changed my mind' });
});

void t.test('an export is returned as a stream', async (t) => {
  const { api, client, merchant } = await serving(t);
  await api.sql`update merchants set tier = 'pro'`;
  const planId = await insertPlan(api.sql, merchant);
  const subscription = await insertSubscription(api.sql, { appId: merchant.appId, planId });
  await insertPayment(api.sql, subscription, '2026-01-01', {
    amountGross: '9007199254740993',
    platformFee: '3',
    amountNet: '9007199254740990',
  });
  const stream = await client().file('/merchant/apps/{appId}/transactions/export', {
    path: { appId: merchant.appId },
    query: { status: ['succeeded'] },
  });
  const text = await new Response(stream).text();
  t.equal(text.split('\r\n').length, 3);
  t.match(text, /,9007199254740993,3,9007199254740990,/);
});
