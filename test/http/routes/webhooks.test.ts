// docs/contract.md, Webhook endpoint: one per app, secret once, ping.
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { sendPing } from '../../../src/webhooks/ping.ts';
import { createSsrfGuard } from '../../../src/webhooks/ssrf-guard.ts';
import { testApi } from '../../fixtures/http.ts';
import { insertEvent, insertPlan, insertSubscription } from '../../fixtures/rows.ts';
import { finishDeliveries } from '../../fixtures/webhooks.ts';

interface Endpoint {
  id: string;
  url: string;
  secret: string;
}
const url = 'https://shop.test/hooks';

void t.test(
  'an app has at most one endpoint; an endpoint created after its deletion has another secret',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const path = `/merchant/apps/${merchant.appId}/webhooks`;
    const post = () => api.call<Endpoint>('POST', path, { token: merchant.key, body: { url } });
    const first = await post();
    t.match(first, { status: 201, body: { data: { url, appId: merchant.appId } } });
    t.match(await post(), { status: 409, body: { error: { code: 'CONFLICT' } } });
    const all = await Promise.all([post(), post(), post()]);
    t.same(
      all.map(({ status }) => status),
      [409, 409, 409],
    );
    t.equal(
      (await api.call('DELETE', `${path}/${first.body.data.id}`, { token: merchant.key })).status,
      200,
    );
    t.same((await api.call('GET', path, { token: merchant.key })).body.data, []);
    t.equal(
      (await api.call('GET', `${path}/${first.body.data.id}`, { token: merchant.key })).status,
      404,
    );
    t.equal(
      (await api.call('DELETE', `${path}/${first.body.data.id}`, { token: merchant.key })).status,
      404,
    );
    for (const query of ['limit=0', 'cursor=x', 'page=2'])
      t.match(await api.call('GET', `${path}?${query}`, { token: merchant.key }), {
        status: 400,
        body: { error: { code: 'VALIDATION_ERROR' } },
      });
    t.equal((await api.call('GET', `${path}?limit=100`, { token: merchant.key })).status, 200);
    const raced = await Promise.all([post(), post(), post()]);
    t.same(raced.map(({ status }) => status).sort(), [201, 409, 409]);
    t.not(raced.find(({ status }) => status === 201)!.body.data.secret, first.body.data.secret);
  },
);

void t.test(
  'extraEvents are stored and shown; unknown, standard and repeated types are refused',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const path = `/merchant/apps/${merchant.appId}/webhooks`;
    const post = (extraEvents?: unknown) =>
      api.call<Endpoint>('POST', path, { token: merchant.key, body: { url, extraEvents } });
    for (const bad of [['nothing'], ['payment_success'], 'renewal_upcoming', null])
      t.match(await post(bad), { status: 400, body: { error: { code: 'VALIDATION_ERROR' } } });
    t.match(await post(['renewal_upcoming', 'renewal_upcoming']), { status: 400 });
    const first = await post();
    t.match(first, { status: 201, body: { data: { extraEvents: [] } } });
    await api.call('DELETE', `${path}/${first.body.data.id}`, { token: merchant.key });
    const extraEvents = ['renewal_upcoming', 'refund_recorded'];
    const { body } = await post(extraEvents);
    t.match(body.data, { extraEvents });
    t.match(await api.call('GET', `${path}/${body.data.id}`, { token: merchant.key }), {
      body: { data: { extraEvents } },
    });
  },
);

void t.test(
  'a webhook secret is whsec_ and 32 bytes, is shown once, and is stored encrypted',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const path = `/merchant/apps/${merchant.appId}/webhooks`;
    const { body } = await api.call<Endpoint>('POST', path, { token: merchant.key, body: { url } });
    t.match(body.data.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    for (const later of [path, `${path}/${body.data.id}`])
      t.notOk((await api.call('GET', later, { token: merchant.key })).text.includes('whsec_'));
    const [row] = await api.sql<{ secret: Buffer }[]>`select secret from webhook_endpoints`;
    t.notOk(row!.secret.toString('latin1').includes(body.data.secret.slice(6)));
    t.equal(api.deps.secretBox.open(row!.secret, body.data.id), body.data.secret);
  },
);

void t.test(
  'production requires HTTPS and refuses an address inside a private network',
  async (t) => {
    const guard = createSsrfGuard({ enabled: true, allow: [], deny: [], nameServers: [] });
    const api = await testApi(t, {
      environment: 'production',
      checkWebhookHost: (hostname) => guard.checkLiteral(hostname),
    });
    const merchant = await api.merchant();
    const post = (target: unknown) =>
      api.call('POST', `/merchant/apps/${merchant.appId}/webhooks`, {
        token: merchant.key,
        body: { url: target },
      });
    const bad = [
      'http://shop.test/',
      'ftp://shop.test/',
      '//shop.test',
      'shop.test',
      '',
      'https://',
      'javascript:alert(1)',
      `https://a.test/${'x'.repeat(2100)}`,
      5,
      null,
      'https://user:pass@shop.test/',
      'https://a.test/\0',
      ' https://a.test/',
      'https://a.te\nst/',
      'https://a.test/\u2028',
      'https://127.0.0.1/',
      'https://10.1.2.3/',
      'https://[::1]/',
      'https://[::ffff:10.0.0.1]/',
      'https://169.254.169.254/',
      'https://2130706433/',
      'https://0x7f.1/',
      'https://shop.test:22/',
      'https://shop.test:1023/',
      'https://shop.test:0/',
      'https://shop.test:00/hooks',
      // 2,000 characters that become 3 each.
      `https://shop.test/${'"'.repeat(2000)}`,
    ];
    for (const target of bad)
      t.match(
        await post(target),
        { status: 400, body: { error: { code: 'VALIDATION_ERROR', details: [{ path: 'url' }] } } },
        String(target).slice(0, 60),
      );
    t.equal((await post('https://shop.test:8443/hooks?a=b')).status, 201);
  },
);

