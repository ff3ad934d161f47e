import { createHmac } from 'node:crypto';
import t from 'tap';
import { startMerchantServer } from '../../../src/local/sandbox/merchant-server.ts';

const secret = 'whsec_c2VjcmV0';
const body = JSON.stringify({ id: 'event-1', type: 'payment_success', data: {} });

const post = async (
  url: string,
  text: string,
  { at = Date.now() / 1000, key = secret, signed = text } = {},
) => {
  const timestamp = String(Math.floor(at));
  const signature = `sha256=${createHmac('sha256', key).update(`${timestamp}.${signed}`).digest('hex')}`;
  const response = await fetch(url, {
    method: 'POST',
    body: text,
    headers: { 'x-service-timestamp': timestamp, 'x-service-signature': signature },
  });
  return response.status;
};

void t.test(
  "the merchants' server refuses another secret, a changed byte and an old timestamp, and stores each event once",
  async (t) => {
    const server = await startMerchantServer();
    t.teardown(() => server.close());
    server.setSecret(0, secret);
    const url = server.urlFor(0);
    t.equal(await post(url, body, { key: 'whsec_other' }), 401);
    t.equal(await post(url, body, { signed: `${body} ` }), 401);
    t.equal(await post(url, body, { at: Date.now() / 1000 - 302 }), 401);
    t.equal(server.events.size, 0);
    t.equal(await post(url, body), 204);
    t.equal(await post(url, body), 204);
    t.same([...server.events.values()], [{ id: 'event-1', type: 'payment_success', body }]);
    t.equal(server.refused(), 3);
    t.equal(server.altered(), 0);
    t.equal(await post(url, body.replace('success', 'failed')), 204);
    t.equal(server.altered(), 1, 'the same id with other bytes is noticed');
  },
);

void t.test(
  "the merchants' server returns 503 and stores no event while it is set to fail",
  async (t) => {
    const server = await startMerchantServer();
    t.teardown(() => server.close());
    server.setSecret(2, secret);
    server.setFailing(2, true);
    t.equal(await post(server.urlFor(2), body), 503);
    t.equal(server.events.size, 0);
    server.setFailing(2, false);
    t.equal(await post(server.urlFor(2), body), 204);
  },
);
