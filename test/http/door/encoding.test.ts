// What cannot be read as sent is refused and never stored in another form: bytes that are not
// UTF-8, compressed bodies, days that do not exist.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { testApi } from '../../fixtures/http.ts';
import { png } from '../../fixtures/images.ts';

const refused = (message: RegExp) => ({
  status: 400,
  body: { success: false, data: null, error: { code: 'VALIDATION_ERROR', message } },
});

void t.test('a body that is not UTF-8 is refused, and nothing is stored', async (t) => {
  const api = await testApi(t);
  const { token } = await api.signIn('merchant');
  const create = (name: Buffer) =>
    api.call<{ name: string }>('POST', '/merchant/apps', {
      token,
      payload: Buffer.concat([Buffer.from('{"name":"a'), name, Buffer.from('"}')]),
      headers: { 'content-type': 'application/json' },
    });
  for (const bytes of ['fffe', 'c3', 'c080', 'eda080', 'f8888080'])
    t.match(await create(Buffer.from(bytes, 'hex')), refused(/body is not valid UTF-8/), bytes);
  t.match(await api.call('GET', '/merchant/apps', { token }), { body: { data: [] } });
  t.match(await create(Buffer.from('é💶')), { status: 201, body: { data: { name: 'aé💶' } } });
});

void t.test('a compressed request body is refused with the reason', async (t) => {
  const api = await testApi(t);
  const { token } = await api.signIn('merchant');
  const create = (encoding: string, payload: Buffer) =>
    api.call('POST', '/merchant/apps', {
      token,
      payload,
      headers: { 'content-type': 'application/json', 'content-encoding': encoding },
    });
  const body = Buffer.from('{"name":"x"}');
  for (const encoding of ['gzip', 'br', 'deflate', 'zstd', 'identity, gzip', 'nonsense'])
    for (const payload of [body, gzipSync(body)])
      t.match(await create(encoding, payload), refused(/Content-Encoding is not supported/));
  t.equal((await create('identity', body)).status, 201);

  // A body that is not JSON.
  const merchant = await api.merchant();
  const store = (encoding: string, payload: Buffer) =>
    api.call('POST', `/merchant/apps/${merchant.appId}/logo`, {
      token: merchant.token,
      payload,
      headers: { 'content-type': 'image/png', 'content-encoding': encoding },
    });
  const image = png(8);
  for (const encoding of ['gzip', 'br'])
    for (const payload of [image, gzipSync(image)])
      t.match(await store(encoding, payload), refused(/Content-Encoding is not supported/));
  t.equal((await store('identity', image)).status, 200);
});

void t.test(
  'a query parameter that is not percent-encoded UTF-8 is refused by its name',
  async (t) => {
    const api = await testApi(t);
    const { key: token, appId } = await api.merchant();
    const path = `/merchant/apps/${appId}/subscriptions`;
    for (const value of ['%ff%fe', '%c3', '%ed%a0%80', '100%', '%zz'])
      t.match(await api.call('GET', `${path}?limit=5&externalId=${value}`, { token }), {
        ...refused(/^externalId must be percent-encoded UTF-8/),
        body: { error: { details: [{ path: 'externalId' }] } },
      });
    t.match(await api.call('GET', `${path}?%ff=1`, { token }), refused(/^The query must be/));
    t.equal((await api.call('GET', `${path}?externalId=%c3%a9`, { token })).status, 200);

    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const socket = connect((api.app.server.address() as AddressInfo).port, '127.0.0.1');
    await once(socket, 'connect');
    socket.write(`GET ${path}?externalId=é HTTP/1.1\r\nhost: x\r\nconnection: close\r\n`);
    socket.write(`authorization: Bearer ${token}\r\n\r\n`);
    t.match(await text(socket), /^HTTP\/1\.1 400 [^]*VALIDATION_ERROR/, 'bytes as they are');
  },
);

void t.test('a date that does not exist is refused with the name of the field', async (t) => {
  const api = await testApi(t);
  const { key: token, appId } = await api.merchant();
  const plan = (endsAt: string) =>
    api.call('POST', `/merchant/apps/${appId}/plans`, {
      token,
      body: { name: 'P', amount: '1000000', periodHours: 24, endsAt },
    });
  for (const day of [
    '2027-02-29',
    '2027-02-31T00:00:00Z',
    '2028-02-30',
    '2027-04-31T23:00+02:00',
  ]) {
    t.match(await plan(day), refused(/^endsAt must be .* the day must exist/), day);
    t.match(
      await api.call('GET', `/merchant/transactions?since=${encodeURIComponent(day)}`, { token }),
      refused(/^since must be .* the day must exist/),
      day,
    );
  }
  t.equal(
    (await api.call('GET', '/merchant/transactions?since=2028-02-29T24:00:00Z', { token })).status,
    200,
  );
});
