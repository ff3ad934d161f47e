import t, { type Test } from 'tap';
import { connect, type Sql } from '../../../src/db/postgres/connect.ts';
import { migrate } from '../../../src/db/postgres/migrate.ts';
import { applyMigration, setTimeouts } from '../../../src/db/postgres/migration-apply.ts';
import { runShared } from '../../fixtures/command.ts';
import { blocksOf } from '../../fixtures/pages.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

const NEXT = 9999;
const migrationOf = (text: string) => ({
  version: NEXT,
  name: '9999_next.sql',
  text: `-- concurrently\n${text}`,
  checksum: 'x',
  minRelease: null,
});

/** A database with the table `things` of 25 rows, and the partitioned table `days`. */
async function withThings(t: Test) {
  const { sql, url } = await testDatabase(t);
  await sql.unsafe(`
    create table things (id uuid primary key default uuid_v7(), n int not null);
    insert into things (n) select n from generate_series(1, 25) n;
    create table days (id uuid not null default uuid_v7(), day int not null) partition by list (day);
    create table days_1 partition of days for values in (1);
    create table days_2 partition of days for values in (2);
    insert into days (day) values (1), (2)`);
  const one = connect(url, { max: 1, name: 'billing test' });
  t.teardown(() => one.end({ timeout: 1 }));
  await setTimeouts(one);
  return { sql, one, url };
}

async function isApplied(sql: Sql): Promise<boolean> {
  const rows = await sql`select from schema_migrations where version = ${NEXT}`;
  return rows.length === 1;
}

async function indexesOf(sql: Sql, name: string) {
  const rows = await sql<{ name: string; valid: boolean }[]>`
    select relname as name, indisvalid as valid from pg_index join pg_class on oid = indexrelid
    where relname like ${`%${name}`} order by 1`;
  return Object.fromEntries(rows.map((row) => [row.name, row.valid]));
}

const wholeText = `
alter table things add column if not exists kind text not null default 'a;b';
create index concurrently if not exists things_n on things (n) where kind = 'a;b';
Create Index Concurrently if not exists days_day
  On days (day, id);
alter table things drop constraint if exists n_is_positive,
  add constraint n_is_positive check (n > 0) not valid;
alter table things validate constraint n_is_positive;
-- batches
update things set n = n + 100 where id in (
  select id from things where id > $1 and n < 100 order by id limit 10)
returning id;
`;

void t.test('the migration in development.md can be applied, and applied again', async (t) => {
  const { one } = await withThings(t);
  const [shown] = (await blocksOf('development.md')).filter(({ language }) => language === 'sql');
  const migration = { ...migrationOf(''), text: shown?.code ?? '' };
  await applyMigration(one, migration);
  t.same(await indexesOf(one, 'subscriptions_kind'), { subscriptions_kind: true });
  await one`delete from schema_migrations where version = ${NEXT}`;
  await applyMigration(one, migration);
});

void t.test('a migration marked as "steps" is applied outside a transaction', async (t) => {
  const { sql, one } = await withThings(t);
  const steps: string[] = [];
  await applyMigration(one, migrationOf(wholeText), (words) => steps.push(words));
  t.ok(await isApplied(sql));
  t.same(await indexesOf(sql, 'things_n'), { things_n: true });
  t.same(await indexesOf(sql, 'days_day'), {
    days_day: true,
    days_1_days_day: true,
    days_2_days_day: true,
  });
  t.match(await sql`select convalidated from pg_constraint where conname = 'n_is_positive'`, [
    { convalidated: true },
  ]);
  t.match(
    await sql`select count(*)::int, count(distinct xmin::text)::int as transactions from things`,
    [{ count: 25, transactions: 3 }],
  );
  t.match(await sql`select min(n) from things`, [{ min: 101 }]);
  t.equal(steps.at(-1), '9999_next.sql, statement 6 of 6: 25 rows');

  await sql`delete from schema_migrations where version = ${NEXT}`;
  await applyMigration(one, migrationOf(wholeText));
  t.ok(await isApplied(sql), 'run again, as after an interruption before the end');
});

