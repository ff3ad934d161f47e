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
} from '../../../src/http/door/connections.ts';
import { testApi } from '../../fixtures/http.ts';
import { until } from '../../fixtures/webhooks.ts';

const portOf = (server: Server) => (server.address() as AddressInfo).port;

async function client(t: Test, port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  t.teardown(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

void t.test(
  'a connection with too many unanswered requests gets an error and is closed',
  async (t) => {
    const api = await testApi(t);
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const socket = await client(t, portOf(api.app.server));
    socket.write('GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(500));
    const answers = (await text(socket)).match(/HTTP\/1\.1 \d+/g) ?? [];
    t.equal(answers.length, connectionLimits.inHand + 1);
    t.same(new Set(answers.slice(0, -1)), new Set(['HTTP/1.1 200']));
    t.equal(answers.at(-1), 'HTTP/1.1 429');
  },
);

void t.test('consecutive requests on one connection are all answered', async (t) => {
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
    connections.admit(request, response);
    if (request.method === 'GET') Readable.from(Array<Buffer>(parts).fill(part)).pipe(response);
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
  'a client that does not read its response is disconnected; a slow reader is not',
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

/** Sends a request and waits until the server has its head. Only a GET is answered. */
async function use(server: Server, socket: Socket, method = 'GET'): Promise<void> {
  const asked = once(server, 'request');
  socket.write(`${method} / HTTP/1.1\r\nhost: x\r\n\r\n`);
  await asked;
}

const closed = async (socket: Socket) => {
  if (!socket.closed) await once(socket.resume(), 'close');
};

void t.test(
  'at the limit per address, the oldest connection without a request is closed for a new connection',
  async (t) => {
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
  },
);

void t.test(
  'at the limit per address, a connection whose request is incomplete is closed for a new connection',
  async (t) => {
    const { server, refused } = await limited(t, { perAddress: 3 });
    const asked = async (socket: Socket, request: string) => {
      const seen = once(server, 'request');
      socket.write(request);
      await seen;
    };
    const post = 'POST / HTTP/1.1\r\nhost: x\r\n';
    const [silent, length, chunked, other] = [
      await clientOf(t, server),
      await clientOf(t, server),
      await clientOf(t, server),
      await clientOf(t, server, '127.0.0.2'),
    ] as const;
    await asked(length, `${post}content-length: 100\r\n\r\n{`);
    await asked(chunked, `${post}transfer-encoding: chunked\r\n\r\n1\r\n{\r\n`);
    for (const oldest of [silent, length, chunked]) {
      const next = await clientOf(t, server);
      await closed(oldest);
      await asked(next, `${post}content-length: 1\r\n\r\n{`);
    }
    t.equal(refused.length, 3);
    // The three whole bodies are in work.
    await closed(await clientOf(t, server));
    t.notOk(other.destroyed);
  },
);

void t.test(
  'at the process limit, a connection whose response is not read is closed for a new connection',
  async (t) => {
    const { server } = await limited(t, { connections: 2 });
    const opened = once(server, 'connection') as Promise<[Socket]>;
    const unread = await clientOf(t, server);
    const [held] = await opened;
    await use(server, unread);
    await use(server, await clientOf(t, server), 'PUT');
    await until(() => Promise.resolve(held.writableLength > 0));
    await use(server, await clientOf(t, server), 'PUT');
    await closed(unread);
  },
);

void t.test('if every connection has a request in progress, the new one is closed', async (t) => {
  const { server, refused } = await limited(t, { perAddress: 2 });
  const busy = [await clientOf(t, server), await clientOf(t, server)];
  for (const socket of busy) await use(server, socket, 'PUT');
  await closed(await clientOf(t, server));
  t.same(refused, ['address 127.0.0.1']);
  t.notOk(busy.some(({ destroyed }) => destroyed));
  await use(server, await clientOf(t, server, '127.0.0.2'));
});

void t.test(
  'a trusted proxy may open more connections than an address, but not all of the process',
  async (t) => {
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
  },
);

void t.test(
  'a request for an unknown route is answered without reading its body, then the connection is closed',
  async (t) => {
    const api = await testApi(t);
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    for (const [route, status] of [
      ['POST /x', 404],
      ['POST /merchant/nothing', 404],
      ['PUT /merchant/apps/x', 405],
      ['POST /healthz', 405],
    ] as const) {
      const socket = await client(t, portOf(api.app.server));
      socket.write(`${route} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{`);
      t.match(await text(socket), new RegExp(`^HTTP/1.1 ${status}[^]*\r\nconnection: close\r\n`));
    }
  },
);

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
