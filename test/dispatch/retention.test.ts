import t, { type Test } from 'tap';
import type { Sql } from '../../src/db/connect.ts';
import { dropMonth, findDefaultRows, makeMonths } from '../../src/db/partitions.ts';
import { replayDelivery } from '../../src/domain/replay.ts';
import { fillMonths } from '../fixtures/months.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { runDispatcher, seedApp, until } from '../fixtures/webhooks.ts';

async function partitions(sql: Sql, table: string): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select right(c.relname, 7) as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = ${table}::regclass order by 1`;
  return rows.map(({ name }) => name);
}

const scene = async (t: Test) => {
  const database = await testDatabase(t);
  return { ...database, app: await seedApp(database.sql, 'http://127.0.0.1:9/') };
};

void t.test('the months ahead are made once; two that make them at once do not meet', async (t) => {
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
});

void t.test(
  'months of deliveries with their attempts, and later of events, are dropped when they are older than is kept',
  async (t) => {
    const { sql, url, app } = await scene(t);
    await fillMonths(sql, app, ['2025_01', '2025_02', '2025_03']);
    const days = (month: string) =>
      String(Math.floor((Date.now() - Date.parse(`${month}-01T00:00:00Z`)) / 86_400_000));
    await runDispatcher(
      t,
      { url },
      // January and February have ended by then, January alone by the second.
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

void t.test('0 days keeps everything', async (t) => {
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

void t.test('a month that is still needed is not dropped', async (t) => {
  const { sql, app } = await scene(t);
  await fillMonths(sql, app, ['2025_01']);
  t.equal(await dropMonth(sql, 'events', 1), null, 'its deliveries are there');
  const [delivery] = await sql<{ id: string; eventId: string }[]>`
    select id, event_id from deliveries limit 1`;
  await sql`insert into delivery_queue (id, endpoint_id, event_id, event_type) values (${delivery!.id}, ${app.endpointId}, ${delivery!.eventId}, 'payment_success')`;
  t.equal(await dropMonth(sql, 'deliveries', 1), null, 'one of its deliveries is not over');
  await sql`delete from delivery_queue`;
  const replaying = await sql.begin(async (tx) => {
    await replayDelivery(tx, delivery!.id);
    // The replay has read the event and not committed: the drop waits for it.
    await t.rejects(dropMonth(sql, 'deliveries', 1), { code: '55P03' });
    return dropMonth;
  });
  t.equal(await replaying(sql, 'deliveries', 1), '2025_01');
  t.equal(await dropMonth(sql, 'events', 1), null, 'a replay of it is queued');
  await sql`delete from delivery_queue`;
  t.equal(await dropMonth(sql, 'events', 1), '2025_01');
});

void t.test('dropping a month takes less than 100 ms, however many rows it has', async (t) => {
  const { sql, app } = await scene(t);
  await fillMonths(sql, app, ['2025_01'], 50_000);
  const started = performance.now();
  t.equal(await dropMonth(sql, 'deliveries', 1), '2025_01');
  t.equal(await dropMonth(sql, 'events', 1), '2025_01');
  const took = performance.now() - started;
  t.ok(took < 100, `${took} ms`);
});

void t.test(
  'a row of a month that was not made goes to the default partition, which is seen',
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
