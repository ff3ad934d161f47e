import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { DEADLINE_MS, WebhookClient, type Answer } from '../../src/webhooks/http.ts';
import { createSsrfGuard, type SsrfGuardOptions } from '../../src/webhooks/ssrf-guard.ts';
import { startNameServer } from '../fixtures/name-server.ts';
import { startReceiver, status } from '../fixtures/receiver.ts';

// The tests that wait for the deadline run side by side.
t.jobs = 8;
const besides = { buffered: true };

function sender(t: Test, options: Partial<SsrfGuardOptions> = {}): WebhookClient {
  const client = new WebhookClient(
    createSsrfGuard({ enabled: false, allow: [], deny: [], nameServers: [], ...options }),
  );
  t.teardown(() => client.close());
  return client;
}

function send(client: WebhookClient, url: string): Promise<Answer> {
  const { origin, pathname } = new URL(url);
  return client.post({ origin, path: pathname, headers: ['x-test', '1'], body: '{}' });
}

/**
 * A server of raw bytes; `onRequest` is called with each request's socket once its body has come.
 */
async function rawServer(
  t: Test,
  onRequest: (socket: Socket) => void,
): Promise<{ url: string; requests: () => number; connections: () => number }> {
  let requests = 0;
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      if (!chunk.toString('latin1').includes('POST ')) return;
      requests += 1;
      onRequest(socket);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    requests: () => requests,
    connections: () => connections,
  };
}

async function httpServer(t: Test, listener: RequestListener): Promise<string> {
  const server = createHttpServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
}

/** Writes one byte each 200 ms until the client disconnects. */
async function drip(
  socket: { write(text: string): boolean; destroyed: boolean },
  text: string,
): Promise<void> {
  for (const letter of text) {
    if (socket.destroyed) return;
    socket.write(letter);
    await delay(200);
  }
}

/**
 * The answer of a request that lasts until its deadline and no longer. Timers run in the order of
 * their times, however late.
 */
async function cutAtDeadline(t: Test, url: string): Promise<Answer> {
  t.equal(DEADLINE_MS, 5000);
  const answered = send(sender(t), url);
  const late = delay(DEADLINE_MS + 1000, 'late' as const, { ref: false });
  const answer = await Promise.race([answered, late]);
  if (answer === 'late') throw new Error('not cut at the deadline');
  t.ok(answer.durationMs >= DEADLINE_MS - 50, `${answer.durationMs} ms`);
  return answer;
}

void t.test('a request without a response after 5 s fails as a timeout', besides, async (t) => {
  const { url } = await rawServer(t, () => undefined);
  t.match(await cutAtDeadline(t, url), {
    httpStatus: null,
    error: 'timeout',
    response: null,
    address: '127.0.0.1',
  });
});

void t.test(
  'a response whose status line arrives one byte per 200 ms is cut at 5 s',
  besides,
  async (t) => {
    const { url } = await rawServer(
      t,
      (socket) => void drip(socket, 'HTTP/1.1 200 OK, but this is much too slow\r\n\r\n'),
    );
    t.match(await cutAtDeadline(t, url), { httpStatus: null, error: 'timeout' });
  },
);

void t.test(
  'the status counts if headers still arrive when the 5 s are over',
  besides,
  async (t) => {
    const { url } = await rawServer(t, (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      void drip(socket, 'x-padding: much too slow to be complete\r\n\r\n');
    });
    t.match(await cutAtDeadline(t, url), { httpStatus: 200, error: null });
  },
);

