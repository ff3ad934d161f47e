import t from 'tap';
import { startNotifying } from '../../src/daemon/systemd.ts';
import { until } from '../fixtures/webhooks.ts';

void t.test('a missing systemd-notify is reported once and otherwise ignored', async (t) => {
  const reasons: string[] = [];
  const notifying = startNotifying(
    { socket: '/nowhere', watchdogMs: 20, path: t.testdir() },
    () => undefined,
    (reason) => reasons.push(reason),
  );
  await until(() => reasons.length > 0);
  // Many signs of life later.
  await new Promise((resolve) => setTimeout(resolve, 300));
  await notifying.stop();
  t.equal(reasons.length, 1);
  t.match(reasons[0], /systemd-notify.*ENOENT/);
});
