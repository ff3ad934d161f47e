// docs/contract.md, Authentication: the callers allowed on each route, and the order of the checks.
import { createSecretKey, randomUUID } from 'node:crypto';
import { SignJWT, UnsecuredJWT } from 'jose';
import t from 'tap';
import { generateKey } from '../../../src/domain/accounts/keys.ts';
import { jwtSecret, publicUrl, testApi } from '../../fixtures/http.ts';

const missing = '01999999-0000-7000-8000-000000000000';
const merchantRoutes = [
  ['GET', '/merchant/profile'],
  ['PATCH', '/merchant/profile'],
  ['GET', '/merchant/apps'],
  ['POST', '/merchant/apps'],
  ['GET', `/merchant/apps/${missing}`],
  ['GET', `/merchant/apps/${missing}/plans`],
  ['POST', `/merchant/apps/${missing}/plans`],
  ['GET', `/merchant/apps/${missing}/subscriptions`],
  ['GET', `/merchant/apps/${missing}/transactions`],
  ['GET', `/merchant/apps/${missing}/transactions/export`],
  ['GET', `/merchant/apps/${missing}/analytics`],
  ['GET', `/merchant/apps/${missing}/webhooks`],
  ['POST', `/merchant/apps/${missing}/webhooks`],
  ['GET', `/merchant/apps/${missing}/events`],
] as const;
const walletRoutes = [
  ['GET', '/merchant/api-keys'],
  ['POST', '/merchant/api-keys'],
  ['DELETE', `/merchant/api-keys/${missing}`],
] as const;
const subscriberRoutes = [
  ['GET', '/subscriber/subscriptions'],
  ['POST', '/subscriber/subscriptions'],
  ['GET', `/subscriber/subscriptions/${missing}`],
  ['GET', `/subscriber/subscriptions/${missing}/transactions`],
  ['POST', `/subscriber/subscriptions/${missing}/cancel`],
  ['GET', `/subscriber/plans/${missing}`],
  ['POST', `/subscriber/plans/${missing}/subscribe`],
] as const;
const unauthorized = {
  status: 401,
  body: { success: false, data: null, error: { code: 'UNAUTHORIZED' } },
};
const forbidden = {
  status: 403,
  body: { success: false, data: null, error: { code: 'FORBIDDEN' } },
};

void t.test(
  'every endpoint except sign-in responds 401 without credentials or with wrong credentials',
  async (t) => {
    const api = await testApi(t);
    for (const [method, url] of [...merchantRoutes, ...walletRoutes, ...subscriberRoutes]) {
      t.match(await api.call(method, url), unauthorized, `${method} ${url} without a header`);
      for (const authorization of [
        '',
        'Bearer',
        'Bearer ',
        'Basic abc',
        'Bearer nonsense',
        'Bearer sk_test_nonsense',
        'Bearer a.b.c',
        'Bearer sk_',
      ]) {
        t.match(
          await api.call(method, url, { headers: { authorization } }),
          unauthorized,
          `${method} ${url} with "${authorization}"`,
        );
      }
    }
    t.equal((await api.call('GET', '/merchant/profile')).headers['www-authenticate'], 'Bearer');
  },
);

void t.test(
  'rules 1 and 2: merchants on subscriber endpoints, and subscribers on merchant endpoints, get 403',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const subscriber = await api.signIn('subscriber');
    for (const [method, url] of [...merchantRoutes, ...walletRoutes]) {
      t.match(
        await api.call(method, url, { token: subscriber.token }),
        forbidden,
        `a subscriber on ${method} ${url}`,
      );
    }
    for (const [method, url] of subscriberRoutes) {
      t.match(
        await api.call(method, url, { token: merchant.token }),
        forbidden,
        `a merchant on ${method} ${url}`,
      );
      t.match(
        await api.call(method, url, { token: merchant.key }),
        forbidden,
        `an API key on ${method} ${url}`,
      );
    }
  },
);

void t.test(
  'rule 3: an API key gets 403 on endpoints that manage keys, and a revoked key gets 401 even there',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    for (const [method, url] of walletRoutes)
      t.match(await api.call(method, url, { token: merchant.key }), forbidden, `${method} ${url}`);
    await api.sql`update api_keys set revoked_at = now()`;
    for (const [method, url] of walletRoutes)
      t.match(
        await api.call(method, url, { token: merchant.key }),
        unauthorized,
        `${method} ${url}`,
      );
  },
);

