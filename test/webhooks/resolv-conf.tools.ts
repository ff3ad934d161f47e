import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { start } from '../fixtures/command.ts';
import { startNameServer } from '../fixtures/name-server.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { tool } from '../fixtures/tools.ts';
import {
  attempted,
  attemptsOf,
  encryptionKey,
  queueDeliveries,
  seedApp,
} from '../fixtures/webhooks.ts';

/** A Node for which `change` replaces the text of /etc/resolv.conf. */
async function nodeWithResolvConf(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'billing-resolv-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const [file, node] = [join(folder, 'resolv.conf'), join(folder, 'node')];
  const change = (nameServer: string) => writeFile(file, `nameserver ${nameServer}\n`);
  const mount = `${await tool('mount')} --bind ${file} /etc/resolv.conf`;
  await writeFile(
    node,
    `#!/bin/sh
exec ${await tool('unshare')} --user --map-root-user --mount \\
  /bin/sh -c '${mount} && exec "$@"' sh ${process.execPath} "$@"
`,
  );
  await chmod(node, 0o755);
  return { node, change };
}

void t.test('a dispatcher that runs follows a changed resolv.conf', async (t) => {
  const { sql, url } = await testDatabase(t);
  const receiver = await startReceiver(t);
  const app = await seedApp(sql, `http://receiver.example:${receiver.port}/hook`);
  const { node, change } = await nodeWithResolvConf(t);
  await change(await startNameServer(t, () => undefined));
  const env = {
    BILLING_ENV: 'production',
    DATABASE_URL: url,
    ENCRYPTION_KEY: encryptionKey,
    METRICS_PORT: '0',
    WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
  };
  const running = start(t, ['dispatch'], env, { node, judged: false });
  await running.line('dispatch is running');
  const [before = ''] = await queueDeliveries(sql, app, 1);
  await attempted(sql, before);
  t.match(await attemptsOf(sql, before), [{ httpStatus: null, error: 'dns' }]);
  await change(await startNameServer(t, () => ['127.0.0.1']));
  const [after = ''] = await queueDeliveries(sql, app, 1);
  await attempted(sql, after);
  t.match(await attemptsOf(sql, after), [{ httpStatus: 200, address: '127.0.0.1' }]);
});