void t.test(
  'a response whose body arrives one byte per 200 ms is cut at 5 s, and its status counts',
  besides,
  async (t) => {
    const begun = 'x'.repeat(10);
    const { url } = await rawServer(t, (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n${begun}`);
      void drip(socket, 'y'.repeat(990));
    });
    const answer = await cutAtDeadline(t, url);
    t.match(answer, { httpStatus: 200, error: null });
    t.match(answer.response?.toString(), /^x{10}y{0,30}$/);
  },
);

for (const code of [300, 301, 302, 303, 304, 307, 308]) {
  void t.test(
    `status ${code} is a response like any other: Location is never contacted`,
    besides,
    async (t) => {
      const elsewhere = await startReceiver(t);
      const receiver = await startReceiver(t, status(code, { location: elsewhere.url }));
      const answer = await send(sender(t), receiver.url);
      t.match(answer, { httpStatus: code, error: null });
      await delay(50);
      t.equal(elsewhere.connections, 0);
      t.equal(receiver.requests.length, 1);
    },
  );
}

void t.test(
  'the first 4 KiB of a gzip bomb are stored as received, never decompressed',
  besides,
  async (t) => {
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
    const url = await httpServer(t, (request, response) => {
      request.resume();
      response
        .writeHead(200, { 'content-encoding': 'gzip', 'content-length': bomb.length })
        .end(bomb);
    });
    const before = process.memoryUsage().rss;
    const answer = await send(sender(t), url);
    t.equal(answer.httpStatus, 200);
    t.same(answer.response, bomb.subarray(0, 4096));
    t.ok(process.memoryUsage().rss - before < 32 * 1024 * 1024);
  },
);

void t.test(
  'an endless body is read up to 4 KiB, and its connection is ended before the deadline',
  async (t) => {
    // The deadline never comes.
    const { setTimeout: start } = globalThis;
    const endless = (run: (...given: unknown[]) => void, ms: number, ...given: unknown[]) =>
      start(run, ms === DEADLINE_MS ? 2 ** 31 - 1 : ms, ...given);
    t.intercept(globalThis, 'setTimeout', { value: endless });
    let open = 0;
    const url = await httpServer(t, (request, response) => {
      request.resume();
      open += 1;
      response.on('close', () => (open -= 1));
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, 'x')));
        response.once('drain', more);
      };
      more();
    });
    const answer = await send(sender(t), url);
    t.equal(answer.httpStatus, 200);
    t.equal(answer.response?.length, 4096);
    while (open > 0) await delay(5);
  },
);

void t.test('NUL and invalid UTF-8 in a response are stored unchanged', besides, async (t) => {
  const bytes = Buffer.from([0, 0xff, 0xfe, 0xc3, 0x28, 0, 0xed, 0xa0, 0x80]);
  const url = await httpServer(t, (request, response) => {
    request.resume();
    response.writeHead(500).end(bytes);
  });
  t.same((await send(sender(t), url)).response, bytes);
});

void t.test('a request that the server resets is not sent again', besides, async (t) => {
  const server = await rawServer(t, (socket) => socket.resetAndDestroy());
  t.match(await send(sender(t), server.url), { httpStatus: null, error: 'reset' });
  await delay(100);
  t.equal(server.requests(), 1);
  t.equal(server.connections(), 1);
});

void t.test(
  'a request whose connection closes without an answer is not sent again',
  besides,
  async (t) => {
    const server = await rawServer(t, (socket) => socket.end());
    t.match(await send(sender(t), server.url), { httpStatus: null, error: 'reset' });
    await delay(100);
    t.equal(server.requests(), 1);
  },
);

void t.test('a response that is not HTTP is a protocol error', besides, async (t) => {
  const server = await rawServer(t, (socket) => socket.end('220 mail.example ESMTP\r\n'));
  t.match(await send(sender(t), server.url), { httpStatus: null, error: 'protocol' });
});

const lines = (...all: string[]) => `${all.join('\r\n')}\r\n\r\n`;
const bothLengths = ['content-length: 2', 'transfer-encoding: chunked'];
for (const [name, head, httpStatus] of [
  ['Content-Length and chunked', lines('HTTP/1.1 200 OK', ...bothLengths), 200],
  ['two lengths', lines('HTTP/1.1 204 Fine', 'content-length: 2', 'content-length: 3'), 204],
  ['20 KB of headers', lines('HTTP/1.1 200 OK', `x-large: ${'x'.repeat(20_000)}`), 200],
  ['200 KB of headers', lines('HTTP/1.1 200 OK', `x-large: ${'x'.repeat(200_000)}`), 200],
  ['a header that is none', lines('HTTP/1.1 200', 'no header'), 200],
  ['headers that end before they are complete', 'HTTP/1.0 200 OK\r\nx-cut: ', 200],
  ['an error and both lengths', lines('HTTP/1.1 503 Busy', ...bothLengths), 503],
  [
    'an informational answer before both lengths',
    lines('HTTP/1.1 103 Early Hints', 'link: </x>') + lines('HTTP/1.1 201 Made', ...bothLengths),
    201,
  ],
] as const) {
  void t.test(
    `a response whose status line is read ends the connection: ${name}`,
    besides,
    async (t) => {
      const server = await rawServer(t, (socket) => socket.end(`${head}ok`));
      const client = sender(t);
      t.match(await send(client, server.url), { httpStatus, error: null });
      t.match(await send(client, server.url), { httpStatus, error: null });
      t.equal(server.connections(), 2, 'the connection is not used again');
      t.equal(server.requests(), 2);
    },
  );
}

for (const [name, head, error] of [
  ['one that is not complete', 'HTTP/1.1 200 O', 'reset'],
  ['one of another protocol', lines('ICY 200 OK', 'x: y'), 'protocol'],
  ['one with a status of two digits', lines('HTTP/1.1 20 OK', 'x: y'), 'protocol'],
] as const) {
  void t.test(`a response without a valid status line fails: ${name}`, besides, async (t) => {
    const server = await rawServer(t, (socket) => socket.end(head));
    t.match(await send(sender(t), server.url), { httpStatus: null, error, response: null });
  });
}

void t.test(
  'a reused connection that ends after the first byte of an answer causes no second request',
  besides,
  async (t) => {
    let answers = 0;
    const server = await rawServer(t, (socket) => {
      answers += 1;
      if (answers === 1) socket.write('HTTP/1.1 204 No Content\r\n\r\n');
      else socket.end('H');
    });
    const client = sender(t);
    t.match(await send(client, server.url), { httpStatus: 204 });
    t.match(await send(client, server.url), { httpStatus: null, error: 'reset' });
    t.equal(server.connections(), 1);
    t.equal(server.requests(), 2);
  },
);

void t.test('a request is sent on at most two connections', besides, async (t) => {
  let answers = 0;
  const server = await rawServer(t, (socket) => {
    answers += 1;
    if (answers === 1) socket.write('HTTP/1.1 204 No Content\r\n\r\n');
    else socket.resetAndDestroy();
  });
  const client = sender(t);
  t.match(await send(client, server.url), { httpStatus: 204 });
  t.match(await send(client, server.url), { httpStatus: null, error: 'reset' });
  t.match([server.connections(), server.requests()], [2, 3]);
});

void t.test('an informational (1xx) response does not end the request', besides, async (t) => {
  const server = await rawServer(t, (socket) =>
    socket.write('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n'),
  );
  t.match(await send(sender(t), server.url), { httpStatus: 204, error: null });
});

void t.test(
  'a connection is used again after a complete response, and not after a failure',
  besides,
  async (t) => {
    const receiver = await startReceiver(t);
    const client = sender(t);
    await send(client, receiver.url);
    await send(client, receiver.url);
    t.equal(receiver.connections, 1);
    receiver.answer = status(500);
    await send(client, receiver.url);
    receiver.answer = status(200);
    await send(client, receiver.url);
    t.equal(receiver.connections, 2);
  },
);

void t.test(
  'a connection that the server closed while idle is not a failure',
  besides,
  async (t) => {
    const receiver = await startReceiver(t, (response) =>
      response.writeHead(200, { connection: 'close' }).end('ok'),
    );
    const client = sender(t);
    for (let round = 0; round < 5; round += 1)
      t.equal((await send(client, receiver.url)).httpStatus, 200);
    t.equal(receiver.requests.length, 5);
  },
);

void t.test(
  'refused connections and names without an address have different errors',
  besides,
  async (t) => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    t.match(await send(sender(t), `http://127.0.0.1:${port}/`), {
      httpStatus: null,
      error: 'refused',
      address: null,
    });
    const nameServers = [await startNameServer(t, () => undefined)];
    t.match(await send(sender(t, { enabled: true, nameServers }), 'http://missing.example/'), {
      error: 'dns',
    });
  },
);

