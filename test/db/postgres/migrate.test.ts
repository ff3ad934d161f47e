import t from 'tap';
import { readRelease } from '../../../src/config/release.ts';
import { connect, type Queryable, type Sql } from '../../../src/db/postgres/connect.ts';
import { assertSchema, migrate, planMigrations } from '../../../src/db/postgres/migrate.ts';
import {
  listMigrations,
  runsInBatches,
  runsInSteps,
  type Statement,
  statementsOf,
} from '../../../src/db/postgres/migration-files.ts';
import { readPlanner } from '../../../src/db/postgres/migration-plan.ts';
import { assertUsable } from '../../../src/db/postgres/readiness.ts';
import { runShared } from '../../fixtures/command.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { until } from '../../fixtures/webhooks.ts';
import { madeMigrations } from './made-migrations.ts';

void t.test('migrating again applies no file', async (t) => {
  const { sql } = await testDatabase(t, { empty: true });
  const names = (await listMigrations()).map(({ name }) => name);
  t.same(await migrate(sql), names);
  t.same(await migrate(sql), []);
  await assertSchema(sql);
});

void t.test('the migration files are numbered from 1, without gaps', async (t) => {
  const versions = (await listMigrations()).map(({ version }) => version);
  t.same(
    versions,
    versions.map((_, index) => index + 1),
  );
});

void t.test('two concurrent migrations: exactly one of them applies each file', async (t) => {
  const { sql, url } = await testDatabase(t, { empty: true });
  const other = connect(url, { max: 2, name: 'other' });
  t.teardown(() => other.end());
  const applied = await Promise.all([migrate(sql), migrate(other)]);
  t.same(
    applied.flat(),
    (await listMigrations()).map(({ name }) => name),
  );
});

void t.test(
  'a daemon refuses a schema that is missing, older or newer, and names the command to run',
  async (t) => {
    const { sql } = await testDatabase(t, { empty: true });
    await t.rejects(assertSchema(sql), {
      name: 'OperatorError',
      message: /no schema yet\. Run "billing migrate"/,
    });
    await migrate(sql);
    const last = (await listMigrations()).at(-1)!.version;
    await sql`delete from schema_migrations where version = ${last}`;
    await t.rejects(assertSchema(sql), {
      message: /is at version \d+ of \d+\. Run "billing migrate"/,
    });
    await sql`insert into schema_migrations (version, name, checksum) values (${last}, 'x', ${(await listMigrations()).at(-1)?.checksum ?? ''}), (9999, '9999_future.sql', 'x')`;
    await t.rejects(assertSchema(sql), {
      message: /schema version 9999, newer than this build/,
      exitCode: 1,
    });
    await t.rejects(migrate(sql), { message: /newer than this build/, exitCode: 1 });
    for (const [release, runs] of [
      ['0.0.9', true],
      [readRelease(), true],
      ['0.1.1', false],
      ['0.10.0', false],
      ['1.0.0', false],
    ] as const) {
      await sql`update schema_migrations set min_release = ${release} where version = 9999`;
      const found = await assertSchema(sql).catch(() => undefined);
      t.equal(found, runs ? 9999 : undefined, release);
      t.same(await migrate(sql).catch(() => 'refused'), runs ? [] : 'refused', release);
    }
  },
);

void t.test('migrations are applied only in the schema public', async (t) => {
  const tables = async (sql: Queryable) => {
    const rows = await sql<{ schema: string }[]>`
      select distinct schemaname as schema from pg_tables
      where schemaname in ('public', 'app', 'billing')`;
    return rows.map(({ schema }) => schema);
  };
  const { sql, url } = await testDatabase(t, { empty: true });
  const name = new URL(url).pathname.slice(1);
  await sql.unsafe(`create schema app; alter database ${name} set search_path = app`);
  const env = { DATABASE_URL: url };
  await sql`alter schema public rename to billing`;
  const refused = { code: 1, stderr: /belong into the schema public .* which does not exist/ };
  t.match(await runShared(['migrate'], env), refused);
  t.match(await runShared(['migrate', '--plan'], env), refused);
  t.same(await tables(sql), []);
  await sql`alter schema billing rename to public`;
  t.match(await runShared(['migrate'], env), { code: 0 });
  t.same(await tables(sql), ['public']);

  await sql`drop schema app`;
  await sql`alter schema public rename to app`;
  await sql`create schema public`;
  const second = await runShared(['migrate'], env);
  t.match(second, { code: 1, stderr: /an installation of billing in the schema app;/ });
  t.same(await tables(sql), ['app']);
  const [, remedy] = /empty: (.*)\. Or/.exec(second.stderr)!;
  await sql.unsafe(remedy!);
  t.match(await runShared(['migrate'], env), { code: 0, stdout: /The schema is up to date/ });
});

