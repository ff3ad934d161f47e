import fc from 'fast-check';
import t from 'tap';
import { nextEvents, startFeed, type FeedPage } from '../../src/domain/event-feed.ts';
import { createSample } from '../../src/domain/samples.ts';
import { appendEvents } from '../../src/domain/events.ts';
import type { Sql } from '../../src/db/connect.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { seedApp } from '../fixtures/webhooks.ts';

const never = new AbortController().signal;
const atOnce = { limit: 100, waitMs: 0, signal: never };

/** Everything there is, page after page. */
async function drain(sql: Sql, appId: string, page: FeedPage, limit = 100): Promise<{ ids: string[]; page: FeedPage }> {
  const ids: string[] = [];
  for (;;) {
    const { rows, next } = await nextEvents(sql, appId, page, { ...atOnce, limit });
    page = next;
    ids.push(...rows.map(({ id }) => id));
    if (rows.length === 0) return { ids, page };
  }
}

async function insertSubscriptions(sql: Sql, appId: string, count: number): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours)
    select ${appId}, (select id from plans where app_id = ${appId}), 'pda ' || n || random(), 'wallet', 1, 1 from generate_series(1, ${count}) n returning id`;
  return rows.map(({ id }) => id);
}

void t.test('an event whose transaction began first and committed last is neither missed nor told twice', async (t) => {
  const { sql } = await testDatabase(t);
  const { appId } = await seedApp(sql, 'http://127.0.0.1:1/');
  const [slow = '', quick = ''] = await insertSubscriptions(sql, appId, 2);
  let place = await startFeed(sql);
  let commit: () => void = () => undefined;
  let inserted: () => void = () => undefined;
  const isInserted = new Promise<void>((resolve) => (inserted = resolve));
  const late = sql.begin(async (tx) => {
    await appendEvents(tx, [{ subscriptionId: slow, type: 'cancel_forced' }]);
    inserted();
    await new Promise<void>((resolve) => (commit = resolve));
  });
  await isInserted;
  await sql.begin((tx) => appendEvents(tx, [{ subscriptionId: quick, type: 'cancel_forced' }]));
  const [row] = await sql<{ id: string }[]>`select id from events`;
  const first = await drain(sql, appId, place);
  t.same(first.ids, [row!.id], 'what is committed is told, what is not yet committed is not');
  place = first.page;
  commit();
  await late;
  const [other] = await sql<{ id: string }[]>`select id from events where id <> ${row!.id}`;
  t.ok(other!.id < row!.id, 'its id, and its time, are lower than what was told before');
  const second = await drain(sql, appId, place);
  t.same(second.ids, [other!.id]);
  t.same((await drain(sql, appId, second.page)).ids, []);
  t.same(
    (await drain(sql, appId, place)).ids,
    [other!.id],
    'the same place gives the same again: an answer that was lost is asked for again',
  );
});

void t.test('it looks back a minute at least, and never less far than the oldest transaction that runs', async (t) => {
  const { sql } = await testDatabase(t);
  const { from } = await startFeed(sql);
  const [row] = await sql<{ minute: boolean }[]>`select ${from.since}::timestamptz <= clock_timestamp() - interval '1 minute' as minute`;
  t.ok(row?.minute);
  const old = await sql.reserve();
  await old`begin`;
  await old`select txid_current()`;
  // As if it had begun two minutes ago: the start of a transaction cannot be set, so the minute is.
  const [found] = await sql<{ start: Date; since: Date }[]>`
    select min(xact_start) as start, date_trunc('milliseconds', least(now() + interval '1 minute', min(xact_start))) as since
    from pg_stat_activity where datname = current_database() and xact_start is not null`;
  const again = await startFeed(sql);
  t.ok(found!.since <= found!.start);
  t.ok(new Date(again.from.since) <= found!.start);
  await old`rollback`;
  old.release();
});

void t.test('whatever commits in whatever order, in pages of any size: each event once', { timeout: 120_000 }, async (t) => {
  const { sql } = await testDatabase(t);
  const { appId } = await seedApp(sql, 'http://127.0.0.1:1/');
  const other = await seedApp(sql, 'http://127.0.0.1:2/');
  const lanes = await insertSubscriptions(sql, appId, 4);
  const step = fc.oneof(
    fc.record({ kind: fc.constant('event' as const), lane: fc.nat(3), hold: fc.nat(3) }),
    fc.record({ kind: fc.constant('read' as const), limit: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ kind: fc.constant('sample' as const) }),
    fc.record({ kind: fc.constant('foreign' as const) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
      let page = await startFeed(sql);
      const before = new Set((await sql<{ id: string }[]>`select id from events`).map(({ id }) => id));
      const told: string[] = [];
      const samples: string[] = [];
      const open = new Map<number, { left: number; commit: () => void; done: Promise<unknown> }>();
      const settle = async (all: boolean) => {
        for (const [lane, one] of open) {
          one.left -= 1;
          if (!all && one.left > 0) continue;
          one.commit();
          await one.done;
          open.delete(lane);
        }
      };
      for (const one of steps) {
        if (one.kind === 'event' && !open.has(one.lane)) {
          let commit: () => void = () => undefined;
          let inserted: () => void = () => undefined;
          const ready = new Promise<void>((resolve) => (inserted = resolve));
          const held = new Promise<void>((resolve) => (commit = resolve));
          const done = sql.begin(async (tx) => {
            await appendEvents(tx, [{ subscriptionId: lanes[one.lane]!, type: 'cancel_forced' }]);
            inserted();
            await held;
          });
          await ready;
          open.set(one.lane, { left: one.hold, commit, done });
        }
        if (one.kind === 'sample') samples.push((await createSample(sql, 'ping', { appId, webhookId: null, merchantWallet: 'w' })).id);
        if (one.kind === 'foreign')
          await sql.begin((tx) => appendEvents(tx, [{ subscriptionId: other.subscriptionId, type: 'cancel_forced' }]));
        if (one.kind === 'read') {
          const { rows, next } = await nextEvents(sql, appId, page, { ...atOnce, limit: one.limit });
          told.push(...rows.map(({ id }) => id));
          page = next;
        }
        await settle(false);
      }
      await settle(true);
      told.push(...(await drain(sql, appId, page, 3)).ids);
      const made = (await sql<{ id: string }[]>`select id from events where app_id = ${appId}`)
        .map(({ id }) => id)
        .filter((id) => !before.has(id));
      if (JSON.stringify([...told].sort()) !== JSON.stringify([...made, ...samples].sort()))
        throw new Error(`told ${told.join(' ')} of ${made.join(' ')} and ${samples.join(' ')}`);
    }),
    { numRuns: 40 },
  );
  t.pass();
});

void t.test('it waits for the next event, and no longer than it was asked to', async (t) => {
  const { sql } = await testDatabase(t);
  const { appId, subscriptionId } = await seedApp(sql, 'http://127.0.0.1:1/');
  const place = await startFeed(sql);
  t.same((await nextEvents(sql, appId, place, { ...atOnce, waitMs: 300 })).rows, []);
  const waiting = nextEvents(sql, appId, place, { ...atOnce, waitMs: 60_000 });
  await sql.begin((tx) => appendEvents(tx, [{ subscriptionId, type: 'cancel_forced' }]));
  t.match((await waiting).rows, [{ type: 'cancel_forced', sample: false }]);
  const stop = new AbortController();
  const stopped = nextEvents(sql, appId, await startFeed(sql), { limit: 1, waitMs: 60_000, signal: stop.signal });
  stop.abort();
  t.same((await stopped).rows, []);
});
