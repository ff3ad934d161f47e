import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { createConnections } from '../../src/dispatch/connections.ts';
import { createDeadlines } from '../../src/dispatch/deadlines.ts';
import { createGuard } from '../../src/dispatch/guard.ts';
import { deadlineMs, post, type Answer } from '../../src/dispatch/post.ts';

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';

/** A server that answers each request with `answer`, and a way to send to it. */
async function pair(
  t: Test,
  answer = ok,
): Promise<{ sockets: Socket[]; requests: () => number; send: () => Promise<Answer>; close: () => void }> {
  const sockets: Socket[] = [];
  let requests = 0;
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      requests += chunk.toString('latin1').split('POST ').length - 1;
      socket.write(answer);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connections = createConnections(createGuard({ enabled: false, allow: [], nameServers: [] }), deadlineMs);
  const deadlines = createDeadlines(deadlineMs);
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  t.teardown(() => {
    connections.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    sockets,
    requests: () => requests,
    send: () =>
      new Promise((resolve) => post({ connections, deadlines }, { origin, path: '/' }, ['x-test', '1'], Buffer.from('{}'), resolve)),
    close: () => connections.close(),
  };
}

void t.test('a connection that was closed just before it is used again is replaced, and the request is sent once', async (t) => {
  const { sockets, requests, send } = await pair(t);
  t.match(await send(), { httpStatus: 200 });
  await delay(20);
  sockets[0]?.destroy();
  t.match(await send(), { httpStatus: 200, address: '127.0.0.1' });
  t.equal(sockets.length, 2);
  t.equal(requests(), 2);
});

void t.test('one that was closed while the request was under way fails it, and nothing is sent again', async (t) => {
  const { sockets, requests, send } = await pair(t, '');
  const answer = send();
  while (requests() === 0) await delay(5);
  sockets[0]?.destroy();
  t.match(await answer, { httpStatus: null, error: 'reset' });
  await delay(50);
  t.equal(requests(), 1);
  t.equal(sockets.length, 1);
});

void t.test('bytes that nobody asked for end an idle connection, and are no answer to the next request', async (t) => {
  const { sockets, send } = await pair(t);
  t.match(await send(), { httpStatus: 200 });
  const [first] = sockets;
  const closed = first === undefined ? undefined : once(first, 'close');
  first?.write('HTTP/1.1 500 Not asked for\r\ncontent-length: 0\r\n\r\n');
  await closed;
  t.match(await send(), { httpStatus: 200 });
  t.equal(sockets.length, 2);
});

void t.test('two answers at once are one answer, and the connection is not used again', async (t) => {
  const { sockets, send } = await pair(t, ok + ok);
  t.match(await send(), { httpStatus: 200 });
  t.match(await send(), { httpStatus: 200 });
  t.equal(sockets.length, 2);
});

void t.test('requests side by side have a connection each; closing ends the idle ones', async (t) => {
  const { sockets, send, close } = await pair(t);
  const answers = await Promise.all([send(), send(), send()]);
  t.ok(answers.every(({ httpStatus }) => httpStatus === 200));
  t.equal(sockets.length, 3);
  await Promise.all([send(), send()]);
  t.equal(sockets.length, 3, 'they are used again');
  const closed = Promise.all(sockets.map((socket) => once(socket, 'close')));
  close();
  await closed;
});
