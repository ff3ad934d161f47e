// When the port of serve is taken by another process, serve reports this and stops what it has
// started.
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { run } from '../fixtures/command.ts';
import { daemonEnv } from '../fixtures/daemons.ts';

void t.test('serve on a port in use prints one line with this reason', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  t.teardown(() => other.close());
  const PORT = String((other.address() as AddressInfo).port);
  const env = { ...(await daemonEnv(t)), HOST: '127.0.0.1', PORT };
  const { code, stdout, stderr } = await run(t, ['serve'], env);
  t.equal(code, 1);
  t.equal(
    stderr,
    `billing: serve cannot listen on 127.0.0.1:${PORT}: another process has that address; set PORT to a free one.\n`,
  );
  const lines = stdout.split('\n').filter((line) => line !== '');
  t.same(
    lines.filter((line) => (JSON.parse(line) as { level: number }).level > 30),
    [],
  );
});
