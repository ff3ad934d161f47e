// Databases that this build does not migrate: of a build before the first release, and with a
// migration that was changed after its release.
import t, { type Test } from 'tap';
import { newerVersion } from '../../../src/db/postgres/applied-migrations.ts';
import { assertSchema, migrate } from '../../../src/db/postgres/migrate.ts';
import { listMigrations } from '../../../src/db/postgres/migration-files.ts';
import { runShared } from '../../fixtures/command.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

const refused = {
  name: 'UnreleasedSchema',
  message: 'This database is of a build before 0.1.0: export what you need, start on an empty one.',
  exitCode: 2,
};

/** As builds before 0.1.0 made it, with the files that they numbered in the same way. */
async function unreleased(t: Test, versions: number) {
  const { sql, url } = await testDatabase(t, { empty: true });
  await sql.unsafe(`
    create table merchants (id uuid primary key);
    create table schema_migrations (
      version int primary key, name text, checksum text, applied_at timestamptz default now());
    insert into schema_migrations (version, name, checksum)
    select n, to_char(n, 'FM0000') || '_of_a_build.sql', md5(n::text)
    from generate_series(1, ${versions}) n`);
  return { sql, url };
}

void t.test('a database of a build before the first release is refused', async (t) => {
  for (const versions of [3, 7, 55]) {
    const { sql, url } = await unreleased(t, versions);
    await t.rejects(migrate(sql), refused);
    await t.rejects(assertSchema(sql), refused);
    const env = { DATABASE_URL: url };
    for (const args of [['migrate'], ['migrate', '--plan'], ['migrate', '--roles', '/tmp']])
      t.match(await runShared(args, env), {
        code: 2,
        stdout: '',
        stderr: `billing: ${refused.message}\n`,
      });
    t.same(
      await sql`select tablename as name from pg_tables where schemaname = 'public' order by 1`,
      [{ name: 'merchants' }, { name: 'schema_migrations' }],
      'it stays as it is',
    );
  }
});

void t.test('a database whose migration differs from release 0.1.0 is refused', async (t) => {
  const { sql } = await testDatabase(t);
  await sql`update schema_migrations set checksum = 'other' where version = 4`;
  await t.rejects(migrate(sql), refused);
});

void t.test('a changed migration of a release after 0.1.0 is refused by name', async (t) => {
  const files = await listMigrations();
  const further = { ...files[0]!, version: 8, name: '0008_further.sql', checksum: 'a' };
  const applied = (checksum: string) =>
    new Map([...files, { ...further, checksum }].map((file) => [file.version, file]));
  t.equal(newerVersion([...files, further], applied('a')), undefined);
  t.throws(() => newerVersion([...files, further], applied('b')), {
    name: 'OperatorError',
    message: /^Migration 0008_further\.sql was applied with other contents than this build's\. /,
    exitCode: 2,
  });
});
