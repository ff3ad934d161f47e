import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { WebhookClient } from '../../src/webhooks/http.ts';
import { createSsrfGuard } from '../../src/webhooks/ssrf-guard.ts';
import { startNameServer } from '../fixtures/name-server.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { until } from '../fixtures/webhooks.ts';

const server = `
  require('node:http')
    .createServer((request, response) => request.resume().on('end', () => response.end('ok')))
    .listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () {
      console.log(this.address().port);
    });
`;

/**
 * A receiver on 127.0.0.1 that is stopped, with a full queue of connections: the kernel drops each
 * further SYN until `resume` is called.
 */
async function startDeaf(t: Test): Promise<{ port: number; resume: () => void }> {
  const child = spawn(process.execPath, ['-e', server], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const port = Number(line.toString());
  child.kill('SIGSTOP');
  await until(async () => /\) T /.test(await readFile(`/proc/${child.pid}/stat`, 'latin1')));
  // A queue holds one connection more than its backlog.
  for (let queued = 0; queued < 2; queued += 1) {
    const socket = connect(port, '127.0.0.1');
    t.teardown(() => socket.destroy());
    await once(socket, 'connect');
  }
  return { port, resume: () => child.kill('SIGCONT') };
}

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

void t.test('an address has two seconds before the next one is tried', async (t) => {
  const deaf = await startDeaf(t);
  await startReceiver(t, undefined, { host: '127.0.0.2', port: deaf.port });
  const answer = await post(t, deaf.port, ['127.0.0.1', '127.0.0.2']);
  t.match(answer, { httpStatus: 200, address: '127.0.0.2' });
  t.ok(answer.durationMs >= 1950, `${answer.durationMs} ms`);
});
