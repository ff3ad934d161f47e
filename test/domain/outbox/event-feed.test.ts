import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { readFeedBound } from '../../../src/db/delivering/event-feed.ts';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { timeOfId } from '../../../src/db/postgres/ids.ts';
import { appName, createNotifier, DELIVERIES_QUEUED } from '../../../src/db/postgres/notify.ts';
import { EventFeed, startFeed, type FeedPage } from '../../../src/domain/outbox/event-feed.ts';
import { appendEvents } from '../../../src/domain/outbox/events.ts';
import { createSample } from '../../../src/domain/outbox/samples.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { seedApp, until } from '../../fixtures/webhooks.ts';

const never = new AbortController().signal;
const atOnce = { limit: 100, waitMs: 0, signal: never };

/** All events, page by page. */
async function drain(
  sql: Sql,
  appId: string,
  page: FeedPage,
  limit = 100,
): Promise<{ ids: string[]; page: FeedPage }> {
  const ids: string[] = [];
  for (;;) {
    const { rows, next } = await new EventFeed(sql).next(appId, page, { ...atOnce, limit });
    page = next;
    ids.push(...rows.map(({ id }) => id));
    if (rows.length === 0) return { ids, page };
  }
}

async function insertSubscriptions(sql: Sql, appId: string, count: number): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    with made as (
      insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours)
      select ${appId}, (select id from plans where app_id = ${appId}), 'pda ' || n || random(), 'wallet', 1, 1 from generate_series(1, ${count}) n
      returning id, app_id
    )
    insert into subscription_work (subscription_id, app_id)
    select id, app_id from made returning subscription_id as id`;
  return rows.map(({ id }) => id);
}

void t.test(
  'an open transaction with an older event delays later events, and each event is returned once',
  async (t) => {
    const { sql } = await testDatabase(t);
    const { appId } = await seedApp(sql, 'http://127.0.0.1:1/');
    const [slow = '', quick = ''] = await insertSubscriptions(sql, appId, 2);
    const start = await startFeed(sql);
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
    const first = await drain(sql, appId, start);
    t.same(first.ids, [], 'an earlier event may still appear');
    commit();
    await late;
    const rows = await sql<{ id: string }[]>`select id from events order by id`;
    const second = await drain(sql, appId, first.page);
    t.same(
      second.ids,
      rows.map(({ id }) => id),
    );
    t.same((await drain(sql, appId, second.page)).ids, []);
    t.same(
      (await drain(sql, appId, start)).ids,
      second.ids,
      'the same place gives the same again: an answer that was lost is asked for again',
    );
  },
);

void t.test('an idle transaction delays events by at most 10 s', async (t) => {
  const { sql } = await testDatabase(t);
  const reader = await sql.reserve();
  await reader`begin`;
  const [begun] = await reader<{ start: Date }[]>`select now() as start`;
  const start = begun!.start.getTime();
  const bound = async () => timeOfId(await readFeedBound(sql)).getTime();
  t.equal(await bound(), start, 'a new one may still write');
  await until(async () => (await bound()) > start + 10_000);
  await reader`rollback`;
  reader.release();
});

void t.test('each event is returned once for any order of commits and any page size', async (t) => {
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
      const before = new Set(
        (await sql<{ id: string }[]>`select id from events`).map(({ id }) => id),
      );
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
        if (one.kind === 'sample')
          samples.push(
            (await createSample(sql, 'ping', { appId, webhookId: null, merchantWallet: 'w' })).id,
          );
        if (one.kind === 'foreign')
          await sql.begin((tx) =>
            appendEvents(tx, [{ subscriptionId: other.subscriptionId, type: 'cancel_forced' }]),
          );
        if (one.kind === 'read') {
          const { rows, next } = await new EventFeed(sql).next(appId, page, {
            ...atOnce,
            limit: one.limit,
          });
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

/** A handle that counts its statements. */
function counting(sql: Sql): { sql: Sql; count: () => number } {
  let statements = 0;
  const counted = new Proxy(sql, {
    apply(target, self, args) {
      statements += 1;
      return Reflect.apply(target as (...given: unknown[]) => unknown, self, args);
    },
  });
  return { sql: counted, count: () => statements };
}

void t.test(
  'a waiting read runs four statements, and waits no longer than requested',
  async (t) => {
    const { sql } = await testDatabase(t);
    const { appId, subscriptionId } = await seedApp(sql, 'http://127.0.0.1:1/');
    const counter = counting(sql);
    const feed = new EventFeed(counter.sql);
    const place = await startFeed(sql);
    // Opens the LISTEN connection.
    await feed.next(appId, place, { ...atOnce, waitMs: 1 });
    const opened = counter.count();
    const before = performance.now();
    t.same((await feed.next(appId, place, { ...atOnce, waitMs: 1500 })).rows, []);
    t.ok(performance.now() - before >= 1490);
    t.equal(counter.count() - opened, 4, 'it reads at the beginning and at the end');
    const asked = counter.count();
    const waiting = feed.next(appId, place, { ...atOnce, waitMs: 60_000 });
    await until(async () => Promise.resolve(counter.count() === asked + 2));
    await sql.notify(DELIVERIES_QUEUED, appName(randomUUID()));
    const queued = await sql.begin((tx) =>
      appendEvents(tx, [{ subscriptionId, type: 'cancel_forced' }]),
    );
    createNotifier(sql, DELIVERIES_QUEUED).notify(queued);
    t.match((await waiting).rows, [{ type: 'cancel_forced', sample: false }]);
    t.ok(counter.count() - asked <= 6, `${counter.count() - asked} statements for an event`);
  },
);

void t.test('unrelated notifications cause no endless reads', async (t) => {
  const { sql } = await testDatabase(t);
  const { appId } = await seedApp(sql, 'http://127.0.0.1:1/');
  const counter = counting(sql);
  const feed = new EventFeed(counter.sql);
  const place = await startFeed(sql);
  let isOver = false;
  const asking = feed
    .next(appId, place, { ...atOnce, waitMs: 3000 })
    .finally(() => (isOver = true));
  while (!isOver) {
    await sql.notify(DELIVERIES_QUEUED, '');
    await delay(10);
  }
  await asking;
  t.ok(counter.count() <= 14, `${counter.count()} statements in 3 s`);
});

void t.test('aborting the signal ends the wait for events', async (t) => {
  const { sql } = await testDatabase(t);
  const { appId } = await seedApp(sql, 'http://127.0.0.1:1/');
  const stop = new AbortController();
  const place = await startFeed(sql);
  const options = { limit: 1, waitMs: 60_000, signal: stop.signal };
  const stopped = new EventFeed(sql).next(appId, place, options);
  stop.abort();
  t.same((await stopped).rows, []);
});
