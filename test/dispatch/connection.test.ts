// One connection by itself, on a real socket. As they are used: connections.test.ts, post.test.ts.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { Connection } from '../../src/dispatch/connection.ts';

/** A connection that is made when the test says so, what it told, and its other side. */
async function made(t: Test) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const told: string[] = [];
  const exchange = {
    onBytes: (bytes: Buffer) => told.push(`bytes ${bytes.toString()}`),
    onEnd: () => told.push('end'),
    onError: (error: Error) => told.push(`error ${(error as NodeJS.ErrnoException).code}`),
  };
  const connection = new Connection(
    'http://example',
    () => told.push('connect'),
    () => told.push('gone'),
  );
  const open = async () => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    t.teardown(() => socket.destroy());
    await once(socket, 'connect');
    socket.on('data', (bytes: Buffer) => connection.received(bytes));
    connection.connected(socket);
    return socket;
  };
  const other = async (place = 0) => {
    while (sockets[place] === undefined) await new Promise(setImmediate);
    return sockets[place];
  };
  const until = async (last: string) => {
    while (told.at(-1) !== last) await new Promise(setImmediate);
  };
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { connection, exchange, told, open, other, until };
}

void t.test('what is sent before the connection is made goes out once it is, and the answer is heard', async (t) => {
  const { connection, exchange, told, open, other, until } = await made(t);
  connection.send(Buffer.from('request'), exchange);
  await open();
  t.equal(connection.address, '127.0.0.1');
  const peer = await other();
  t.equal(String((await once(peer, 'data'))[0]), 'request');
  peer.write('answer');
  await until('bytes answer');
  t.ok(connection.rest(), 'it can carry another');
  connection.send(Buffer.from('again'), exchange);
  t.equal(String((await once(peer, 'data'))[0]), 'again');
  peer.end('last');
  await until('end');
  t.same(told, ['bytes answer', 'bytes last', 'end']);
});

void t.test('bytes that nobody asked for end one that is idle', async (t) => {
  const { connection, told, open } = await made(t);
  const socket = await open();
  t.ok(connection.rest());
  connection.received(Buffer.from('unasked'));
  t.ok(socket.destroyed);
  t.notOk(connection.rest());
  t.same(told, ['gone']);
});

void t.test('lost before anything was sent on it for this request: made anew, and no failure', async (t) => {
  const { connection, exchange, told, open, other } = await made(t);
  await open();
  t.ok(connection.rest());
  // After a rest, what it may have been told meanwhile is heard first.
  await new Promise((resolve) => setTimeout(resolve, 5));
  connection.send(Buffer.from('request'), exchange);
  connection.received(Buffer.from('unasked'));
  t.same(told, ['connect']);
  await open();
  t.equal(String((await once(await other(1), 'data'))[0]), 'request', 'once, on the new one');
  t.same(told, ['connect']);
});

void t.test('lost after the request went out: it failed, and nothing is sent again', async (t) => {
  const { connection, exchange, told, open, other, until } = await made(t);
  connection.send(Buffer.from('request'), exchange);
  await open();
  const peer = await other();
  await once(peer, 'data');
  peer.resetAndDestroy();
  await until('error ECONNRESET');
  t.same(told, ['gone', 'error ECONNRESET']);
  t.notOk(connection.rest());
});

void t.test('dropped: whoever was sending hears nothing more, and a connection that is made too late is closed', async (t) => {
  const { connection, exchange, told, open } = await made(t);
  connection.send(Buffer.from('request'), exchange);
  connection.drop();
  const socket = await open();
  t.ok(socket.destroyed);
  connection.received(Buffer.from('answer'));
  connection.fail(new Error('late'));
  t.same(
    told.filter((what) => what !== 'gone'),
    [],
  );
});

void t.test('it could not be made: told once', async (t) => {
  const { connection, exchange, told } = await made(t);
  connection.send(Buffer.from('request'), exchange);
  const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  connection.fail(refused);
  connection.fail(refused);
  t.same(
    told.filter((what) => what !== 'gone'),
    ['error ECONNREFUSED'],
  );
});
