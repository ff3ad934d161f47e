// docs/contract.md, Authentication.
import { createSecretKey } from 'node:crypto';
import { SignJWT } from 'jose';
import t from 'tap';
import { apiDocument, chainApi, jwtSecret, publicUrl, type CallOptions } from '../fixtures/http.ts';
import { rulesIn } from './rules.ts';

const rule = rulesIn(t);

interface Key {
  id: string;
  key: string;
}
type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

const missing = '01999999-0000-7000-8000-000000000000';
const json = { 'content-type': 'application/json' };
const unauthorized = {
  status: 401,
  body: { success: false, data: null, error: { code: 'UNAUTHORIZED' } },
};
const forbidden = {
  status: 403,
  body: { success: false, data: null, error: { code: 'FORBIDDEN' } },
};

const api = await chainApi(t);
const [merchant, other] = [await api.merchant(), await api.merchant()];
const subscriber = await api.signIn('subscriber');
const newKey = async () =>
  (await api.call<Key>('POST', '/merchant/api-keys', { token: merchant.token, headers: json })).body
    .data;
const revoke = (id: string, token = merchant.token) =>
  api.call('DELETE', `/merchant/api-keys/${id}`, { token });
const profile = (token: string) => api.call('GET', '/merchant/profile', { token });

const { paths } = (await apiDocument()) as unknown as {
  paths: Record<string, Record<string, unknown>>;
};
/**
 * Every operation under this path, its parameters filled in: the app is `appId`, everything else is
 * not there.
 */
const operations = (under: string, appId = merchant.appId) =>
  Object.entries(paths)
    .filter(([path]) => path.startsWith(under))
    .flatMap(([path, found]) =>
      Object.keys(found).map((verb) => ({
        method: verb.toUpperCase() as Method,
        url: path.replace('{appId}', appId).replace(/\{\w+\}/g, missing),
      })),
    );
const merchantOperations = operations('/merchant').filter(
  ({ url }) => !url.startsWith('/merchant/api-keys'),
);
const keyOperations = operations('/merchant/api-keys');
const call = (method: Method, url: string, options: CallOptions) =>
  api.call(method, url, {
    ...options,
    ...(method === 'GET' || method === 'DELETE' ? {} : { body: options.body ?? {} }),
  });

rule(
  'JWT | browsers and dashboards | a wallet signs a nonce and receives it; it is sent as `Authorization: Bearer <token>`',
  async (t) => {
    const { token, wallet } = await api.signIn('merchant');
    const headers = (authorization: string) => ({ headers: { authorization } });
    t.match(await api.call('GET', '/merchant/profile', headers(`Bearer ${token}`)), {
      status: 200,
      body: { data: { wallet } },
    });
    t.match(
      await api.call('GET', '/merchant/profile', headers(token)),
      unauthorized,
      'without "Bearer"',
    );
    t.match(await api.call('GET', '/merchant/profile'), unauthorized);
  },
);

rule('API key | servers | it is sent as `Authorization: Bearer <key>`', async (t) => {
  const { key } = await newKey();
  const headers = (authorization: string) => ({ headers: { authorization } });
  t.match(await api.call('GET', '/merchant/profile', headers(`Bearer ${key}`)), {
    status: 200,
    body: { data: { wallet: merchant.wallet } },
  });
  t.match(
    await api.call('GET', '/merchant/profile', headers(key)),
    unauthorized,
    'without "Bearer"',
  );
  t.match(await api.call('GET', '/merchant/profile', headers(`Basic ${key}`)), unauthorized);
});

rule('A subscriber endpoint accepts only a valid JWT with the role `subscriber`.', async (t) => {
  const claims = {
    iss: publicUrl,
    aud: publicUrl,
    sub: subscriber.wallet,
    role: 'subscriber',
    iat: 1,
    exp: 4_000_000_000,
    jti: 'x',
  };
  const sign = (changes: object, secret = jwtSecret) =>
    new SignJWT({ ...claims, ...changes })
      .setProtectedHeader({ alg: 'HS256' })
      .sign(createSecretKey(secret, 'utf8'));
  const valid = await sign({});
  const [expired, forged] = [
    await sign({ exp: 2 }),
    await sign({}, 'another secret of thirty-two bytes'),
  ];
  const all = operations('/subscriber');
  t.ok(all.length >= 9);
  for (const { method, url } of all) {
    t.notOk(
      [401, 403].includes((await call(method, url, { token: valid })).status),
      `${method} ${url} with it`,
    );
    for (const token of [undefined, expired, forged, `${valid}x`])
      t.match(await call(method, url, { token }), unauthorized, `${method} ${url}`);
    for (const token of [merchant.token, merchant.key])
      t.match(await call(method, url, { token }), forbidden, `${method} ${url} of a merchant`);
  }
});

