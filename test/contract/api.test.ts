// docs/contract.md: the service, resources, endpoints and errors, over HTTP on a real chain.
import { createSecretKey } from 'node:crypto';
import bs58 from 'bs58';
import { SignJWT } from 'jose';
import t, { type Test } from 'tap';
import nacl from 'tweetnacl';
import { subscriptionIn } from '../../src/chain/program/accounts.ts';
import { isAddress, subscriptionAddress } from '../../src/chain/program/addresses.ts';
import { type Reference, responsesOf } from '../fixtures/contract.ts';
import { chainApi, jwtSecret, publicUrl, testApi, type Answer } from '../fixtures/http.ts';
import { rulesIn } from './rules.ts';

const rule = rulesIn(t);

interface Key {
  id: string;
  key: string;
  prefix: string;
}
interface Subscription {
  id: string;
  subscriptionPda: string;
  status: string;
  [field: string]: unknown;
}
interface Response {
  content?: Record<string, unknown>;
}
interface Operation {
  requestBody?: {
    content: Record<
      string,
      { schema: { required?: string[]; properties?: Record<string, unknown> } }
    >;
  };
  parameters?: { in: string; name: string; schema: { enum?: string[] } }[];
  responses: Record<string, Response | Reference>;
}

const missing = '01999999-0000-7000-8000-000000000000';
const codes = {
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  VALIDATION_ERROR: 400,
  CONFLICT: 409,
  INTERNAL_ERROR: 500,
};
const json = { 'content-type': 'application/json' };

const api = await chainApi(t);
const database = { sql: api.sql, url: api.databaseUrl };
// The same books: in production; without a chain; with next to no patience.
const production = await testApi(t, { database, environment: 'production' });
const chainless = await testApi(t, { database });
const strict = await testApi(t, { database, requestsPerMinute: { free: 1, pro: 1 } });

const [merchant, other] = [await api.merchant(), await api.merchant()];
const app = `/merchant/apps/${merchant.appId}`;
const plan = await api.publishedPlan(merchant, { name: 'Coffee club' });
const [subscriber, stranger] = [
  await api.signIn('subscriber', api.funded()),
  await api.signIn('subscriber', api.funded()),
];
const subscriptionPda = await api.subscribed(subscriber, plan.id);
const registration = { appId: merchant.appId, planId: plan.id, subscriptionPda };
const register = (body: unknown, token = subscriber.token) =>
  api.call<Subscription>('POST', '/subscriber/subscriptions', { token, body });
const newKey = async (token = merchant.token) =>
  (await api.call<Key>('POST', '/merchant/api-keys', { token, headers: json })).body.data;
const read = (url: string, token?: string) => api.call<unknown>('GET', url, { token });

const registered = await register(registration);
const document = JSON.parse((await read('/openapi.json')).text) as {
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: {
    securitySchemes: Record<string, unknown>;
    schemas: Record<string, { properties: Record<string, { enum?: string[] }> }>;
    responses: Record<string, Response>;
  };
};
const operations = Object.entries(document.paths).flatMap(([path, found]) =>
  Object.entries(found).map(([method, operation]) => ({
    path,
    method: method.toUpperCase(),
    operation,
  })),
);

/** An answer of each kind, by its code. */
const refusals: Record<keyof typeof codes, Answer<unknown>[]> = {
  UNAUTHORIZED: [await read(app), await read(app, 'sk_test_unknown')],
  FORBIDDEN: [
    await read('/merchant/profile', subscriber.token),
    await read(`/merchant/apps/${other.appId}`, merchant.key),
  ],
  NOT_FOUND: [await read(`/merchant/apps/${missing}`, merchant.key), await read('/nowhere')],
  VALIDATION_ERROR: [
    await api.call('POST', '/merchant/apps', { token: merchant.key, body: { name: 5 } }),
    await api.call('POST', '/auth/nonce', { payload: '{"wallet"', headers: json }),
  ],
  CONFLICT: [await register(registration)],
  INTERNAL_ERROR: [
    await chainless.call('POST', `${app}/plans`, {
      token: merchant.key,
      body: { name: 'Plan', amount: '1000000', periodHours: 1 },
    }),
  ],
};
const limited = await strict.call('GET', '/merchant/profile', { token: merchant.key });
const failed = [...Object.values(refusals).flat(), limited];
const succeeded = [
  registered,
  await read(app, merchant.key),
  await read('/merchant/apps', merchant.token),
  await read('/subscriber/subscriptions', subscriber.token),
  await api.call('POST', '/merchant/api-keys', { token: other.token, headers: json }),
  await read('/healthz'),
];