void t.test(
  'rule 10: a valid key gets 403 on another merchant’s app and 404 on an app that does not exist',
  async (t) => {
    const api = await testApi(t);
    const [mine, other] = [await api.merchant(), await api.merchant()];
    const paths = [
      '',
      '/plans',
      '/subscriptions',
      '/subscriptions?status=active',
      '/transactions',
      '/analytics',
      '/webhooks',
      '/events',
    ];
    for (const path of paths) {
      for (const token of [mine.key, mine.token]) {
        t.match(
          await api.call('GET', `/merchant/apps/${other.appId}${path}`, { token }),
          forbidden,
          `another’s app${path}`,
        );
        const gone = { status: 404, body: { error: { code: 'NOT_FOUND' } } };
        t.match(
          await api.call('GET', `/merchant/apps/${missing}${path}`, { token }),
          gone,
          `no app${path}`,
        );
        for (const malformed of [
          'x',
          '0',
          missing.toUpperCase().replace('01', 'AB'),
          `${missing}0`,
          '%00',
          '%F0%9F%92%A9',
          '..%2f..',
        ]) {
          t.match(
            await api.call('GET', `/merchant/apps/${malformed}${path}`, { token }),
            gone,
            `a malformed id ${malformed}${path}`,
          );
        }
        t.equal(
          (await api.call('GET', `/merchant/apps/${mine.appId}${path}`, { token })).status,
          200,
          `my app${path}`,
        );
      }
    }
  },
);

void t.test('rule 5: the next request with a revoked key gets 401, despite caches', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const hot = `/merchant/apps/${merchant.appId}/subscriptions?limit=20`;
  for (let round = 0; round < 50; round += 1) {
    const { body } = await api.call<{ id: string; key: string }>('POST', '/merchant/api-keys', {
      token: merchant.token,
    });
    const { id, key } = body.data;
    t.equal((await api.call('GET', hot, { token: key })).status, 200);
    t.equal((await api.call('GET', hot, { token: key })).status, 200, 'now it is known here');
    t.equal(
      (await api.call('DELETE', `/merchant/api-keys/${id}`, { token: merchant.token })).status,
      200,
    );
    const answers = await Promise.all(
      [hot, '/merchant/profile', `${hot}&status=active`].map((url) =>
        api.call('GET', url, { token: key }),
      ),
    );
    for (const answer of answers) t.match(answer, unauthorized);
  }
});

void t.test('an API key of the development environment gets 401 in production', async (t) => {
  const api = await testApi(t, { environment: 'production' });
  const merchant = await api.merchant();
  t.match(merchant.key, /^sk_live_/);
  t.equal((await api.call('GET', '/merchant/profile', { token: merchant.key })).status, 200);
  const test = generateKey('development');
  await api.sql`insert into api_keys (merchant_id, prefix, hash) values (${merchant.merchantId}, ${test.prefix}, ${test.hash})`;
  t.match(await api.call('GET', '/merchant/profile', { token: test.key }), unauthorized);
});

void t.test(
  'a JWT with a wrong algorithm, issuer, audience or role, or an expired JWT, gets 401',
  async (t) => {
    const api = await testApi(t);
    const { wallet, token } = await api.signIn('merchant');
    const key = createSecretKey(jwtSecret, 'utf8');
    const now = Math.floor(Date.now() / 1000);
    const claims = {
      iss: publicUrl,
      aud: publicUrl,
      sub: wallet,
      role: 'merchant',
      iat: now,
      exp: now + 600,
      jti: randomUUID(),
    };
    const sign = (
      changes: Record<string, string | number | undefined>,
      alg = 'HS256',
      secret = key,
    ) =>
      new SignJWT(
        Object.fromEntries(
          Object.entries<string | number | undefined>({ ...claims, ...changes }).filter(
            ([, value]) => value !== undefined,
          ),
        ),
      )
        .setProtectedHeader({ alg })
        .sign(secret);
    const get = (bearer: string) => api.call('GET', '/merchant/profile', { token: bearer });

    t.equal((await get(token)).status, 200);
    t.equal((await get(await sign({}))).status, 200, 'the claims as they should be');
    const wrong: [string, string][] = [
      ['HS512', await sign({}, 'HS512')],
      ['none', new UnsecuredJWT(claims).encode()],
      [
        'another secret',
        await sign({}, 'HS256', createSecretKey('another secret of thirty-two bytes', 'utf8')),
      ],
      ['another issuer', await sign({ iss: 'http://evil.test' })],
      ['another audience', await sign({ aud: 'http://evil.test' })],
      ['no audience', await sign({ aud: undefined })],
      ['another role', await sign({ role: 'admin' })],
      ['no role', await sign({ role: undefined })],
      ['no subject', await sign({ sub: undefined })],
      ['no expiry', await sign({ exp: undefined })],
      ['expired', await sign({ exp: now - 1 })],
      [
        'a wallet that never signed in',
        await sign({ sub: '9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDSGYdLVL9zYtAWWM' }),
      ],
      [
        'a changed payload',
        token.replace(/\.(.)/, (_, first: string) => `.${first === 'e' ? 'f' : 'e'}`),
      ],
      ['a cut signature', token.slice(0, -2)],
    ];
    for (const [what, bearer] of wrong) t.match(await get(bearer), unauthorized, what);
  },
);

