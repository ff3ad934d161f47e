// Forms of one host and port.
import { pino } from 'pino';
import t from 'tap';
import { createRpc } from '../../../src/chain/rpc/client.ts';

for (const urls of [
  ['https://rpc.example.com/one', 'https://RPC.Example.com:443/two'],
  ['http://[::1]:8899', 'http://[0:0:0:0:0:0:0:1]:8899/key'],
  ['http://127.0.0.1:8899', 'http://127.1:8899'],
  ['https://rpc.example.com', 'https://rpc.example.com.'],
  ['http://127.0.0.1:8899', 'http://[::ffff:127.0.0.1]:8899'],
])
  void t.test(urls.join(' and '), async (t) => {
    const rpc = createRpc({ urls, log: pino({ enabled: false }), probeMs: Infinity });
    t.equal(rpc.endpoints(), 1, 'one witness');
    await rpc.close();
  });
