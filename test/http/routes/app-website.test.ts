// The proof of an app's website: /.well-known/billing.json names the app, read from a real server
// through the webhook guard.
import t, { type Test } from 'tap';
import { readSmallFile } from '../../../src/webhooks/small-file.ts';
import { testApi } from '../../fixtures/http.ts';
import { type Answer, type Receiver, startReceiver } from '../../fixtures/receiver.ts';
import { insertPlan } from '../../fixtures/rows.ts';

interface App {
  websiteUrl: string | null;
  websiteProvenAt: string | null;
}

const open = {
  webhookGuard: false,
  webhookAllowCidrs: [],
  webhookDenyCidrs: [],
  webhookNameServers: [],
};

async function shop(t: Test, respond: Answer, config = open) {
  const receiver: Receiver = await startReceiver(t, (...given) => respond(...given));
  const api = await testApi(t, { readSmallFile: (file) => readSmallFile(config, file) });
  const merchant = await api.merchant();
  const path = `/merchant/apps/${merchant.appId}`;
  const change = (body: object) =>
    api.call<App>('PATCH', path, { token: merchant.key, body }).then(({ body }) => body.data);
  const { origin } = new URL(receiver.url);
  await change({ websiteUrl: `${origin}/shop?a=1` });
  const prove = () => api.call<App>('POST', `${path}/website/verify`, { token: merchant.key });
  return { api, receiver, origin, change, prove, ...merchant };
}

void t.test('a website that names the app is verified until it is changed', async (t) => {
  let ids: unknown;
  const own = await shop(t, (response) => response.end(JSON.stringify({ appId: ids })));
  const planId = await insertPlan(own.api.sql, own);
  const shown = async () =>
    (await own.api.call<{ websiteProven: boolean }>('GET', `/plans/${planId}`)).body.data
      .websiteProven;
  t.equal(await shown(), false);
  for (ids of [own.appId, ['another', own.appId]]) {
    const proven = await own.prove();
    t.match(proven, { status: 200, body: { data: { websiteProvenAt: String } } });
    t.equal(await shown(), true);
    t.match(await own.change({ name: 'Tea' }), { websiteProvenAt: String }, 'another field');
    const same = { websiteUrl: `${own.origin}/shop?a=1` };
    t.match(await own.change(same), { websiteProvenAt: String }, 'the same website');
    t.match(await own.change({ websiteUrl: 'http://other.test/' }), { websiteProvenAt: null });
    t.equal(await shown(), false);
    await own.change(same);
  }
  const [request] = own.receiver.requests;
  t.match(request, { method: 'GET', path: '/.well-known/billing.json' });
  await own.prove();
  t.match(await own.change({ websiteUrl: null }), { websiteUrl: null, websiteProvenAt: null });
  t.match(await own.prove(), { status: 409, body: { error: { message: /no websiteUrl/ } } });
});

void t.test(
  'a website that does not name the app is not verified, and the error gives the reason',
  async (t) => {
    let respond: Answer = (response) => response.end();
    const own = await shop(t, (...given) => respond(...given));
    const body =
      (text: string): Answer =>
      (response) =>
        response.end(text);
    const answers: [Answer, RegExp][] = [
      [(response) => response.writeHead(404).end(), /answered 404, not 200/],
      [
        (response) =>
          response.writeHead(302, { location: '/proof.json' }).end(`{"appId":"${own.appId}"}`),
        /answered 302.*redirects are not followed/,
      ],
      [body('<!doctype html>'), /must be JSON/],
      [body('null'), /must be JSON/],
      [body('{}'), /must be JSON/],
      [body('{"appId":"another"}'), /is not/],
      [body(`{"appId":"${own.appId}","more":"${'x'.repeat(5000)}"}`), /at most 4 KiB/],
      [(response) => response.destroy(), /could not be read: reset/],
    ];
    for (const [answer, message] of answers) {
      respond = answer;
      t.match(
        await own.prove(),
        { status: 409, body: { error: { code: 'CONFLICT', message } } },
        String(message),
      );
    }
  },
);

void t.test(
  'a website check obeys the address rules of webhooks, and only the app’s merchant can request it',
  async (t) => {
    const own = await shop(t, (response) => response.end(), { ...open, webhookGuard: true });
    t.match(await own.prove(), { status: 409, body: { error: { message: /blocked/ } } });
    t.equal(own.receiver.requests.length, 0);
    const other = await own.api.merchant();
    const path = `/merchant/apps/${own.appId}/website/verify`;
    t.equal((await own.api.call('POST', path, { token: other.key })).status, 403);
  },
);

void t.test('in production only an https website can be verified', async (t) => {
  const api = await testApi(t, { environment: 'production' });
  const { token } = await api.signIn('merchant');
  const body = { name: 'Coffee', websiteUrl: 'http://coffee.example' };
  const made = await api.call<{ id: string }>('POST', '/merchant/apps', { token, body });
  t.match(await api.call('POST', `/merchant/apps/${made.body.data.id}/website/verify`, { token }), {
    status: 409,
    body: { error: { message: /https/ } },
  });
});