for (const [given, called] of [
  ['HTTPS://Shop.Test:443/a/../hooks#part', 'https://shop.test/hooks'],
  ['https://shop.test', 'https://shop.test/'],
  ['https://shop.test:8443/b%20c?d=é', 'https://shop.test:8443/b%20c?d=%C3%A9'],
  ['https://bücher.test/?', 'https://xn--bcher-kva.test/'],
  ['https://0x8.8.8.8/', 'https://8.8.8.8/'],
] as const) {
  void t.test(`the webhook URL ${given} is stored as it is called: ${called}`, async (t) => {
    const api = await testApi(t);
    const { appId, key } = await api.merchant();
    const path = `/merchant/apps/${appId}/webhooks`;
    const made = await api.call<Endpoint>('POST', path, { token: key, body: { url: given } });
    t.match(made, { status: 201, body: { data: { url: called } } });
    t.match(await api.call('GET', path, { token: key }), { body: { data: [{ url: called }] } });
  });
}

void t.test('the error about port 0 names the allowed ports', async (t) => {
  const api = await testApi(t);
  const { appId, key } = await api.merchant();
  const body = { url: 'https://shop.test:0/' };
  t.match(await api.call('POST', `/merchant/apps/${appId}/webhooks`, { token: key, body }), {
    status: 400,
    body: { error: { details: [{ path: 'url', message: /port from 1 to 65535/ }] } },
  });
});

void t.test('deleting an endpoint cancels its pending deliveries', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const path = `/merchant/apps/${merchant.appId}/webhooks`;
  const { body } = await api.call<Endpoint>('POST', path, { token: merchant.key, body: { url } });
  const subscription = await insertSubscription(api.sql, {
    appId: merchant.appId,
    planId: await insertPlan(api.sql, merchant),
  });
  for (let n = 0; n < 3; n += 1) await insertEvent(api.sql, subscription);
  const [first] = await api.sql<
    { id: string }[]
  >`select id from delivery_queue order by id limit 1`;
  await finishDeliveries(api.sql, 'delivered', { ids: [first!.id] });
  await api.call('DELETE', `${path}/${body.data.id}`, { token: merchant.key });
  const rows = await api.sql<{ status: string }[]>`select status from all_deliveries order by id`;
  t.same(
    rows.map(({ status }) => status),
    ['delivered', 'cancelled', 'cancelled'],
  );
});

void t.test(
  'POST test sends one signed ping immediately and returns the endpoint’s response',
  async (t) => {
    const received: { headers: IncomingHttpHeaders; body: string }[] = [];
    const server = createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (text: string) => (body += text));
      request.on('end', () => {
        received.push({ headers: request.headers, body });
        response.writeHead(418).end('short and stout');
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    const config = {
      webhookGuard: false,
      webhookAllowCidrs: [],
      webhookDenyCidrs: [],
      webhookNameServers: [],
    };
    const api = await testApi(t, { ping: (target) => sendPing({ config, ...target }) });
    const merchant = await api.merchant();
    const path = `/merchant/apps/${merchant.appId}/webhooks`;
    const { port } = server.address() as AddressInfo;
    const { body } = await api.call<Endpoint>('POST', path, {
      token: merchant.key,
      body: { url: `http://127.0.0.1:${port}/hook?x=1` },
    });
    const answer = await api.call('POST', `${path}/${body.data.id}/test`, {
      token: merchant.key,
      headers: { 'content-type': 'application/json' },
    });
    t.match(answer, {
      status: 200,
      body: { data: { status: 418, error: null, response: 'short and stout' } },
    });
    t.equal(received.length, 1);
    const [{ headers, body: sent }] = received as [{ headers: IncomingHttpHeaders; body: string }];
    t.match(JSON.parse(sent), {
      type: 'ping',
      data: { appId: merchant.appId, webhookId: body.data.id },
    });
    const expected = createHmac('sha256', body.data.secret)
      .update(`${String(headers['x-service-timestamp'])}.${sent}`)
      .digest('hex');
    t.equal(headers['x-service-signature'], `sha256=${expected}`);
    server.close();
    server.closeAllConnections();
    t.match(await api.call('POST', `${path}/${body.data.id}/test`, { token: merchant.key }), {
      status: 200,
      body: { data: { status: null, error: String } },
    });
  },
);
