// Apps and the profile.
import t from 'tap';
import { testApi } from '../../fixtures/http.ts';

interface App {
  id: string;
  name: string;
  [field: string]: unknown;
}

void t.test(
  'apps are created, listed newest first, read and changed; null clears a field',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.signIn('merchant');
    const body = {
      name: 'Coffee',
      description: 'Beans',
      websiteUrl: 'https://coffee.test/',
      supportEmail: 'help@coffee.test',
      supportUrl: 'https://coffee.test/help',
      termsUrl: 'https://coffee.test/terms',
      privacyUrl: 'https://coffee.test/privacy',
    };
    const created = await api.call<App>('POST', '/merchant/apps', { token, body });
    t.match(created, { status: 201, body: { data: body } });
    const path = `/merchant/apps/${created.body.data.id}`;
    t.same((await api.call('GET', path, { token })).body.data, created.body.data);
    const second = await api.call<App>('POST', '/merchant/apps', { token, body: { name: 'Tea' } });
    t.match(second.body.data, {
      description: null,
      websiteUrl: null,
      supportEmail: null,
      supportUrl: null,
      termsUrl: null,
      privacyUrl: null,
      websiteProvenAt: null,
      logoUrl: null,
    });
    t.same((await api.call<App[]>('GET', '/merchant/apps', { token })).body.data, [
      second.body.data,
      created.body.data,
    ]);
    const cleared = { description: null, supportEmail: null, termsUrl: null };
    const changed = await api.call<App>('PATCH', path, { token, body: cleared });
    t.match(changed.body.data, { ...body, ...cleared });
    t.match(
      (await api.call('PATCH', path, { token, body: { name: 'Cocoa', websiteUrl: null } })).body
        .data,
      {
        name: 'Cocoa',
        websiteUrl: null,
      },
    );
  },
);

void t.test('another merchant’s app cannot be listed, read or changed', async (t) => {
  const api = await testApi(t);
  const [mine, other] = [await api.merchant(), await api.merchant()];
  t.same(
    (await api.call<App[]>('GET', '/merchant/apps', { token: mine.key })).body.data.map(
      ({ id }) => id,
    ),
    [mine.appId],
  );
  for (const method of ['GET', 'PATCH'] as const) {
    const answer = await api.call(method, `/merchant/apps/${other.appId}`, {
      token: mine.key,
      body: method === 'PATCH' ? { name: 'Mine' } : undefined,
    });
    t.match(answer, { status: 403, body: { error: { code: 'FORBIDDEN' } } });
  }
  t.match(
    (await api.call('GET', `/merchant/apps/${other.appId}`, { token: other.key })).body.data,
    { name: 'Coffee' },
  );
});

void t.test('invalid fields get VALIDATION_ERROR with their names', async (t) => {
  const api = await testApi(t);
  const { token, appId } = await api.merchant();
  const cases: [string, unknown][] = [
    ['name', ''],
    ['name', null],
    ['name', 'x'.repeat(121)],
    ['description', 5],
    ['description', 'x'.repeat(2001)],
    ['description', 'a\0'],
    ['websiteUrl', 'ftp://a.test'],
    ['websiteUrl', 'coffee.test'],
    ['websiteUrl', 'https://coffee.test/a b'],
    ['websiteUrl', `https://a.test/${'x'.repeat(2048)}`],
    ['supportEmail', 'help'],
    ['supportUrl', 'javascript:alert(1)'],
    ['termsUrl', '/terms'],
    ['privacyUrl', 'data:text/html,x'],
    ['logoUrl', 'https://coffee.test/logo.png'],
    ['websiteProvenAt', '2026-01-01T00:00:00.000Z'],
    ['merchantId', appId],
    ['id', appId],
  ];
  for (const [path, value] of cases) {
    const refused = {
      status: 400,
      body: { error: { code: 'VALIDATION_ERROR', details: [{ path }] } },
    };
    t.match(
      await api.call('POST', '/merchant/apps', { token, body: { name: 'x', [path]: value } }),
      refused,
      `${path} ${String(value).slice(0, 20)}`,
    );
    t.match(
      await api.call('PATCH', `/merchant/apps/${appId}`, { token, body: { [path]: value } }),
      refused,
    );
  }
  t.match(
    await api.call('POST', '/merchant/apps', { token }),
    { status: 400 },
    'a body is asked for',
  );
});

void t.test(
  'the merchant can change its name and email but not tier and wallet; rule 9: also with an API key',
  async (t) => {
    const api = await testApi(t);
    const { token, key, wallet } = await api.merchant();
    const patch = (body: unknown) => api.call('PATCH', '/merchant/profile', { token: key, body });
    t.match(await patch({ name: 'Zoë', email: 'zoe@coffee.test' }), {
      status: 200,
      body: { data: { name: 'Zoë', email: 'zoe@coffee.test', wallet, tier: 'free' } },
    });
    t.match(await patch({ email: null }), {
      status: 200,
      body: { data: { name: 'Zoë', email: null } },
    });
    for (const path of ['tier', 'wallet', 'id', 'createdAt', 'feeBps']) {
      t.match(await patch({ [path]: 'pro' }), {
        status: 400,
        body: { error: { details: [{ path }] } },
      });
    }
    for (const email of ['x', 'a@b', `${'a'.repeat(250)}@b.test`, 'a b@c.test', 'a@b.test\n'])
      t.equal((await patch({ email })).status, 400, email.slice(0, 20));
    t.match((await api.call('GET', '/merchant/profile', { token })).body.data, {
      tier: 'free',
      name: 'Zoë',
    });
  },
);

void t.test('production refuses returnOrigins and links that are not https', async (t) => {
  const api = await testApi(t, { environment: 'production' });
  const { token } = await api.signIn('merchant');
  const create = (returnOrigins: string[]) =>
    api.call<App>('POST', '/merchant/apps', { token, body: { name: 'Coffee', returnOrigins } });
  const refused = (at: number) => ({
    status: 400,
    body: {
      error: {
        code: 'VALIDATION_ERROR',
        details: [{ path: `returnOrigins.${at}`, message: /https:\/\/ origin in production/ }],
      },
    },
  });
  t.match(await create(['https://a.example', 'http://b.example']), refused(1));
  t.match(await create(['http://localhost:3000']), refused(0));
  const made = await create(['https://a.example']);
  t.equal(made.status, 201);
  const change = (returnOrigins: string[]) =>
    api.call('PATCH', `/merchant/apps/${made.body.data.id}`, { token, body: { returnOrigins } });
  t.match(await change(['http://a.example']), refused(0));
  t.equal((await change([])).status, 200);
  for (const field of ['supportUrl', 'termsUrl', 'privacyUrl']) {
    const body = { [field]: 'http://coffee.example/' };
    t.match(
      await api.call('PATCH', `/merchant/apps/${made.body.data.id}`, { token, body }),
      { status: 400, body: { error: { details: [{ path: field, message: /https:\/\/ URL/ }] } } },
      field,
    );
  }
  const development = await testApi(t);
  const other = await development.signIn('merchant');
  const body = { name: 'Coffee', returnOrigins: ['http://localhost:3000'] };
  t.equal(
    (await development.call('POST', '/merchant/apps', { token: other.token, body })).status,
    201,
  );
});