void t.test('with several JWT secrets, the first one signs and all verify', async (t) => {
  const newer = 'a newer JWT secret of 32 bytes...';
  const api = await testApi(t, { jwtSecrets: [newer, jwtSecret] });
  const { wallet, token } = await api.signIn('merchant');
  const claims = {
    iss: publicUrl,
    aud: publicUrl,
    sub: wallet,
    role: 'merchant',
    iat: 1,
    exp: 4_000_000_000,
    jti: 'x',
  };
  const older = await new SignJWT(claims)
    .setProtectedHeader({ alg: 'HS256' })
    .sign(createSecretKey(jwtSecret, 'utf8'));
  t.equal((await api.call('GET', '/merchant/profile', { token: older })).status, 200);
  t.equal((await api.call('GET', '/merchant/profile', { token })).status, 200);
  const onlyOlder = await testApi(t);
  t.equal(
    (await onlyOlder.call('GET', '/merchant/profile', { token })).status,
    401,
    'the newest secret signed it',
  );
});

void t.test(
  'a request is checked for credentials, role, input, existence and ownership, in this order',
  async (t) => {
    const api = await testApi(t);
    const [mine, other] = [await api.merchant(), await api.merchant()];
    const subscriber = await api.signIn('subscriber');
    const bad = { body: { nonsense: 1 } };
    t.equal(
      (await api.call('POST', `/merchant/apps/${other.appId}/webhooks`, bad)).status,
      401,
      'credentials before all',
    );
    t.equal(
      (
        await api.call('POST', `/merchant/apps/${other.appId}/webhooks`, {
          ...bad,
          token: subscriber.token,
        })
      ).status,
      403,
      'then the role',
    );
    t.equal(
      (await api.call('POST', `/merchant/apps/${missing}/webhooks`, { ...bad, token: mine.key }))
        .status,
      400,
      'then the input',
    );
    t.equal(
      (await api.call('POST', `/merchant/apps/malformed/webhooks`, { ...bad, token: mine.key }))
        .status,
      400,
      'also of a malformed id',
    );
    t.equal(
      (await api.call('GET', `/merchant/apps/malformed/subscriptions?x=1`, { token: mine.key }))
        .status,
      400,
    );
    const good = { body: { url: 'https://a.test/' }, token: mine.key };
    t.equal(
      (await api.call('POST', `/merchant/apps/${missing}/webhooks`, good)).status,
      404,
      'then existence',
    );
    t.equal(
      (await api.call('POST', `/merchant/apps/${other.appId}/webhooks`, good)).status,
      403,
      'then ownership',
    );
    await api.sql`update api_keys set revoked_at = now()`;
    t.equal(
      (await api.call('GET', `/merchant/apps/${mine.appId}/subscriptions?x=1`, { token: mine.key }))
        .status,
      401,
      'a known key, since revoked',
    );
    t.equal(
      (await api.call('GET', `/merchant/apps/malformed/subscriptions`, { token: mine.key })).status,
      401,
    );
  },
);

void t.test(
  'rule 4: a key is shown once, and no key, secret or token appears in a log',
  async (t) => {
    const { pino } = await import('pino');
    const lines: string[] = [];
    const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
    const api = await testApi(t, { log });
    const merchant = await api.merchant();
    const hook = await api.call<{ secret: string }>(
      'POST',
      `/merchant/apps/${merchant.appId}/webhooks`,
      {
        token: merchant.key,
        body: { url: 'https://a.test/' },
      },
    );
    await api.call('GET', '/merchant/profile', { token: `${merchant.key}x` });
    await api.call('GET', `/merchant/apps/${merchant.appId}/events?cursor=x`, {
      token: merchant.token,
    });
    const listed = await api.call('GET', '/merchant/api-keys', { token: merchant.token });
    const endpoints = await api.call('GET', `/merchant/apps/${merchant.appId}/webhooks`, {
      token: merchant.token,
    });
    t.ok(lines.length > 5);
    for (const secret of [merchant.key, merchant.token, hook.body.data.secret, jwtSecret]) {
      for (const text of [lines.join(''), listed.text, endpoints.text])
        t.notOk(text.includes(secret));
    }
  },
);