void t.test('an interrupted migration continues when it is run again', async (t) => {
  const { sql, one } = await withThings(t);
  await sql.unsafe(`
    create function refuse() returns trigger language plpgsql
      as $$ begin raise exception 'interrupted'; end $$;
    create trigger refuse before update on things for each row when (old.n = 15)
      execute function refuse()`);
  await t.rejects(applyMigration(one, migrationOf(wholeText)), { message: 'interrupted' });
  t.notOk(await isApplied(sql));
  t.match(await sql`select count(*)::int from things where n > 100`, [{ count: 10 }], 'one batch');
  await sql`drop trigger refuse on things`;
  await applyMigration(one, migrationOf(wholeText));
  t.ok(await isApplied(sql));
  t.match(await sql`select min(n), max(n) from things`, [{ min: 101, max: 125 }]);
});

void t.test('the invalid index that an interrupted build left behind is removed', async (t) => {
  const { sql, one } = await withThings(t);
  const unique = migrationOf(`
    create unique index concurrently if not exists things_once on things (n);
    create unique index concurrently if not exists days_once on days (day, (0))`);
  await sql`insert into things (n) values (1)`;
  await t.rejects(applyMigration(one, unique), { code: '23505' });
  t.same(await indexesOf(sql, 'things_once'), { things_once: false });
  await sql`delete from things where n = 1`;
  await sql`insert into days (day) values (2)`;
  await t.rejects(applyMigration(one, unique), { code: '23505' });
  t.same(await indexesOf(sql, 'things_once'), { things_once: true });
  t.same(await indexesOf(sql, 'days_once'), {
    days_once: false,
    days_1_days_once: true,
    days_2_days_once: false,
  });
  await sql`delete from days where day = 2`;
  await applyMigration(one, unique);
  t.notOk(Object.values(await indexesOf(sql, 'days_once')).includes(false));
});

void t.test(
  'a concurrent index build waits for old transactions but blocks no writes to the table',
  async (t) => {
    const { sql, one } = await withThings(t);
    const old = await sql.reserve();
    await old`begin isolation level repeatable read`;
    await old`insert into things (n) values (26)`;
    const applying = applyMigration(
      one,
      migrationOf('create index concurrently if not exists things_n on things (n)'),
    );
    for (;;) {
      const [waiting] = await sql`
      select from pg_locks where locktype = 'virtualxid' and not granted`;
      if (waiting !== undefined) break;
    }
    await sql`insert into things (n) values (27)`;
    await old`commit`;
    old.release();
    await applying;
    t.same(await indexesOf(sql, 'things_n'), { things_n: true });
  },
);

void t.test(
  'a migration that waits for another migration does not block its concurrent index build',
  async (t) => {
    const { sql, one } = await withThings(t);
    await one`select pg_advisory_lock(2455464)`;
    const waiting = migrate(sql);
    for (;;) {
      const [asked] = await sql`
      select from pg_stat_activity where query like '%pg_try_advisory_lock%' and state = 'idle'
        and datname = current_database()`;
      if (asked !== undefined) break;
    }
    await one`create index concurrently things_n on things (n)`;
    await one`select pg_advisory_unlock(2455464)`;
    t.same(await waiting, []);
  },
);

void t.test('timeouts of the database and of the role do not end a migration', async (t) => {
  const { sql, url } = await testDatabase(t, { empty: true });
  const name = new URL(url).pathname.slice(1);
  for (const setting of [
    'statement_timeout',
    'lock_timeout',
    'idle_in_transaction_session_timeout',
  ])
    await sql.unsafe(`alter database ${name} set ${setting} = '1ms'`);
  t.match(await runShared(['migrate'], { DATABASE_URL: url }), {
    code: 0,
    stdout: /Applied 0001_accounts/,
    stderr: '',
  });
});
