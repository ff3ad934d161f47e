import t from 'tap';
import { start } from '../fixtures/command.ts';
import { startNameServer } from '../fixtures/name-server.ts';
import { nodeWithOwn } from '../fixtures/own-file.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import {
  attempted,
  attemptsOf,
  encryptionKey,
  queueDeliveries,
  seedApp,
} from '../fixtures/webhooks.ts';

void t.test('a running dispatcher uses a changed resolv.conf', async (t) => {
  const { sql, url } = await testDatabase(t);
  const receiver = await startReceiver(t);
  const app = await seedApp(sql, `http://receiver.example:${receiver.port}/hook`);
  const { node, write } = await nodeWithOwn(t, '/etc/resolv.conf');
  const change = (nameServer: string) => write(`nameserver ${nameServer}\n`);
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
