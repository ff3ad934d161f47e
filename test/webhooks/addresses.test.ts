import t, { type Test } from 'tap';
import { WebhookClient } from '../../src/webhooks/http.ts';
import { createSsrfGuard } from '../../src/webhooks/ssrf-guard.ts';
import { startDeaf } from '../fixtures/deaf.ts';
import { startNameServer } from '../fixtures/name-server.ts';
import { startReceiver } from '../fixtures/receiver.ts';

async function post(t: Test, port: number, addresses: readonly string[]) {
  const allow = ['127.0.0.0/8', '2001:db8::/32'];
  const nameServers = [await startNameServer(t, () => addresses)];
  const client = new WebhookClient(
    createSsrfGuard({ enabled: true, allow, deny: [], nameServers }),
  );
  t.teardown(() => client.close());
  const origin = `http://receiver.example:${port}`;
  return client.post({ origin, path: '/', headers: [], body: '{}' });
}

void t.test(
  'a connection attempt to an address gets two seconds before the next address is tried',
  async (t) => {
    const receiver = await startReceiver(t);
    const deaf = await startDeaf(t, receiver.port);
    await startReceiver(t, undefined, { host: '127.0.0.2', port: deaf.port });
    const answer = await post(t, deaf.port, ['127.0.0.1', '127.0.0.2']);
    t.match(answer, { httpStatus: 200, address: '127.0.0.2' });
    t.ok(answer.durationMs >= 1950, `${answer.durationMs} ms`);
  },
);

// 2001:db8::/32 is for documentation and has no route (RFC 3849).
void t.test(
  'a delivery succeeds despite one lost SYN and an unreachable IPv6 address',
  async (t) => {
    const receiver = await startReceiver(t);
    const deaf = await startDeaf(t, receiver.port);
    const answered = post(t, deaf.port, ['2001:db8::1', '127.0.0.1']);
    await deaf.lost();
    deaf.resume();
    t.match(await answered, { httpStatus: 200, address: '127.0.0.1' });
  },
);