rule("Every path in this document is relative to the service's base URL.", async (t) => {
  t.same(document.servers, [{ url: '/' }]);
  t.ok(operations.every(({ path }) => path.startsWith('/')));
  await api.call('POST', '/merchant/apps', { token: merchant.key, body: { name: 'Tea' } });
  const { headers } = await read('/merchant/apps?limit=1', merchant.key);
  const [, next = ''] = /^<(.+)>; rel="next"$/.exec(String(headers.link)) ?? [];
  t.ok(next.startsWith(`${publicUrl}/merchant/apps?`), next);
  t.equal((await read(next.slice(publicUrl.length), merchant.key)).status, 200);
});

rule('Requests and responses carry JSON; a route that answers otherwise says so.', async (t) => {
  for (const { path, method, operation } of operations) {
    const responses = Object.values(responsesOf(document, operation));
    const types = [operation.requestBody, ...responses].flatMap((one) =>
      Object.keys(one?.content ?? {}),
    );
    const others = types.filter((type) => type !== 'application/json');
    const said = /\/(export|csv)$/.test(path)
      ? ['text/csv']
      : path.endsWith('/page')
        ? ['text/html']
        : `${method} ${path}`.toLowerCase() === 'post /merchant/apps/{appid}/logo'
          ? ['image/png', 'image/webp']
          : [];
    t.same(others, said, `${method} ${path}`);
  }
  for (const { headers } of [...succeeded, ...failed])
    t.match(headers['content-type'], /^application\/json/);
  const form = {
    token: merchant.key,
    payload: 'name=x',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  };
  t.equal((await api.call('POST', '/merchant/apps', form)).status, 400);
});

rule(
  'A subscription begins as an account on Solana; its program-derived address, in Base58, identifies it.',
  async (t) => {
    const terms = await api.call<{ subscriptionPda: string; transaction: string }>(
      'POST',
      `/subscriber/plans/${plan.id}/subscribe`,
      {
        token: stranger.token,
      },
    );
    const pda = terms.body.data.subscriptionPda;
    t.ok(isAddress(pda));
    t.equal(
      pda,
      subscriptionAddress(api.deps.network.programId, plan.planPda, stranger.wallet).address,
    );
    t.equal(
      (await register({ ...registration, subscriptionPda: pda }, stranger.token)).status,
      404,
      'not before it is on chain',
    );
    await api.submit(stranger.keypair, terms.body.data.transaction);
    const { accounts } = await api.deps.chain.getMultipleAccounts([pda]);
    t.match(subscriptionIn(accounts[0] ?? null, api.deps.network.programId), {
      subscriber: stranger.wallet,
      plan: plan.planPda,
    });
    t.equal(
      (await register({ ...registration, subscriptionPda: pda }, stranger.token)).status,
      201,
    );
  },
);

rule('An amount is a whole number of base units (6 decimals), sent as a string.', async (t) => {
  const most = '9223372036854775807';
  const drafted = await api.call<{ id: string; amount: string }>('POST', `${app}/plans`, {
    token: merchant.key,
    body: { name: 'Beyond 2^53', amount: most, periodHours: 1 },
  });
  t.equal(drafted.body.data.amount, most);
  t.ok(
    (await read(`${app}/plans/${drafted.body.data.id}`, merchant.key)).text.includes(
      `"amount":"${most}"`,
    ),
  );
  for (const amount of [10_000_000, '10.5', '1e6', '-1', '0', '', '9223372036854775808']) {
    const refused = await api.call('POST', `${app}/plans`, {
      token: merchant.key,
      body: { name: 'x', amount, periodHours: 1 },
    });
    t.match(
      refused,
      { status: 400, body: { error: { details: [{ path: 'amount' }] } } },
      String(amount),
    );
  }
});

