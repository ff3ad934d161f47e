import t from 'tap';
import { findStaleCollations } from '../../../src/db/postgres/collations.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

void t.test(
  'a collation whose recorded version differs from its library’s version is found',
  async (t) => {
    const { sql } = await testDatabase(t);
    t.same(await findStaleCollations(sql), []);
    await sql`update pg_database set datcollversion = '0.1' where datname = current_database()`;
    t.match(await findStaleCollations(sql), [
      {
        name: 'the database',
        recorded: '0.1',
        remedy: /^reindex \(concurrently\) database billing_test_\w+; alter database \w+ refresh/,
      },
    ]);
    await sql`update pg_database set datcollversion = null where datname = current_database()`;

    const [icu] = await sql<{ name: string }[]>`
    select collname as name from pg_collation where collversion is not null order by 1 limit 1`;
    t.ok(icu, 'the server has a collation with a version');
    const name = icu?.name ?? '';
    await sql`update pg_collation set collversion = '0.1' where collname = ${name}`;
    t.same(await findStaleCollations(sql), [], 'no index uses it');
    await sql.unsafe(`
    create table things (name text collate "${name}");
    create index things_name on things (name)`);
    const [found] = await findStaleCollations(sql);
    t.match(found, { name, recorded: '0.1' });
    // What the remedy says works.
    for (const statement of (found?.remedy ?? '').split('; ')) await sql.unsafe(statement);
    t.same(await findStaleCollations(sql), []);
  },
);
