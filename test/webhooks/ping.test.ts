import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { generateWebhookSecret } from '../../src/domain/outbox/endpoints.ts';
import { sendPing } from '../../src/webhooks/ping.ts';
import { startReceiver, status } from '../fixtures/receiver.ts';

const open = {
  webhookGuard: false,
  webhookAllowCidrs: [],
  webhookDenyCidrs: [],
  webhookNameServers: [],
};
const secret = generateWebhookSecret();
const ping = (url: string, config = open) =>
  sendPing({ config, appId: 'an app', webhookId: 'a webhook', url, secret });

void t.test('a ping is signed like a delivery and returns the endpoint’s response', async (t) => {
  const receiver = await startReceiver(t, (response) =>
    response.writeHead(201).end(Buffer.from([0x6f, 0x6b, 0xff])),
  );
  t.match(await ping(receiver.url), {
    status: 201,
    error: null,
    response: 'ok\ufffd',
    durationMs: Number,
  });
  const [request] = receiver.requests;
  t.match(JSON.parse(request?.body.toString() ?? ''), {
    id: String,
    type: 'ping',
    createdAt: String,
    data: { appId: 'an app', webhookId: 'a webhook' },
  });
  if (request !== undefined)
    t.doesNotThrow(() =>
      new Webhook(secret).verify(request.body, request.headers as Record<string, string>),
    );
});

void t.test(
  'a refusal, a missing server and a guarded address are results, not errors',
  async (t) => {
    const receiver = await startReceiver(t, status(500));
    t.match(await ping(receiver.url), { status: 500, error: null, response: '' });
    t.match(await ping('http://127.0.0.1:1/'), { status: null, error: 'refused', response: null });
    t.match(await ping(receiver.url, { ...open, webhookGuard: true }), {
      status: null,
      error: 'blocked',
      response: null,
    });
    t.equal(receiver.requests.length, 1);
  },
);

void t.test('a ping is signed with the given time, not with this process’s clock', async (t) => {
  const receiver = await startReceiver(t, status(200));
  const now = Date.UTC(2020, 0, 1);
  await sendPing({ config: open, appId: 'a', webhookId: 'w', url: receiver.url, secret, now });
  t.match(receiver.requests[0]?.headers, {
    'webhook-timestamp': String(now / 1000),
    'x-service-timestamp': String(now / 1000),
  });
});