void t.test('the address guard refuses before any connection is made', besides, async (t) => {
  const receiver = await startReceiver(t);
  const nameServers = [await startNameServer(t, () => ['127.0.0.1'])];
  const client = sender(t, { enabled: true, nameServers });
  t.match(await send(client, receiver.url), { httpStatus: null, error: 'blocked', address: null });
  t.match(await send(client, `http://inside.example:${receiver.port}/`), {
    httpStatus: null,
    error: 'blocked',
  });
  t.match(await send(client, `http://[::ffff:127.0.0.1]:${receiver.port}/`), {
    httpStatus: null,
    error: 'blocked',
  });
  t.equal(receiver.connections, 0);
});

void t.test(
  'each connection resolves the name again and connects only to the checked address',
  besides,
  async (t) => {
    const receiver = await startReceiver(t, (response) =>
      response.writeHead(200, { connection: 'close' }).end(),
    );
    const inside = await startReceiver(t, undefined, { host: '127.0.0.2', port: receiver.port });
    let questions = 0;
    // Says the allowed address first and one inside from then on.
    const zone = () => ((questions += 1) <= 2 ? ['127.0.0.1'] : ['127.0.0.2']);
    const client = sender(t, {
      enabled: true,
      allow: ['127.0.0.1/32'],
      nameServers: [await startNameServer(t, zone)],
    });
    const url = `http://rebound.example:${receiver.port}/hook`;
    t.match(await send(client, url), { httpStatus: 200, address: '127.0.0.1' });
    t.equal(questions, 2, 'one A and one AAAA, nothing afterwards');
    t.match(await send(client, url), { httpStatus: null, error: 'blocked' });
    t.equal(inside.connections, 0);
    t.equal(
      receiver.requests[0]?.headers.host,
      `rebound.example:${receiver.port}`,
      'Host is the name',
    );
  },
);