rule(
  'Over REST a merchant reaches apps, plans, subscriptions, transactions, webhook endpoints, analytics, the CSV export (Pro tier), the profile and API keys.',
  async (t) => {
    const pro = await api.merchant();
    await api.sql`update merchants set tier = 'pro' where id = ${pro.merchantId}`;
    const own = `/merchant/apps/${pro.appId}`;
    const urls = [
      'plans',
      'subscriptions',
      'transactions',
      'webhooks',
      'analytics',
      'transactions/export',
    ].map((end) => `${own}/${end}`);
    for (const url of ['/merchant/apps', '/merchant/profile', '/merchant/api-keys', own, ...urls])
      t.equal((await read(url, pro.token)).status, 200, url);
  },
);

rule('Over REST a subscriber registers subscriptions and reads them.', async (t) => {
  t.equal(registered.status, 201);
  const listed = await api.call<Subscription[]>('GET', '/subscriber/subscriptions', {
    token: subscriber.token,
  });
  t.same(listed.body.data, [registered.body.data]);
  t.same(
    (await read(`/subscriber/subscriptions/${registered.body.data.id}`, subscriber.token)).body
      .data,
    registered.body.data,
  );
});

rule(
  'A caller authenticates with a JWT, which a wallet obtains with its signature (browsers and dashboards), or with an API key (servers).',
  async (t) => {
    t.same(Object.keys(document.components.securitySchemes).sort(), ['apiKey', 'walletJwt']);
    for (const token of [merchant.token, merchant.key])
      t.equal((await read('/merchant/profile', token)).status, 200);
    const basic = `Basic ${Buffer.from(`${merchant.key}:`).toString('base64')}`;
    for (const headers of [
      { authorization: basic },
      { 'x-api-key': merchant.key },
      { cookie: `token=${merchant.token}` },
    ] as Record<string, string>[])
      t.equal(
        (await api.call('GET', '/merchant/profile', { headers })).status,
        401,
        JSON.stringify(Object.keys(headers)),
      );
    t.equal((await read(`/merchant/profile?token=${merchant.token}`)).status, 401);
  },
);

rule('`success` | boolean | `true` for a success, `false` for an error', (t) => {
  for (const { body } of succeeded) t.equal(body.success, true);
  for (const { body } of failed) t.equal(body.success, false);
});

rule('`data` | any or null | the result of a success; null for an error', (t) => {
  for (const { body } of succeeded) t.ok(typeof body.data === 'object' && body.data !== null);
  for (const { body } of failed) t.equal(body.data, null);
});

rule('`error` | object | there for an error only', (t) => {
  for (const { body } of succeeded) t.same(Object.keys(body), ['success', 'data']);
  for (const { body } of failed) t.same(Object.keys(body), ['success', 'data', 'error']);
});

rule('`error.code` | string | a code from the table under [Errors](#errors)', (t) => {
  for (const [code, answers] of Object.entries(refusals))
    for (const { body } of answers) t.equal(body.error?.code, code);
  t.equal(limited.body.error?.code, 'RATE_LIMITED', 'and one for 429, which Errors leaves open');
});

