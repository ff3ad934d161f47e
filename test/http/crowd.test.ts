// One client's silent connections and hundreds of waiting requests leave a serve process to others.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { clientAt, crowdMerchants, openPolls, openSilent } from '../fixtures/crowd.ts';
import { startServe } from '../fixtures/serve.ts';

void t.test(
  '2,000 silent connections and 500 long polls do not delay other requests and /healthz',
  async (t) => {
    const { port, sql } = await startServe(t);
    const merchants = await crowdMerchants(sql, 508);
    const { key, path } = merchants.pop()!;
    const close = await openSilent(port, 2000);
    const polls = await openPolls(port, merchants, 504);
    t.teardown(() => {
      polls.close();
      close();
    });
    // On a slow machine some polls have ended before the last one is asked.
    const refused = polls.answers.map(async (answer) => {
      const { status } = await answer;
      if (status !== 429) throw new Error(`answered ${status}`);
      return status;
    });
    t.equal(await Promise.any(refused), 429, 'a quarter may wait, no more');

    const clients = ['127.0.0.1', '127.0.0.2'].map((address) => clientAt(port, address));
    for (const client of clients) {
      for (let n = 0; n < 20; n += 1) t.equal((await client.get('/healthz')).status, 200);
      t.equal((await client.get(path, key)).status, 200, 'a request that does not wait');
      client.close();
    }
  },
);

void t.test('2,000 unfinished bodies do not delay other requests and /healthz', async (t) => {
  const { port } = await startServe(t);
  const head = 'HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100';
  const sockets = await Promise.all(
    Array.from({ length: 2000 }, async (_, n) => {
      const route = n % 4 === 0 ? '/x' : '/auth/verify';
      const localAddress = `127.0.3.${(n % 40) + 1}`;
      const socket = connect({ port, host: '127.0.0.1', localAddress });
      socket.on('error', () => undefined).write(`POST ${route} ${head}\r\n\r\n{`);
      await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
      return socket;
    }),
  );
  t.teardown(() => sockets.forEach((socket) => socket.destroy()));
  for (let n = 0; n < 20; n += 1) await open(t, port, `127.0.0.${n + 2}`);
});

/** Sends a request over the connection; resolves with the status line. */
async function ask(socket: Socket): Promise<string> {
  socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 203.0.113.7\r\n\r\n');
  const [answer] = (await once(socket, 'data')) as [Buffer];
  return answer.toString().split('\r\n')[0] ?? '';
}

/** A connection from `localAddress` that has had an answer. */
async function open(t: Test, port: number, localAddress: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => undefined);
  t.teardown(() => socket.destroy());
  t.equal(await ask(socket), 'HTTP/1.1 200 OK');
  return socket;
}

void t.test('a trusted proxy may open more connections than any other address', async (t) => {
  const { port } = await startServe(t, { TRUST_PROXY: '127.0.0.1', CONNECTIONS_PER_ADDRESS: '3' });
  const proxied: Socket[] = [];
  for (let n = 0; n < 10; n += 1) proxied.push(await open(t, port, '127.0.0.1'));
  const direct: Socket[] = [];
  for (let n = 0; n < 3; n += 1) direct.push(await open(t, port, '127.0.0.2'));
  for (const oldest of direct.splice(0, 2)) {
    const closed = once(oldest, 'close');
    direct.push(await open(t, port, '127.0.0.2'));
    await closed;
  }
  for (const socket of [...proxied, ...direct]) t.equal(await ask(socket), 'HTTP/1.1 200 OK');
});
