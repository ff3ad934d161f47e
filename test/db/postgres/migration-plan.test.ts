import t, { type Test } from 'tap';
import { readPlanner } from '../../../src/db/postgres/migration-plan.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

async function planner(t: Test) {
  const { sql } = await testDatabase(t);
  await sql`update pg_class set reltuples = 2000000 where relname = 'subscriptions'`;
  await sql`
    update pg_class set reltuples = 600000
    where oid in (
      select inhrelid from pg_inherits where inhparent = 'events'::regclass
      order by inhrelid limit 2)`;
  await sql`update pg_class set reltuples = 50000 where relname = 'plans'`;
  const planOf = await readPlanner(sql);
  return (text: string) =>
    planOf({ version: 9999, name: 'next.sql', text, checksum: 'x', minRelease: null });
}

void t.test('a migration plan warns of locks that are held while rows are read', async (t) => {
  const plan = await planner(t);
  t.match(plan('alter table subscriptions add column a int not null default 0'), {
    inSteps: false,
    locks: [{ table: 'subscriptions', mode: 'ACCESS EXCLUSIVE' }],
    scans: [],
    warnings: [],
  });
  t.match(plan('alter table subscriptions add constraint a check (amount > 0)'), {
    scans: [{ table: 'subscriptions', rows: 2_000_000 }],
    warnings: [
      'It holds subscriptions while it reads about 2,000,000 rows: until it ends, statements of the daemons wait.',
    ],
  });
  t.match(plan('alter table plans alter column name set not null').warnings, []);
  t.match(
    plan('alter table plans add column a int; update subscriptions set amount = 1').warnings,
    [/^It holds plans while it reads about 2,000,000 rows/],
    'a lock is held until the transaction ends',
  );
  t.same(plan('update subscriptions set amount = 1').warnings, [
    'It reads about 2,000,000 rows in one transaction.',
  ]);
  t.match(plan('create index a on subscriptions (amount)').warnings, [/^It holds subscriptions /]);
});

void t.test('each step of a migration in steps is planned separately', async (t) => {
  const plan = await planner(t);
  const fine = plan(`-- concurrently
    alter table subscriptions add column if not exists a int not null default 0;
    alter table subscriptions add constraint a check (a >= 0) not valid;
    alter table subscriptions validate constraint a;
    create index concurrently if not exists a on subscriptions (a);
    -- batches
    update subscriptions set a = 1
    where id in (select id from subscriptions where id > $1 order by id limit 2000) returning id`);
  t.match(fine, {
    inSteps: true,
    locks: [{ table: 'subscriptions', mode: 'ACCESS EXCLUSIVE' }],
    scans: [{ table: 'subscriptions', rows: 2_000_000 }],
    warnings: [],
  });
  t.match(plan('-- concurrently\nupdate subscriptions set amount = 1').warnings, [
    /^It reads about 2,000,000 rows/,
  ]);
});

void t.test(
  'the planned row count of a partitioned table is the sum of its partitions',
  async (t) => {
    const plan = await planner(t);
    t.same(plan('delete from events').scans, [{ table: 'events', rows: 1_200_000 }]);
  },
);
