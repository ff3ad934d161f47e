import t from 'tap';
import { supervision } from '../../src/config/supervision.ts';

void t.test('supervision uses only the variables that systemd set', (t) => {
  t.equal(supervision({}), undefined);
  t.same(supervision({ NOTIFY_SOCKET: '/run/n', PATH: '/bin' }), {
    socket: '/run/n',
    watchdogMs: undefined,
    path: '/bin',
  });
  const watched = { NOTIFY_SOCKET: '@n', WATCHDOG_USEC: '30000000' };
  t.match(supervision(watched), { socket: '@n', watchdogMs: 30_000 });
  t.match(supervision({ ...watched, WATCHDOG_PID: String(process.pid) }), { watchdogMs: 30_000 });
  t.match(
    supervision({ ...watched, WATCHDOG_PID: '1' }),
    { watchdogMs: undefined },
    "the watchdog is another process's",
  );
  t.end();
});
