import t from 'tap';
import { createNotifier } from '../../src/db/notify.ts';
import { testDatabase } from '../fixtures/postgres.ts';

void t.test('a burst of wakes costs few notifications, and the last of them is never lost', async (t) => {
  const { sql } = await testDatabase(t);
  let heard = 0;
  let onHeard = () => {};
  await sql.listen('test_channel', () => {
    heard += 1;
    onHeard();
  });
  const notifier = createNotifier(sql, 'test_channel', 20);
  const first = new Promise<void>((resolve) => (onHeard = resolve));
  for (let n = 0; n < 1000; n += 1) notifier.notify();
  await first;
  const second = new Promise<void>((resolve) => (onHeard = resolve));
  await second;
  await notifier.flush();
  t.equal(heard, 2, 'one at once, one for all that came after it');
});

void t.test('flush sends what is still owed', async (t) => {
  const { sql } = await testDatabase(t);
  let heard = 0;
  let onSecond = () => {};
  const second = new Promise<void>((resolve) => (onSecond = resolve));
  await sql.listen('test_channel', () => {
    heard += 1;
    if (heard === 2) onSecond();
  });
  const notifier = createNotifier(sql, 'test_channel', 3_600_000);
  notifier.notify();
  notifier.notify();
  await notifier.flush();
  await second;
  t.equal(heard, 2);
});

void t.test('a database that is gone is no error for the one who notifies', async (t) => {
  const { sql } = await testDatabase(t);
  await sql.end();
  const notifier = createNotifier(sql, 'test_channel');
  t.doesNotThrow(() => notifier.notify());
  await t.resolves(notifier.flush());
});
