// URLs of one host and port are one witness, in whatever form they name the host.
import { pino } from 'pino';
import t from 'tap';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { hostOf } from '../../../src/chain/rpc/hosts.ts';

for (const urls of [
  ['https://rpc.example.com/one', 'https://RPC.Example.com:443/two'],
  ['https://rpc.example.com', 'http://rpc.example.com:443'],
  ['https://rpc.example.com', 'https://rpc.example.com.'],
  ['http://[2001:db8::1]:8899', 'http://[2001:db8:0:0:0:0:0:1]:8899/key'],
  ['http://192.0.2.7:8899', 'http://[::ffff:192.0.2.7]:8899'],
  ['http://127.0.0.1:8899', 'http://127.1:8899', 'http://[::ffff:127.0.0.1]:8899'],
  ['http://127.0.0.1:8899', 'http://localhost:8899', 'http://[::1]:8899', 'http://0.0.0.0:8899'],
])
  void t.test(`${urls.join(' and ')} count as the same host`, async (t) => {
    const rpc = createRpc({ urls, log: pino({ enabled: false }), probeMs: Infinity });
    t.equal(rpc.endpoints(), 1);
    await rpc.close();
  });

void t.test('URLs with different names, addresses or ports count as different hosts', (t) => {
  const urls = [
    ...['https://a.example.com', 'https://b.example.com', 'https://a.example.com:8899'],
    ...['http://192.0.2.7', 'http://192.0.2.8', 'http://[2001:db8::1]', 'http://127.0.0.1:8899'],
  ];
  t.equal(new Set(urls.map((url) => hostOf(new URL(url)))).size, urls.length);
  t.end();
});
