// Limits of the connections and requests of one client, over real sockets.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import {
  connectionLimits,
  type ConnectionOptions,
  Connections,
} from '../../src/http/connections.ts';
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

async function limited(
  t: Test,
  limits: Partial<ConnectionOptions>,
): Promise<{ server: Server; connections: Connections; refused: string[] }> {
  const refused: string[] = [];
  const server = createServer((request, response) => {
    connections.admit(request.socket, response);
    Readable.from(Array<Buffer>(parts).fill(part)).pipe(response);
  });
  const connections = new Connections(server, {
    ...connectionLimits,
    perAddress: 2000,
    isTrusted: () => false,
    onRefused: (limit, peer) => refused.push(`${limit} ${peer ?? ''}`),
    ...limits,
  });
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, connections, refused };
}

void t.test(
  'a client that does not read its answer is cut off; one that reads is not',
  async (t) => {
    const { server } = await limited(t, { checkMs: 200, bytesPerCheck: 1024 });
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

/** A client of an address of its own: all of 127.0.0.0/8 is this machine. */
async function clientOf(t: Test, server: Server, localAddress = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port: portOf(server), host: '127.0.0.1', localAddress });
  socket.on('error', () => undefined);
  t.teardown(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** Sends a request and waits for its first bytes. */
async function use(server: Server, socket: Socket): Promise<void> {
  const asked = once(server, 'request');
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  await asked;
}

const closed = async (socket: Socket) => {
  if (!socket.closed) await once(socket.resume(), 'close');
};

void t.test('at the limit of an address the oldest silent connection makes place', async (t) => {
  const { server, refused } = await limited(t, { perAddress: 3 });
  const busy = await clientOf(t, server);
  await use(server, busy);
  const silent = [await clientOf(t, server), await clientOf(t, server)] as const;
  const other = await clientOf(t, server, '127.0.0.2');
  const next = await clientOf(t, server);
  await closed(silent[0]);
  await use(server, next);
  t.same(refused, ['address 127.0.0.1']);
  for (const socket of [busy, silent[1], other, next]) t.notOk(socket.destroyed);
});

void t.test('where every connection has a request in hand, the new one is closed', async (t) => {
  const { server, refused } = await limited(t, { perAddress: 2 });
  const busy = [await clientOf(t, server), await clientOf(t, server)];
  for (const socket of busy) await use(server, socket);
  await closed(await clientOf(t, server));
  t.same(refused, ['address 127.0.0.1']);
  t.notOk(busy.some(({ destroyed }) => destroyed));
  await use(server, await clientOf(t, server, '127.0.0.2'));
});

void t.test('a trusted proxy may hold more than an address, not more than all', async (t) => {
  const { server, refused } = await limited(t, {
    perAddress: 1,
    connections: 3,
    isTrusted: (address) => address === '127.0.0.3',
  });
  const first = await clientOf(t, server, '127.0.0.3');
  for (let n = 0; n < 2; n += 1) await clientOf(t, server, '127.0.0.3');
  t.same(refused, []);
  const other = await clientOf(t, server, '127.0.0.2');
  await closed(first);
  await use(server, other);
  t.same(refused, ['process 127.0.0.2']);
});

void t.test('a quarter of the connections may wait, half of those of an address', async (t) => {
  const { server, connections } = await limited(t, { connections: 12, perAddress: 4 });
  const sockets: Socket[] = [];
  server.on('connection', (socket: Socket) => sockets.push(socket));
  for (const address of ['127.0.0.1', '127.0.0.2']) await clientOf(t, server, address);
  await use(server, await clientOf(t, server, '127.0.0.2'));
  const [one, two] = sockets as [Socket, Socket];
  const leave = connections.wait(one)!;
  t.ok(connections.wait(one));
  t.notOk(connections.wait(one), 'half of the address');
  t.ok(connections.wait(two));
  t.notOk(connections.wait(two), 'a quarter of all');
  leave();
  t.ok(connections.wait(two));
});

void t.test('a connection without a complete request head is closed after 10 s', async (t) => {
  const api = await testApi(t);
  const { server } = api.app;
  t.equal(server.headersTimeout, 10_000);
  server.headersTimeout = 200;
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  const cut = (begin: string) => {
    // A client that never closes its side does not stay either.
    const socket = connect({ port: portOf(server), host: '127.0.0.1', allowHalfOpen: true });
    t.teardown(() => socket.destroy());
    const gone = once(server, 'connection').then(([held]) => once(held as Socket, 'close'));
    socket.resume().write(begin);
    return gone;
  };
  await cut('');
  await cut('GET / HTTP/1.1\r\nhost: x\r\n');
});