void t.test(
  'TLS sends the host name as SNI, and an untrusted certificate is refused before the request is sent',
  besides,
  async (t) => {
    const names: string[] = [];
    let received = 0;
    const server = createTlsServer(
      {
        key: await readFile(new URL('../fixtures/tls/leaf.key', import.meta.url)),
        cert: await readFile(new URL('../fixtures/tls/leaf.pem', import.meta.url)),
        SNICallback(name, callback) {
          names.push(name);
          callback(null);
        },
      },
      (socket) => {
        socket.on('error', () => undefined);
        socket.on('data', (chunk: Buffer) => (received += chunk.length));
      },
    ).listen(0, '127.0.0.1');
    server.on('tlsClientError', () => undefined);
    await once(server, 'listening');
    t.teardown(() => server.close());
    const { port } = server.address() as AddressInfo;
    const nameServers = [await startNameServer(t, () => ['127.0.0.1'])];
    const client = sender(t, { enabled: true, allow: ['127.0.0.0/8'], nameServers });
    t.match(await send(client, `https://secure.example:${port}/hook`), {
      httpStatus: null,
      error: 'chain_incomplete',
    });
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    t.teardown(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED);
    t.match(
      await send(client, `https://secure.example:${port}/hook`),
      { httpStatus: null, error: 'chain_incomplete' },
      'whatever the environment says',
    );
    t.same(names, ['secure.example', 'secure.example']);
    t.equal(received, 0);
  },
);