rule("An API key may do all that its merchant's JWT may, except manage API keys.", async (t) => {
  t.ok(merchantOperations.length > 25);
  for (const { method, url } of merchantOperations) {
    // Of both tiers, since the export is for one of them. Without a body that fits, nothing changes
    // in between.
    for (const tier of ['free', 'pro']) {
      await api.sql`update merchants set tier = ${tier} where id = ${merchant.merchantId}`;
      const [byKey, byToken] = [
        await call(method, url, { token: merchant.key }),
        await call(method, url, { token: merchant.token }),
      ];
      t.equal(byKey.status, byToken.status, `${method} ${url}, ${tier}`);
      if (tier === 'pro')
        t.notOk([401, 403].includes(byKey.status), `${method} ${url}: ${byKey.status}`);
    }
  }
  for (const { method, url } of keyOperations) {
    t.match(await call(method, url, { token: merchant.key }), forbidden, `${method} ${url}`);
    t.notOk(
      [401, 403].includes((await call(method, url, { token: merchant.token })).status),
      `${method} ${url}`,
    );
  }
});

rule(
  "Only a merchant's JWT creates and revokes API keys; an API key that tries is refused.",
  async (t) => {
    const { id, key } = await newKey();
    for (const token of [key, merchant.key]) {
      t.match(await api.call('POST', '/merchant/api-keys', { token, headers: json }), forbidden);
      t.match(await revoke(id, token), forbidden);
    }
    t.equal((await profile(key)).status, 200, 'it was not revoked');
    t.equal((await revoke(id)).status, 200);
    t.match(
      await api.call('POST', '/merchant/api-keys', { token: key, headers: json }),
      unauthorized,
      'a revoked one is not even known',
    );
    t.match(
      await api.call('POST', '/merchant/api-keys', { token: subscriber.token, headers: json }),
      forbidden,
    );
  },
);

rule('A key is shown in full once, when it is created.', async (t) => {
  const { key, id } = await newKey();
  for (const url of ['/merchant/api-keys', '/merchant/profile', '/merchant/apps']) {
    for (const token of [merchant.token, key]) {
      const { text } = await api.call('GET', url, { token });
      t.notOk(text.includes(key) || text.includes(key.slice(20)), url);
    }
  }
  t.notOk((await revoke(id)).text.includes(key));
});

rule('A lost key cannot be read again; the merchant revokes it and creates another.', async (t) => {
  const lost = await newKey();
  t.same(
    keyOperations.map(({ method, url }) => `${method} ${url}`).sort(),
    [`DELETE /merchant/api-keys/${missing}`, 'GET /merchant/api-keys', 'POST /merchant/api-keys'],
    'nothing reads one',
  );
  t.equal((await revoke(lost.id)).status, 200);
  const fresh = await newKey();
  t.not(fresh.key, lost.key);
  t.match(await profile(lost.key), unauthorized);
  t.equal((await profile(fresh.key)).status, 200);
});

rule(
  'A revocation holds from the next request on, which gets a 401, and cannot be undone.',
  async (t) => {
    const hot = `/merchant/apps/${merchant.appId}/subscriptions`;
    for (let round = 0; round < 20; round += 1) {
      const { id, key } = await newKey();
      t.equal((await api.call('GET', hot, { token: key })).status, 200, 'it is known here now');
      const underWay = api.call('GET', hot, { token: key });
      t.equal((await revoke(id)).status, 200);
      t.match(await api.call('GET', hot, { token: key }), unauthorized);
      await underWay;
      t.equal((await revoke(id)).status, 200, 'revoking again changes nothing');
      t.match(await profile(key), unauthorized);
    }
  },
);

rule(
  'A merchant may hold several keys, so that a new one is in use before the old one is revoked.',
  async (t) => {
    const [old, fresh] = [await newKey(), await newKey()];
    t.same([(await profile(old.key)).status, (await profile(fresh.key)).status], [200, 200]);
    await revoke(old.id);
    t.same([(await profile(old.key)).status, (await profile(fresh.key)).status], [401, 200]);
  },
);

