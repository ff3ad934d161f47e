// Limits of the connections and requests of one client, over real sockets.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { connectionLimits, watchConnections } from '../../src/http/connections.ts';
import { testApi } from '../fixtures/http.ts';

const portOf = (server: Server) => (server.address() as AddressInfo).port;

async function client(t: Test, port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  t.teardown(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

void t.test('a connection with too many unanswered requests is refused and closed', async (t) => {
  const api = await testApi(t);
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  const socket = await client(t, portOf(api.app.server));
  socket.write('GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(500));
  const answers = (await text(socket)).match(/HTTP\/1\.1 \d+/g) ?? [];
  t.equal(answers.length, connectionLimits.inHand + 1);
  t.same(new Set(answers.slice(0, -1)), new Set(['HTTP/1.1 200']));
  t.equal(answers.at(-1), 'HTTP/1.1 429');
});

void t.test('requests one after the other on one connection are all answered', async (t) => {
  const api = await testApi(t);
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  const socket = await client(t, portOf(api.app.server));
  for (let n = 0; n < connectionLimits.inHand * 3; n += 1) {
    socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
    const [answer] = (await once(socket, 'data')) as [Buffer];
    t.match(answer.toString(), /^HTTP\/1\.1 200/);
  }
});

/** More than the kernel's buffers of a loopback connection hold. */
const [part, parts] = [Buffer.alloc(64 * 1024), 512];

async function limited(t: Test, limits: Partial<typeof connectionLimits>): Promise<Server> {
  const server = createServer((_request, response) => {
    Readable.from(Array<Buffer>(parts).fill(part)).pipe(response);
  });
  watchConnections(server, { ...connectionLimits, ...limits });
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

void t.test(
  'a client that does not read its answer is cut off; one that reads is not',
  async (t) => {
    const server = await limited(t, { checkMs: 200, bytesPerCheck: 1024 });
    const cut = new Promise<void>((resolve) => {
      server.on('connection', (socket: Socket) => {
        const { remotePort } = socket;
        socket.once('close', () => {
          if (remotePort === slow.localPort) resolve();
        });
      });
    });
    const idle = await client(t, portOf(server));
    const reader = await client(t, portOf(server));
    const slow = connect(portOf(server), '127.0.0.1').on('error', () => undefined);
    t.teardown(() => slow.destroy());
    for (const socket of [slow, reader]) socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    let bytes = 0;
    const whole = new Promise<void>((resolve) => {
      reader.on('data', (data) => {
        bytes += data.length;
        if (bytes > parts * part.length) resolve();
      });
    });
    await Promise.all([cut, whole]);
    t.notOk(idle.destroyed, 'a connection without an answer to read stays');
    t.notOk(reader.destroyed);
  },
);

void t.test('connections over the limit are closed, and others can be opened again', async (t) => {
  const server = await limited(t, { connections: 2 });
  const open = [await client(t, portOf(server)), await client(t, portOf(server))];
  const refused = await client(t, portOf(server));
  refused.resume();
  await once(refused, 'close');
  t.notOk(open.some(({ destroyed }) => destroyed));
});
