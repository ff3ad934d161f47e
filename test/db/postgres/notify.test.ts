import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { ANY_ENDPOINT, appName, createNotifier, namedIn } from '../../../src/db/postgres/notify.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

/** Counts the notifications on test_channel; `twice` resolves with the second. */
async function listening(sql: Sql) {
  let onSecond = () => {};
  const received = { count: 0, twice: new Promise<void>((resolve) => (onSecond = resolve)) };
  await sql.listen('test_channel', () => {
    received.count += 1;
    if (received.count === 2) onSecond();
  });
  return received;
}

void t.test(
  'a burst of changes causes few notifications, and the last one is never lost',
  async (t) => {
    const { sql } = await testDatabase(t);
    const received = await listening(sql);
    const notifier = createNotifier(sql, 'test_channel', 20);
    for (let n = 0; n < 1000; n += 1) notifier.notify();
    await received.twice;
    await notifier.flush();
    t.equal(received.count, 2, 'one at once, one for all that came after it');
  },
);

void t.test('flush sends the pending notification', async (t) => {
  const { sql } = await testDatabase(t);
  const received = await listening(sql);
  const notifier = createNotifier(sql, 'test_channel', 3_600_000);
  notifier.notify();
  notifier.notify();
  await notifier.flush();
  await received.twice;
  t.equal(received.count, 2);
});

void t.test(
  'a notification contains the changed ids, or nothing if the ids are too many or unknown',
  async (t) => {
    const { sql } = await testDatabase(t);
    const received: (string[] | undefined)[] = [];
    let onHeard = () => {};
    await sql.listen('test_channel', (payload) => {
      received.push(namedIn(payload).endpoints?.sort());
      onHeard();
    });
    const payloadOf = async (...wanted: (string[] | undefined)[]) => {
      const notifier = createNotifier(sql, 'test_channel', 3_600_000);
      const next = () => new Promise<void>((resolve) => (onHeard = resolve));
      const first = next();
      notifier.notify(new Set([randomUUID()]));
      await first;
      const second = next();
      for (const ids of wanted) notifier.notify(ids && new Set(ids));
      await notifier.flush();
      await second;
      return received.at(-1);
    };
    const ids = Array.from({ length: 201 }, () => randomUUID()).sort();
    t.same(await payloadOf(ids.slice(0, 2), [], ids.slice(1, 4)), ids.slice(0, 4), 'each once');
    t.same(await payloadOf(ids.slice(0, 200)), ids.slice(0, 200), 'as many as the payload holds');
    t.equal(await payloadOf(ids.slice(0, 150), ids.slice(100)), undefined, 'one more');
    t.equal(
      await payloadOf(ids.slice(0, 1), undefined, ids.slice(1, 2)),
      undefined,
      'anything is not made less by what is named',
    );
  },
);

void t.test('an empty list of ids sends no notification', async (t) => {
  const { sql } = await testDatabase(t);
  const received: string[] = [];
  let onHeard = () => {};
  await sql.listen('test_channel', (payload) => {
    received.push(payload);
    onHeard();
  });
  const something = new Promise<void>((resolve) => (onHeard = resolve));
  const notifier = createNotifier(sql, 'test_channel');
  notifier.notify(new Set());
  notifier.notify();
  await notifier.flush();
  await something;
  t.same(received, ['']);
});

void t.test('a malformed payload counts as a notification about everything', (t) => {
  for (const payload of [
    '',
    ' ',
    'x',
    `${randomUUID()} x`,
    `${randomUUID()}  ${randomUUID()}`,
    randomUUID().toUpperCase(),
    '@',
    `@${randomUUID()} @x`,
  ])
    t.same(namedIn(payload), { endpoints: undefined, apps: undefined }, payload);
  t.end();
});

void t.test('notification names of endpoints and of apps never coincide', (t) => {
  const [endpoint, app] = [randomUUID(), randomUUID()];
  t.same(namedIn(`${endpoint} ${appName(app)}`), { endpoints: [endpoint], apps: [app] });
  t.same(namedIn(appName(app)), { endpoints: [], apps: [app] }, 'an app without an endpoint');
  t.same(namedIn(`${ANY_ENDPOINT} ${appName(app)}`), { endpoints: undefined, apps: [app] });
  t.same(namedIn(ANY_ENDPOINT), { endpoints: undefined, apps: [] }, 'a replay writes no event');
  t.end();
});

void t.test('while the database is unavailable, the notifier throws no error', async (t) => {
  const { sql } = await testDatabase(t);
  await sql.end();
  const notifier = createNotifier(sql, 'test_channel');
  t.doesNotThrow(() => notifier.notify());
  await t.resolves(notifier.flush());
});