rule('Keys have no scopes: each gives the same full access.', async (t) => {
  for (const body of [{ scopes: ['read'] }, { appId: merchant.appId }, { readOnly: true }])
    t.equal(
      (await api.call('POST', '/merchant/api-keys', { token: merchant.token, body })).status,
      400,
    );
  const keys = [await newKey(), await newKey()];
  for (const { key } of keys) {
    const made = await api.call<{ id: string }>('POST', '/merchant/apps', {
      token: key,
      body: { name: 'Any' },
    });
    t.equal(made.status, 201);
    for (const { key: any } of keys) {
      t.equal(
        (
          await api.call('PATCH', `/merchant/apps/${made.body.data.id}`, {
            token: any,
            body: { name: 'Changed' },
          })
        ).status,
        200,
      );
      t.equal(
        (await api.call('GET', `/merchant/apps/${merchant.appId}/plans`, { token: any })).status,
        200,
      );
    }
  }
});

rule(
  'An API key can list, create and update apps; list and create plans; list subscriptions and transactions; create and delete webhook endpoints; export CSV (Pro tier); read analytics; change the profile.',
  async (t) => {
    const { key: token, merchantId } = await api.merchant();
    const created = await api.call<{ id: string }>('POST', '/merchant/apps', {
      token,
      body: { name: 'Tea' },
    });
    const app = `/merchant/apps/${created.body.data.id}`;
    const hook = () =>
      api.call<{ id: string }>('POST', `${app}/webhooks`, {
        token,
        body: { url: 'https://tea.test/' },
      });
    const first = await hook();
    const plan = await api.call('POST', `${app}/plans`, {
      token,
      body: { name: 'Monthly', amount: '1000000', periodHours: 730 },
    });
    const statuses = {
      'create apps': created.status,
      'list apps': (await api.call('GET', '/merchant/apps', { token })).status,
      'update apps': (await api.call('PATCH', app, { token, body: { name: 'Green tea' } })).status,
      'create plans': plan.status,
      'list plans': (await api.call('GET', `${app}/plans`, { token })).status,
      'list subscriptions': (await api.call('GET', `${app}/subscriptions`, { token })).status,
      'list transactions': (await api.call('GET', `${app}/transactions`, { token })).status,
      'create webhook endpoints': first.status,
      'delete webhook endpoints': (
        await api.call('DELETE', `${app}/webhooks/${first.body.data.id}`, { token })
      ).status,
      'view analytics': (await api.call('GET', `${app}/analytics`, { token })).status,
      'modify merchant profile': (
        await api.call('PATCH', '/merchant/profile', { token, body: { name: 'Ada' } })
      ).status,
      'CSV export': (await api.call('GET', `${app}/transactions/export`, { token })).status,
    };
    await api.sql`update merchants set tier = 'pro' where id = ${merchantId}`;
    const pro = (await api.call('GET', `${app}/transactions/export`, { token })).status;
    const ok = Object.fromEntries(
      Object.keys(statuses).map((name) => [name, name.startsWith('create') ? 201 : 200]),
    );
    t.same(
      { ...statuses, 'CSV export, Pro': pro },
      { ...ok, 'CSV export': 403, 'CSV export, Pro': 200 },
    );
  },
);

rule('An API key cannot manage API keys.', async (t) => {
  t.equal(keyOperations.length, 3);
  for (const { method, url } of keyOperations)
    t.match(await call(method, url, { token: merchant.key }), forbidden, `${method} ${url}`);
});

rule('A valid key gets a 403 for what belongs to another merchant.', async (t) => {
  for (const end of [
    '',
    '/plans',
    '/subscriptions',
    '/transactions',
    '/analytics',
    '/webhooks',
    '/events',
    `/subscriptions/${missing}`,
  ]) {
    t.match(
      await api.call('GET', `/merchant/apps/${other.appId}${end}`, { token: merchant.key }),
      forbidden,
      `another's ${end}`,
    );
    t.match(
      await api.call('GET', `/merchant/apps/${missing}${end}`, { token: merchant.key }),
      { status: 404 },
      `nobody's ${end}`,
    );
  }
  t.match(
    await api.call('PATCH', `/merchant/apps/${other.appId}`, {
      token: merchant.key,
      body: { name: 'Mine' },
    }),
    forbidden,
  );
  const hook = { token: merchant.key, body: { url: 'https://shop.test/' } };
  t.match(await api.call('POST', `/merchant/apps/${other.appId}/webhooks`, hook), forbidden);
});
