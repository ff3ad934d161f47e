// The time that `serve` gives a request's head, with the configuration that it has by default.
import { once } from 'node:events';
import { connect } from 'node:net';
import t from 'tap';
import { clientAt } from '../fixtures/crowd.ts';
import { startServe } from '../fixtures/serve.ts';

void t.test('a connection without a complete request head is closed after 10 s', async (t) => {
  const { port } = await startServe(t);
  const begun = performance.now();
  const closed = ['', 'GET /healthz HTTP/1.1\r\nhost: x\r\n'].map(async (head) => {
    // A client that never closes its side does not stay either.
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    t.teardown(() => socket.destroy());
    socket.resume().write(head);
    await once(socket, 'end');
    return performance.now() - begun;
  });
  const other = clientAt(port, '127.0.0.1');
  t.equal((await other.get('/healthz')).status, 200);
  other.close();
  for (const ms of await Promise.all(closed)) t.ok(ms >= 9900, `${ms} ms`);
});