void t.test('a failed migration is rolled back completely', async (t) => {
  const { sql } = await testDatabase(t, { empty: true });
  await sql`create table apps (id int)`;
  await t.rejects(migrate(sql), { code: '42P07' });
  const [tables] = await sql<
    { count: bigint }[]
  >`select count(*) from pg_tables where schemaname = 'public'`;
  t.equal(tables?.count, 1n);
});

void t.test('the error for an unreachable Postgres contains no password', async (t) => {
  const url = 'postgres://someone:hunter2@127.0.0.1:1/ledger';
  const sql = connect(url, { max: 1, name: 'nobody' });
  const error = await assertUsable(sql, url).then(
    () => undefined,
    (thrown: unknown) => thrown as Error,
  );
  t.match(error?.message, /127\.0\.0\.1:1, database "ledger".*DATABASE_URL/);
  t.notMatch(error?.message, /hunter2/);
});

void t.test(
  'a migration that waits for a lock does not block the daemons, and continues when the lock is free',
  async (t) => {
    const { sql } = await testDatabase(t);
    const [last] = await sql<{ name: string }[]>`
      select relname as name from pg_class where relname ~ '^events_[0-9]{4}_[0-9]{2}$' order by 1 desc limit 1`;
    await sql.unsafe(`drop table ${last?.name ?? ''}`);
    const holder = await sql.reserve();
    await holder`begin`;
    await holder`lock table events in row exclusive mode`;
    const migrating = migrate(sql);
    const waits = async () => {
      const [row] = await sql<{ count: number }[]>`
        select count(*)::int as count from pg_locks
        where relation = 'events'::regclass and not granted and mode <> 'AccessShareLock'`;
      return row?.count === 1;
    };
    await until(waits);
    // Behind the migration's own lock request it would wait until the holder ends.
    await sql`select count(*) from events`;
    await holder`rollback`;
    holder.release();
    t.same(await migrating, []);
    const [found] = await sql`select from pg_class where relname = ${last?.name ?? ''}`;
    t.ok(found, 'the month was made');
    const [setting] = await sql<{ lock: string }[]>`
      select current_setting('lock_timeout') as lock`;
    t.equal(setting?.lock, '0');
  },
);

interface Table {
  oid: number;
  name: string;
}

/** The tables and views. The partitions of a table are locked as it is. */
const listTables = (sql: Queryable) => sql<Table[]>`
  select oid::int, relname as name from pg_class
  where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v') and not relispartition`;

/**
 * The strongest lock of this transaction on each of these tables, which may be dropped by now, by
 * pg_locks; none that readers take.
 */
async function heldLocks(tx: Queryable, tables: readonly Table[]) {
  const rows = await tx<{ oid: number; mode: string }[]>`
    select distinct on (relation) relation::int as oid, mode from pg_locks
    where pid = pg_backend_pid() and mode = any(${MODES})
      and relation in ${tx(tables.map(({ oid }) => oid))}
    order by relation, array_position(${MODES}, mode) desc`;
  const nameAt = new Map(tables.map(({ oid, name }) => [oid, name]));
  return Object.fromEntries(rows.map(({ oid, mode }) => [nameAt.get(oid) ?? '', nameOf(mode)]));
}

/** How often this session has read each table from end to end, by the name of the table. */
async function scansOfTables(tx: Queryable): Promise<Map<string, number>> {
  const rows = await tx<{ name: string; scans: number }[]>`
    select coalesce(parent.relname, c.relname) as name, sum(seq_scan)::int as scans
    from pg_stat_xact_user_tables s join pg_class c on c.oid = s.relid
      left join pg_inherits on inhrelid = c.oid left join pg_class parent on parent.oid = inhparent
    group by 1`;
  return new Map(rows.map(({ name, scans }) => [name, scans]));
}

/** Before the ids of all rows. */
const NO_ID = '00000000-0000-0000-0000-000000000000';

