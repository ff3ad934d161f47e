import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Sql } from '../../src/db/postgres/connect.ts';
import {
  dropMonth,
  findDefaultRows,
  makeMonths,
  type PartitionedTable,
} from '../../src/db/postgres/partitions.ts';
import { startRetention } from '../../src/dispatch/retention.ts';
import { dispatchTimes } from '../../src/dispatch/times.ts';
import { appendEvents } from '../../src/domain/outbox/events.ts';
import { replayDelivery } from '../../src/domain/outbox/replay.ts';
import { observeLoops } from '../../src/loop.ts';
import { fillMonths } from '../fixtures/months.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { runDispatcher, seedApp, until } from '../fixtures/webhooks.ts';

async function partitions(sql: Sql, table: string): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select right(c.relname, 7) as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = ${table}::regclass order by 1`;
  return rows.map(({ name }) => name);
}

/** Whether a statement of this database waits for a table. */
async function isWaiting(sql: Sql): Promise<boolean> {
  const rows = await sql`
    select from pg_locks where not granted and relation is not null
      and database = (select oid from pg_database where datname = current_database())`;
  return rows.length > 0;
}

const scene = async (t: Test) => {
  const database = await testDatabase(t);
  return { ...database, app: await seedApp(database.sql, 'http://127.0.0.1:9/') };
};

void t.test(
  'partitions for the coming months are created once, also by concurrent calls',
  async (t) => {
    const { sql } = await testDatabase(t);
    const [row] = await sql<{ now: Date }[]>`select now() as now`;
    const expected = [0, 1, 2, 3].map((ahead) => {
      const month = new Date(Date.UTC(row!.now.getUTCFullYear(), row!.now.getUTCMonth() + ahead));
      return month.toISOString().slice(0, 7).replace('-', '_');
    });
    for (const table of ['events', 'deliveries', 'earlier_attempts'])
      t.same((await partitions(sql, table)).slice(0, 4), expected, `${table}: made by migrate`);
    t.same(await makeMonths(sql), []);
    await sql.unsafe(`drop table events_${expected[3]!}, deliveries_${expected[3]!}`);
    const made = await Promise.all([makeMonths(sql), makeMonths(sql), makeMonths(sql)]);
    t.same(made.flat().sort(), [`deliveries_${expected[3]!}`, `events_${expected[3]!}`]);
  },
);

void t.test(
  "creating a month's partition does not deadlock with a payment that is being written",
  async (t) => {
    const { sql, app } = await scene(t);
    const last = (await partitions(sql, 'events')).filter((name) => name !== 'default').at(-1)!;
    await sql.unsafe(`drop table events_${last}`);
    const made = await sql.begin(async (tx) => {
      await tx`update subscriptions set updated_at = now() where id = ${app.subscriptionId}`;
      // Does what makeMonths() does, but waits for the lock without a limit.
      const making = sql<{ name: string }[]>`select make_months() as name`.then(
        (rows) => rows.map(({ name }) => name),
        (error: unknown) => error,
      );
      await until(() => isWaiting(sql));
      await appendEvents(tx, [
        { subscriptionId: app.subscriptionId, type: 'subscription_created' },
      ]);
      return { making };
    });
    t.same(await made.making, [`events_${last}`]);
  },
);

void t.test(
  'monthly partitions of deliveries, attempts and events are dropped after their retention',
  async (t) => {
    const { sql, url, app } = await scene(t);
    await fillMonths(sql, app, ['2025_01', '2025_02', '2025_03']);
    const days = (month: string) =>
      String(Math.floor((Date.now() - Date.parse(`${month}-01T00:00:00Z`)) / 86_400_000));
    await runDispatcher(
      t,
      { url },
      // The first removes January and February, the second only January.
      { env: { DELIVERY_RETENTION_DAYS: days('2025-03'), EVENT_RETENTION_DAYS: days('2025-02') } },
    );
    await until(async () => !(await partitions(sql, 'events')).includes('2025_01'));
    for (const table of ['deliveries', 'earlier_attempts'])
      t.same((await partitions(sql, table)).slice(0, 1), ['2025_03'], table);
    t.same((await partitions(sql, 'events')).slice(0, 2), ['2025_02', '2025_03']);
    t.equal((await sql`select 1 from all_deliveries`).length, 3);
    t.equal((await sql`select 1 from delivery_attempts`).length, 6);
  },
);

void t.test('a retention of 0 days keeps everything', async (t) => {
  const { sql, url, app } = await scene(t);
  await fillMonths(sql, app, ['2025_01']);
  const dispatcher = await runDispatcher(
    t,
    { url },
    { env: { DELIVERY_RETENTION_DAYS: '0', EVENT_RETENTION_DAYS: '0' } },
  );
  await dispatcher.stop();
  t.equal((await sql`select 1 from events`).length, 3);
});

void t.test('a monthly partition that is still needed is not dropped', async (t) => {
  const { sql, app } = await scene(t);
  await fillMonths(sql, app, ['2025_01']);
  t.equal(await dropMonth(sql, 'events', 1), null, 'its deliveries are there');
  const [delivery] = await sql<{ id: string; eventId: string }[]>`
    select id, event_id from deliveries limit 1`;
  await sql`insert into delivery_queue (id, endpoint_id, event_id, event_type) values (${delivery!.id}, ${app.endpointId}, ${delivery!.eventId}, 'payment_success')`;
  t.equal(await dropMonth(sql, 'deliveries', 1), null, 'one of its deliveries is not over');
  await sql`delete from delivery_queue`;
  const replaying = await sql.begin(async (tx) => {
    await replayDelivery(tx, delivery!.id, { appId: app.appId, address: null });
    // The replay has read the event and not committed: the drop waits for it.
    await t.rejects(dropMonth(sql, 'deliveries', 1), { code: '55P03' });
    return dropMonth;
  });
  t.equal(await replaying(sql, 'deliveries', 1), '2025_01');
  t.equal(await dropMonth(sql, 'events', 1), null, 'a replay of it is queued');
  await sql`delete from delivery_queue`;
  t.equal(await dropMonth(sql, 'events', 1), '2025_01');
});

/** Blocks that Postgres reads to drop the oldest month of the table. */
async function blocksRead(sql: Sql, table: PartitionedTable): Promise<number> {
  const [row] = await sql<
    [{ 'QUERY PLAN': [{ Plan: { 'Shared Hit Blocks': number; 'Shared Read Blocks': number } }] }]
  >`explain (analyze, buffers, format json) select drop_month(${table}, 1)`;
  const [{ Plan: plan }] = row['QUERY PLAN'];
  return plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
}

void t.test(
  'dropping a monthly partition reads the same number of blocks for any number of rows',
  async (t) => {
    // One session, which caches the catalogs with the first month.
    const { sql } = await testDatabase(t, { max: 1 });
    const app = await seedApp(sql, 'http://127.0.0.1:9/');
    const blocks: number[] = [];
    let pages = 0;
    for (const [month, rows] of [
      ['2025_01', 3],
      ['2025_02', 3],
      ['2025_03', 50_000],
    ] as const) {
      await fillMonths(sql, app, [month], rows);
      await sql`analyze`;
      [{ pages }] = await sql<[{ pages: number }]>`
        select sum(relpages)::int as pages from pg_class
        where relkind in ('r', 'i') and relname ~ ${`^(deliveries|events)_${month}`}`;
      blocks.push((await blocksRead(sql, 'deliveries')) + (await blocksRead(sql, 'events')));
      for (const table of ['deliveries', 'earlier_attempts', 'events'])
        t.notOk((await partitions(sql, table)).includes(month), `${table} of ${month} are gone`);
    }
    const [, few = NaN, many = NaN] = blocks;
    t.comment(`${few} blocks for 3 rows, ${many} for 50,000 on ${pages} pages`);
    t.ok(pages > 1000);
    // Invalidations by other sessions can make this one read some of the catalogs again.
    t.ok(many - few < pages / 10, `${few} blocks for 3 rows, ${many} for 50,000`);
  },
);

void t.test(
  'a row of a month without partition is stored in the default partition, which is reported',
  async (t) => {
    const { sql, app } = await scene(t);
    t.same(await findDefaultRows(sql), {
      deliveries: false,
      earlier_attempts: false,
      events: false,
    });
    await sql.begin(async (tx) => {
      await tx`set local session_replication_role = replica`;
      await tx`
      insert into events (id, app_id, subscription_id, sequence, type, body, created_at)
      values (first_id_at('2020-01-01'), ${app.appId}, ${app.subscriptionId}, 1, 'payment_success', '{}', '2020-01-01')`;
    });
    t.same(await findDefaultRows(sql), {
      deliveries: false,
      earlier_attempts: false,
      events: true,
    });
  },
);

/** A session that keeps a lock on deliveries until `end`, as a dump does. */
async function startDump(sql: Sql) {
  const dump = await sql.reserve();
  await dump`begin`;
  await dump`lock table deliveries in access share mode`;
  return {
    async end() {
      await dump`rollback`;
      dump.release();
    },
  };
}

void t.test(
  'while a dump has locks, a statement that waits behind a partition drop soon continues',
  async (t) => {
    const { sql, app } = await scene(t);
    await fillMonths(sql, app, ['2025_01']);
    const dump = await startDump(sql);
    // A try waits for its lock only briefly, and may end before it is observed.
    await until(async () => {
      let isOver = false;
      const dropping = dropMonth(sql, 'deliveries', 1)
        .catch((error: unknown) => error)
        .finally(() => (isOver = true));
      const isSeen = async () => {
        while (!isOver) if (await isWaiting(sql)) return true;
        return false;
      };
      const isBehind = await isSeen();
      if (isBehind) await sql`select from deliveries limit 1`;
      t.match(await dropping, { code: '55P03' });
      return isBehind;
    });
    await dump.end();
  },
);

void t.test(
  'while a dump has locks, a partition drop is retried after minutes and no loop fails',
  async (t) => {
    const { sql, app } = await scene(t);
    await fillMonths(sql, app, ['2025_01']);
    const dump = await startDump(sql);
    let turns = 0;
    let failed = 0;
    observeLoops({
      started: () => undefined,
      succeeded: () => (turns += 1),
      failed: () => (failed += 1),
      stopped: () => undefined,
    });
    const dropped: string[] = [];
    const locked: number[] = [];
    const loop = startRetention(sql, {
      deliveryDays: 1,
      eventDays: 1,
      times: dispatchTimes.retention,
      onDropped: (table, month) => dropped.push(`${table} ${month}`),
      onLocked: (_error, times) => locked.push(times),
      onError: () => undefined,
    });
    t.teardown(async () => {
      observeLoops(undefined);
      await loop.stop();
    });
    await until(() => turns > 0 || failed > 0);
    // Longer than the longest backoff of a loop that fails.
    await delay(2500);
    t.match({ turns, failed, locked, dropped }, { turns: 1, failed: 0, locked: [1], dropped: [] });
    await dump.end();
    loop.wake();
    await until(() => turns >= 4);
    t.same(dropped, ['deliveries 2025_01', 'events 2025_01']);
    t.same([failed, locked], [0, [1]]);
  },
);

void t.test('monthly partitions are created or dropped by one process at a time', async (t) => {
  const { sql, app } = await scene(t);
  await fillMonths(sql, app, ['2025_01']);
  await sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtext('billing partitions'))`;
    t.same(await makeMonths(sql), []);
    t.equal(await dropMonth(sql, 'deliveries', 1), null);
  });
  t.equal(await dropMonth(sql, 'deliveries', 1), '2025_01');
});
