import t from 'tap';
import { customHeaders, flatHeaders } from '../../../src/domain/outbox/headers.ts';

const judged = (headers: Record<string, string>) =>
  customHeaders(headers, (name, rule) => {
    throw new Error(`${name} ${rule}`);
  });

void t.test('custom header names are stored in lower case', (t) => {
  const headers = judged({ 'X-Gateway-Key': 'a b\tc', Authorization: 'Basic eDp5', cookie: 'a=b' });
  t.same(flatHeaders(headers), [
    'x-gateway-key',
    'a b\tc',
    'authorization',
    'Basic eDp5',
    'cookie',
    'a=b',
  ]);
  t.same(
    flatHeaders(judged(JSON.parse('{"constructor":"a","__proto__":"b","toString":"c"}') as never)),
    ['constructor', 'a', '__proto__', 'b', 'tostring', 'c'],
    'names that every object has',
  );
  t.end();
});

void t.test('reserved headers, connection headers and malformed headers are refused', (t) => {
  for (const name of [
    'Content-Type',
    'content-length',
    'Content-Encoding',
    'Host',
    'Connection',
    'Keep-Alive',
    'Transfer-Encoding',
    'TE',
    'Trailer',
    'Upgrade',
    'Expect',
    'Proxy-Authorization',
    'proxy-connection',
    'User-Agent',
    'webhook-id',
    'Webhook-Signature',
    'X-Service-Signature',
    'x-service-anything',
  ])
    t.throws(
      () => judged({ [name]: 'x' }),
      /is a header of the service or of the connection/,
      name,
    );
  for (const name of ['', 'a b', 'a:b', 'ä', 'a\r\nb', 'x'.repeat(101), '__proto__ '])
    t.throws(() => judged({ [name]: 'x' }), /must be the name of an HTTP header/, name);
  for (const value of ['', ' ', ' a', 'a ', 'a\r\nb: c', 'a\nb', 'a\0', 'ä', 'x'.repeat(1001)])
    t.throws(() => judged({ a: value }), /must be 1 to 1000 visible ASCII/, value);
  t.throws(() => judged({ a: '1', A: '2' }), /A is given twice/);
  t.end();
});