/** pg_locks says AccessExclusiveLock where the manual says ACCESS EXCLUSIVE. */
const MODES = [
  'RowExclusiveLock',
  'ShareUpdateExclusiveLock',
  'ShareLock',
  'ShareRowExclusiveLock',
  'AccessExclusiveLock',
];
const nameOf = (mode: string) =>
  mode
    .replace(/Lock$/, '')
    .replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toUpperCase();

/** Runs a migration, and returns what Postgres locked and read. */
async function observe(sql: Sql, text: string) {
  const tables = await listTables(sql);
  const statements = runsInSteps({ text }) ? statementsOf(text) : [{ text, form: '' }];
  const isConcurrent = ({ form }: Statement) => form.includes(' index concurrently ');
  const { held, scanned } = await sql.begin(async (tx) => {
    await tx`set local enable_indexscan = off`;
    await tx`set local enable_bitmapscan = off`;
    const before = await scansOfTables(tx);
    for (const one of statements.filter((statement) => !isConcurrent(statement)))
      await tx.unsafe(one.text, runsInBatches(one) ? [NO_ID] : []);
    const after = await scansOfTables(tx);
    const isScanned = (table: string) => (after.get(table) ?? 0) > (before.get(table) ?? 0);
    const scanned = tables.map(({ name }) => name).filter(isScanned);
    return { held: await heldLocks(tx, tables), scanned: scanned.sort() };
  });
  // Outside a transaction, Postgres shows no lock afterwards.
  for (const one of statements.filter(isConcurrent)) {
    await sql.unsafe(one.text);
    const table = / on (\w+) /.exec(one.form)?.[1];
    if (table !== undefined) held[table] ??= 'SHARE UPDATE EXCLUSIVE';
  }
  return { held, scanned };
}

void t.test(
  'for every migration, the planned locks and scans equal those that Postgres takes',
  async (t) => {
    const { sql } = await testDatabase(t, { empty: true });
    const files = await listMigrations();
    t.same(
      (await planMigrations(sql)).map(({ name }) => name),
      files.map(({ name }) => name),
    );
    for (const migration of [...files, ...madeMigrations]) {
      if (migration === madeMigrations[0])
        await sql`
        with merchant as (insert into merchants (wallet) values ('m') returning id)
        insert into apps (merchant_id, name) select id, 'app' from merchant`;
      const { locks, scans } = (await readPlanner(sql))(migration);
      const { held, scanned } = await observe(sql, migration.text);
      const { name } = migration;
      t.same(Object.fromEntries(locks.map(({ table, mode }) => [table, mode])), held, name);
      t.same(scans.map(({ table }) => table).sort(), scanned, `rows read by ${name}`);
    }
  },
);

void t.test(
  'for changes to constraints, the planned locks equal those that Postgres takes',
  async (t) => {
    const { sql } = await testDatabase(t);
    await sql.unsafe('create table things (id int primary key, app_id uuid)');
    const planOf = await readPlanner(sql);
    const tables = await listTables(sql);
    for (const text of [
      'alter table things add constraint of_app foreign key (app_id) references apps (id) not valid',
      'alter table things validate constraint of_app',
      'alter table things add constraint again foreign key (app_id) references apps (id), add unique (app_id)',
      'alter table things add constraint positive check (id > 0) not valid',
      'alter table only things validate constraint positive',
      'create index things_app on things (app_id)',
    ]) {
      const held = await sql.begin(async (tx) => {
        await tx.unsafe(text);
        return heldLocks(tx, tables);
      });
      const { locks } = planOf({ version: 1, name: '', text, checksum: '', minRelease: null });
      t.same(Object.fromEntries(locks.map(({ table, mode }) => [table, mode])), held, text);
    }
  },
);

void t.test(
  'billing migrate --plan prints statements and locks, and changes nothing',
  async (t) => {
    const { sql, url } = await testDatabase(t, { empty: true });
    const first = await runShared(['migrate', '--plan'], { DATABASE_URL: url });
    t.match(first, {
      code: 0,
      stdout: /0001_accounts\.sql.*It locks no existing table.*create table/s,
    });
    t.same(await sql`select from pg_tables where schemaname = 'public'`, []);
    await migrate(sql);
    const last = (await listMigrations()).at(-1)!;
    await sql`delete from schema_migrations where version = ${last.version}`;
    const next = await runShared(['migrate', '--plan', '--json'], { DATABASE_URL: url });
    t.match(JSON.parse(next.stdout), { pending: [{ name: last.name, text: last.text }] });
  },
);