rule('`error.message` | string | says what is wrong, for a person to read', (t) => {
  for (const { body } of failed) t.match(body.error?.message, /^[A-Za-z"].* .*\.$/);
});

rule('`id` | string | names the key in the path that revokes it', async (t) => {
  const { id } = await newKey();
  t.match(await api.call('DELETE', `/merchant/api-keys/${id}`, { token: merchant.token }), {
    status: 200,
    body: { data: { id } },
  });
});

rule(
  '`key` | string | the whole secret; only the response that creates the key shows it',
  async (t) => {
    const { id, key } = await newKey();
    t.equal((await read('/merchant/profile', key)).status, 200);
    const later = [
      await read('/merchant/api-keys', merchant.token),
      await read(`/merchant/api-keys/${id}`, merchant.token),
      await api.call('DELETE', `/merchant/api-keys/${id}`, { token: merchant.token }),
    ];
    t.same(
      later.map(({ status }) => status),
      [200, 405, 200],
    );
    for (const { text } of later) t.notOk(text.includes(key));
    const [stored] = await api.sql`select * from api_keys where id = ${id}`;
    t.notOk(JSON.stringify(stored).includes(key));
  },
);

rule(
  '`prefix` | string | the marker of the environment and a few more characters: tells keys apart without exposing one',
  async (t) => {
    const { key, prefix, id } = await newKey();
    t.ok(key.startsWith(prefix));
    t.match(prefix, /^sk_test_\w{6}$/);
    t.ok(key.length - prefix.length > 30, 'what is missing cannot be guessed');
    const listed = await api.call<Key[]>('GET', '/merchant/api-keys', { token: merchant.token });
    t.same(
      listed.body.data.filter((one) => one.prefix === prefix).map((one) => one.id),
      [id],
    );
    t.equal((await read('/merchant/profile', prefix)).status, 401);
  },
);

rule(
  '`sk_live_` marks a key of a production installation, `sk_test_` one of a development installation.',
  async (t) => {
    const live = await production.call<Key>('POST', '/merchant/api-keys', {
      token: merchant.token,
      headers: json,
    });
    t.match(live.body.data, { key: /^sk_live_/, prefix: /^sk_live_/ });
    const test = await newKey();
    t.match(test, { key: /^sk_test_/, prefix: /^sk_test_/ });
    t.equal(
      (await production.call('GET', '/merchant/profile', { token: live.body.data.key })).status,
      200,
    );
    t.equal((await production.call('GET', '/merchant/profile', { token: test.key })).status, 401);
    t.equal((await read('/merchant/profile', live.body.data.key)).status, 401);
  },
);

rule('A key begins with its marker.', async (t) => {
  for (let n = 0; n < 3; n += 1)
    t.match((await newKey()).key, /^sk_test_[1-9A-HJ-NP-Za-km-z]{40,}$/);
});

rule('`appId` | string | required: the app', async (t) => {
  const { appId, ...rest } = registration;
  for (const body of [
    rest,
    { ...rest, appId: 5 },
    { ...rest, appId: null },
    { ...rest, appId: [appId] },
  ])
    t.match(await register(body, stranger.token), {
      status: 400,
      body: { error: { details: [{ path: 'appId' }] } },
    });
});

rule('`planId` | string | required: a plan of that app', async (t) => {
  const { planId, ...rest } = registration;
  for (const body of [
    rest,
    { ...rest, planId: 5 },
    { ...rest, planId: null },
    { ...rest, planId: { planId } },
  ])
    t.match(await register(body, stranger.token), {
      status: 400,
      body: { error: { details: [{ path: 'planId' }] } },
    });
});

rule("`subscriptionPda` | string | required: the account's address, in Base58", async (t) => {
  const { subscriptionPda: pda, ...rest } = registration;
  for (const wrong of [
    undefined,
    5,
    null,
    '',
    '0OIl',
    `0x${'ab'.repeat(32)}`,
    pda.slice(0, 30),
    `1${pda}`,
  ])
    t.match(
      await register({ ...rest, subscriptionPda: wrong }, stranger.token),
      {
        status: 400,
        body: { error: { code: 'VALIDATION_ERROR', details: [{ path: 'subscriptionPda' }] } },
      },
      String(wrong),
    );
});

rule(
  '`url` | string | where events are sent; production: HTTPS, port 80, 443 or above 1023',
  async (t) => {
    const { body } = await api.call<{ id: string }>('POST', '/merchant/apps', {
      token: merchant.token,
      body: { name: 'Hooked' },
    });
    const path = `/merchant/apps/${body.data.id}/webhooks`;
    const post = (url: unknown) =>
      production.call('POST', path, { token: merchant.token, body: { url } });
    for (const url of [
      'http://shop.test/hook',
      'shop.test/hook',
      'ftp://shop.test/',
      '',
      5,
      undefined,
    ])
      t.match(
        await post(url),
        { status: 400, body: { error: { details: [{ path: 'url' }] } } },
        String(url),
      );
    const url = 'https://shop.test/hook';
    t.match(await post(url), { status: 201, body: { data: { url } } });
  },
);

rule(
  '`secret` | string | the signing key; only the response that creates the endpoint shows it',
  async (t) => {
    const { appId, key, token } = await api.merchant();
    const path = `/merchant/apps/${appId}/webhooks`;
    const { body } = await api.call<{ id: string; secret: string }>('POST', path, {
      token: key,
      body: { url: 'https://shop.test/' },
    });
    t.match(body.data.secret, /^whsec_.{40,}$/);
    for (const url of [path, `${path}/${body.data.id}`, '/merchant/apps', '/merchant/profile'])
      for (const caller of [key, token])
        t.notOk((await read(url, caller)).text.includes('whsec_'), url);
    t.notOk(
      (await api.call('DELETE', `${path}/${body.data.id}`, { token })).text.includes('whsec_'),
    );
  },
);

rule('An app has at most one webhook endpoint.', async (t) => {
  const { appId, key, token } = await api.merchant();
  const post = (caller: string) =>
    api.call('POST', `/merchant/apps/${appId}/webhooks`, {
      token: caller,
      body: { url: 'https://shop.test/' },
    });
  const answers = await Promise.all([post(key), post(token), post(key), post(token)]);
  t.same(answers.map(({ status }) => status).sort(), [201, 409, 409, 409]);
  t.match(await post(key), { status: 409, body: { error: { code: 'CONFLICT' } } });
});

rule('To change the URL, a merchant deletes the endpoint and creates a new one.', async (t) => {
  const { appId, key } = await api.merchant();
  const path = `/merchant/apps/${appId}/webhooks`;
  const post = (url: string) =>
    api.call<{ id: string; secret: string }>('POST', path, { token: key, body: { url } });
  const first = (await post('https://shop.test/old')).body.data;
  t.equal((await post('https://shop.test/new')).status, 409, 'a second one');
  t.equal(
    (
      await api.call('PATCH', `${path}/${first.id}`, {
        token: key,
        body: { url: 'https://shop.test/new' },
      })
    ).status,
    400,
    'a change of other settings takes no url',
  );
  t.equal((await api.call('DELETE', `${path}/${first.id}`, { token: key })).status, 200);
  const second = await post('https://shop.test/new');
  t.match(
    second,
    { status: 201, body: { data: { url: 'https://shop.test/new' } } },
    'again after delete',
  );
  t.not(second.body.data.secret, first.secret);
});

rule(
  'A plan has an id and a name for people; events carry them as `planId` and `planName`.',
  async (t) => {
    t.match((await read(`${app}/plans/${plan.id}`, merchant.key)).body.data, {
      id: plan.id,
      name: 'Coffee club',
    });
    const { body } = await api.call<{ payload: unknown }[]>('GET', `${app}/events`, {
      token: merchant.key,
    });
    t.match(body.data.at(-1)?.payload, {
      type: 'subscription_created',
      data: { planId: plan.id, planName: 'Coffee club' },
    });
  },
);

rule('An app has an id; events and paths carry it as `appId`.', async (t) => {
  t.match((await read(app, merchant.key)).body.data, { id: merchant.appId });
  t.equal(registered.body.data.appId, merchant.appId);
});

rule(
  'The status of a subscription is `active`, `past_due`, `cancelled` or `expired`.',
  async (t) => {
    const values = ['active', 'past_due', 'cancelled', 'expired'];
    t.same(document.components.schemas.Subscription?.properties.status?.enum, values);
    for (const status of values) {
      await api.sql`
      update subscriptions set status = ${status}, cancelled_at = case when ${status} = 'cancelled' then now() end,
        ended_at = case when ${status} in ('cancelled', 'expired') then now() end,
        past_due_since = case when ${status} = 'past_due' then now() end
      where id = ${registered.body.data.id}`;
      const found = await api.call<Subscription[]>(
        'GET',
        `${app}/subscriptions?status=${status}&subscriberWallet=${subscriber.wallet}`,
        {
          token: merchant.key,
        },
      );
      t.match(found.body.data, [{ id: registered.body.data.id, status }]);
    }
    t.equal((await read(`${app}/subscriptions?status=paused`, merchant.key)).status, 400);
    await t.rejects(api.sql`update subscriptions set status = 'paused'`, 'nor can one be stored');
    await api.sql`update subscriptions set status = 'active', cancelled_at = null, ended_at = null, past_due_since = null where id = ${registered.body.data.id}`;
  },
);

rule('A path writes its parameters in braces.', (t) => {
  for (const { path } of operations) t.match(path, /^(\/([a-z-]+(\.json)?|\{[a-z][A-Za-z]*\}))+$/);
  const named = operations.filter(({ path }) => path.includes('{'));
  t.ok(named.length > 20);
  for (const { path, operation } of named) {
    const given = (operation.parameters ?? [])
      .filter((parameter) => parameter.in === 'path')
      .map(({ name }) => name);
    t.same(given.sort(), [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort(), path);
  }
});

rule(
  "`POST /merchant/api-keys` | merchant's JWT, no API key | `Content-Type: application/json`, no body | creates a key: `id`, `key`, `prefix`",
  async (t) => {
    const created = await api.call<Key>('POST', '/merchant/api-keys', {
      token: merchant.token,
      headers: json,
    });
    t.equal(created.status, 201);
    t.same(Object.keys(created.body.data).sort(), ['id', 'key', 'prefix']);
    t.equal(
      (await api.call('POST', '/merchant/api-keys', { token: merchant.key, headers: json })).status,
      403,
    );
  },
);

rule(
  "`DELETE /merchant/api-keys/{keyId}` | merchant's JWT, no API key |  | revokes the key, at once and for good",
  async (t) => {
    const { id, key } = await newKey();
    t.equal(
      (await api.call('DELETE', `/merchant/api-keys/${id}`, { token: merchant.key })).status,
      403,
    );
    t.equal((await read(app, key)).status, 200);
    t.equal(
      (await api.call('DELETE', `/merchant/api-keys/${id}`, { token: merchant.token })).status,
      200,
    );
    for (let n = 0; n < 3; n += 1) t.equal((await read(app, key)).status, 401);
    t.same(
      Object.keys(document.paths['/merchant/api-keys/{keyId}'] ?? {}),
      ['delete'],
      'nothing takes it back',
    );
  },
);

rule(
  "`GET /merchant/apps/{appId}/plans` | API key or merchant's JWT |  | `data` is the list of the app's plans",
  async (t) => {
    for (const token of [merchant.key, merchant.token]) {
      const { status, body } = await api.call<{ id: string; name: string; appId: string }[]>(
        'GET',
        `${app}/plans`,
        { token },
      );
      t.equal(status, 200);
      t.match(
        body.data.find(({ id }) => id === plan.id),
        { name: 'Coffee club', appId: merchant.appId },
      );
    }
    t.same((await read(`/merchant/apps/${other.appId}/plans`, other.key)).body.data, []);
    t.equal((await read(`${app}/plans`, subscriber.token)).status, 403);
  },
);

rule(
  "`POST /subscriber/subscriptions` | subscriber's JWT | `appId`, `planId`, `subscriptionPda`, all required | registers the account on chain, so that the keeper collects",
  async (t) => {
    t.match(registered, {
      status: 201,
      body: { data: { ...registration, subscriberWallet: subscriber.wallet, status: 'active' } },
    });
    for (const token of [merchant.token, merchant.key])
      t.equal((await register(registration, token)).status, 403);
    const schema =
      document.paths['/subscriber/subscriptions']?.post?.requestBody?.content['application/json']
        ?.schema;
    t.same(schema?.required, ['appId', 'planId', 'subscriptionPda']);
    const [row] = await api.sql<
      { dueAt: Date | null }[]
    >`select due_at from subscription_work where subscription_id = ${registered.body.data.id}`;
    t.ok(row?.dueAt instanceof Date, 'the keeper finds it by the time when it is due');
  },
);

rule(
  "`GET /subscriber/subscriptions` | subscriber's JWT |  | `data` is the list of the caller's subscriptions",
  async (t) => {
    const own = await api.call<Subscription[]>('GET', '/subscriber/subscriptions', {
      token: subscriber.token,
    });
    t.match(own.body.data, [{ id: registered.body.data.id, subscriberWallet: subscriber.wallet }]);
    const theirs = await api.call<Subscription[]>('GET', '/subscriber/subscriptions', {
      token: stranger.token,
    });
    t.ok(theirs.body.data.every((one) => one.subscriberWallet === stranger.wallet));
    for (const token of [merchant.token, merchant.key])
      t.equal((await read('/subscriber/subscriptions', token)).status, 403);
  },
);

rule(
  "`GET /subscriber/subscriptions/{subscriptionId}` | subscriber's JWT |  | `data` is one subscription of the caller",
  async (t) => {
    const url = `/subscriber/subscriptions/${registered.body.data.id}`;
    t.match(await read(url, subscriber.token), {
      status: 200,
      body: { data: { id: registered.body.data.id, subscriptionPda } },
    });
    t.equal((await read(url, stranger.token)).status, 403);
    t.equal((await read(`/subscriber/subscriptions/${missing}`, subscriber.token)).status, 404);
    for (const token of [merchant.token, merchant.key])
      t.equal((await read(url, token)).status, 403);
  },
);

rule(
  "`GET /subscriber/subscriptions/{subscriptionId}/transactions` | subscriber's JWT |  | `data` is the list of its transactions",
  async (t) => {
    const url = `/subscriber/subscriptions/${registered.body.data.id}/transactions`;
    t.match(await read(url, subscriber.token), { status: 200, body: { success: true, data: [] } });
    t.equal((await read(url, stranger.token)).status, 403);
    for (const token of [merchant.token, merchant.key])
      t.equal((await read(url, token)).status, 403);
  },
);

rule(
  '`POST /auth/nonce` | anyone | `wallet`, `role` | a nonce, and the message that the wallet signs',
  async (t) => {
    const { status, body } = await api.call<{ nonce: string; message: string }>(
      'POST',
      '/auth/nonce',
      { body: { wallet: other.wallet } },
    );
    t.equal(status, 200);
    t.ok(body.data.nonce.length >= 16 && body.data.message.includes(body.data.nonce));
  },
);

rule(
  '`POST /auth/verify` | anyone | `wallet`, `nonce`, `signature` | the JWT, in exchange for the signature',
  async (t) => {
    const { token } = await api.signIn('merchant', merchant.keypair);
    const [head, claims] = token
      .split('.')
      .map((part) => Buffer.from(part, 'base64url').toString());
    t.match(JSON.parse(head ?? ''), { alg: 'HS256' });
    t.match(JSON.parse(claims ?? ''), { sub: merchant.wallet, role: 'merchant' });
  },
);

rule('A success has `success: true` and its result in `data`.', async (t) => {
  for (const { path } of operations.filter(
    ({ method, path }) =>
      method === 'GET' && path.startsWith('/merchant') && !/(\}|\/csv|\/page)$/.test(path),
  )) {
    const answer = await read(
      path
        .replace('{appId}', merchant.appId)
        .replace('{subscriptionId}', registered.body.data.id)
        .replace('{webhookId}', missing)
        .replace('{transactionId}', missing)
        .replace(/\/access$/, '/access?externalId=none'),
      merchant.token,
    );
    if (answer.status === 200) t.match(answer.body, { success: true, data: Object }, path);
    else
      t.match(
        path,
        /\/(export|deliveries|refunds|change|customer|credits)$/,
        `${path} ${answer.status}`,
      );
  }
  for (const { body } of succeeded) t.match(body, { success: true, data: Object });
});

rule(
  'A client signs in with three steps: it requests a nonce, lets the wallet sign it, and sends the signature for a JWT.',
  async (t) => {
    const pair = nacl.sign.keyPair();
    const wallet = bs58.encode(pair.publicKey);
    const asked = await api.call<{ nonce: string; message: string }>('POST', '/auth/nonce', {
      body: { wallet },
    });
    const { nonce, message } = asked.body.data;
    const verify = (secretKey: Uint8Array) =>
      api.call<{ token: string }>('POST', '/auth/verify', {
        body: {
          wallet,
          nonce,
          signature: bs58.encode(nacl.sign.detached(Buffer.from(message), secretKey)),
        },
      });
    const verified = await verify(pair.secretKey);
    t.match(await read('/merchant/profile', verified.body.data.token), {
      status: 200,
      body: { data: { wallet } },
    });
    t.equal((await verify(pair.secretKey)).status, 401, 'a nonce is good once');
    const again = await api.call<{ nonce: string; message: string }>('POST', '/auth/nonce', {
      body: { wallet },
    });
    const forged = bs58.encode(
      nacl.sign.detached(Buffer.from(again.body.data.message), nacl.sign.keyPair().secretKey),
    );
    t.equal(
      (
        await api.call('POST', '/auth/verify', {
          body: { wallet, nonce: again.body.data.nonce, signature: forged },
        })
      ).status,
      401,
    );
  },
);

rule('An API key reaches every merchant operation but the management of API keys.', async (t) => {
  for (const { path, method } of operations.filter(({ path }) => path.startsWith('/merchant'))) {
    const url = path.replace('{appId}', merchant.appId).replace(/\{\w+\}/g, missing);
    const { status } = await api.call(method as 'GET', url, {
      token: merchant.key,
      ...(method === 'GET' ? {} : { body: {} }),
    });
    if (path.startsWith('/merchant/api-keys')) t.equal(status, 403, `${method} ${path}`);
    // The export is for the Pro tier.
    else if (!path.endsWith('/export'))
      t.notOk([401, 403].includes(status), `${method} ${path}: ${status}`);
  }
});

rule('A subscriber endpoint puts its result into the envelope.', async (t) => {
  for (const { path, method } of operations.filter(({ path }) => path.startsWith('/subscriber'))) {
    const url = path
      .replace('{planId}', plan.id)
      .replace('{subscriptionId}', registered.body.data.id);
    const { body } = await api.call(method as 'GET', url, {
      token: subscriber.token,
      ...(method === 'GET' ? {} : { headers: json }),
    });
    t.match(
      body,
      body.success ? { data: Object } : { data: null, error: { code: String, message: String } },
      `${method} ${path}`,
    );
  }
});

rule('A list of transactions can be narrowed to those since a time.', async (t) => {
  const { id } = registered.body.data;
  await api.sql`
      insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
        platform_fee, amount_net, tx_signature, occurred_at)
      select app_id, plan_id, id, subscription_pda, subscriber_wallet, 'succeeded', at, at + interval '1 day', 100, 1, 99, 'signature ' || at, at
      from subscriptions, unnest(array['2026-01-01Z', '2026-02-01Z', '2026-03-01Z']::timestamptz[]) at where id = ${id}`;
  const since = async (time: string) =>
    (
      await api.call<{ occurredAt: string }[]>('GET', `${app}/transactions?since=${time}`, {
        token: merchant.key,
      })
    ).body.data.length;
  t.same(
    [
      await since('2026-01-01'),
      await since('2026-01-01T00:00:00.001Z'),
      await since('2026-03-01T00:00:00Z'),
      await since('2026-04-01'),
    ],
    [3, 2, 1, 0],
  );
});

rule(
  'An error has `success: false`, `data: null` and an `error` with `code` and `message`.',
  (t) => {
    for (const { body } of failed) {
      t.match(body, { success: false, data: null, error: { code: String, message: String } });
      t.ok(
        Object.keys(body.error ?? {}).every((name) =>
          ['code', 'message', 'details'].includes(name),
        ),
      );
    }
  },
);

const has = (code: keyof typeof codes) => (t: Test) => {
  for (const answer of refusals[code])
    t.match(answer, { status: codes[code], body: { error: { code } } });
};

rule('`UNAUTHORIZED` | 401 | credentials are missing, malformed, expired or revoked', async (t) => {
  has('UNAUTHORIZED')(t);
  const { id, key } = await newKey();
  await api.call('DELETE', `/merchant/api-keys/${id}`, { token: merchant.token });
  const claims = {
    iss: publicUrl,
    aud: publicUrl,
    sub: merchant.wallet,
    role: 'merchant',
    iat: 1,
    exp: 2,
    jti: 'x',
  };
  const token = await new SignJWT(claims)
    .setProtectedHeader({ alg: 'HS256' })
    .sign(createSecretKey(jwtSecret, 'utf8'));
  for (const [what, credentials] of Object.entries({
    missing: undefined,
    invalid: 'x.y.z',
    expired: token,
    revoked: key,
  }))
    t.match(
      await read(app, credentials),
      { status: 401, body: { error: { code: 'UNAUTHORIZED' } } },
      what,
    );
});

rule(
  "`FORBIDDEN` | 403 | the caller's role may not use the route, or the key not the resource",
  (t) => {
    has('FORBIDDEN')(t);
  },
);

rule('`NOT_FOUND` | 404 | there is no such resource', (t) => {
  has('NOT_FOUND')(t);
});

rule(
  '`VALIDATION_ERROR` | 400 | the request does not have the form that the route asks for',
  (t) => {
    has('VALIDATION_ERROR')(t);
  },
);

rule('`CONFLICT` | 409 | the resource exists already', (t) => {
  has('CONFLICT')(t);
});

rule(
  '`INTERNAL_ERROR` | 500; 503 with `Retry-After` while the database or the chain is out of reach | the service failed',
  (t) => {
    for (const answer of refusals.INTERNAL_ERROR) {
      t.match(answer, { status: 503, body: { error: { code: 'INTERNAL_ERROR' } } });
      t.match(answer.headers['retry-after'], /^[1-9]\d*$/);
    }
  },
);
