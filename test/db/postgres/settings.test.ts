// Databases and roles whose settings or encoding are not those that the service relies on.
import t from 'tap';
import { connect } from '../../../src/db/postgres/connect.ts';
import { assertUsable } from '../../../src/db/postgres/readiness.ts';
import type { SESSION_SETTINGS } from '../../../src/db/postgres/settings.ts';
import { run, runShared } from '../../fixtures/command.ts';
import { daemonEnv, daemons, startReady } from '../../fixtures/daemons.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

const foreign = {
  TimeZone: 'Asia/Tokyo',
  DateStyle: 'German',
  IntervalStyle: 'iso_8601',
  bytea_output: 'escape',
  extra_float_digits: '0',
  standard_conforming_strings: 'off',
  default_transaction_isolation: 'serializable',
  default_transaction_deferrable: 'on',
} satisfies Record<keyof typeof SESSION_SETTINGS, string>;

void t.test('settings of a database do not reach the sessions of the service', async (t) => {
  const { sql, url } = await testDatabase(t);
  const name = new URL(url).pathname.slice(1);
  for (const [setting, value] of Object.entries(foreign))
    await sql.unsafe(`alter database ${name} set ${setting} = '${value}'`);
  const own = connect(url, { max: 1, name: 'billing test' });
  t.teardown(() => own.end());
  await assertUsable(own, url);
  const [row] = await own`
    select timestamptz '2026-12-31 23:00Z' as at, '\\x00ff5c'::bytea as bytes,
      interval '36 hours'::text as span, 0.1::float8 + 0.2 as sum,
      current_setting('transaction_isolation') as isolation`;
  t.same(row, {
    at: new Date('2026-12-31T23:00:00Z'),
    bytes: Buffer.from([0, 0xff, 0x5c]),
    span: '36:00:00',
    sum: 0.1 + 0.2,
    isolation: 'read committed',
  });
});

void t.test('each setting that a pooler drops is named with the remedy', async (t) => {
  const { url } = await testDatabase(t);
  for (const [setting, value] of Object.entries(foreign)) {
    const own = connect(url, { max: 1, name: 'billing test' });
    t.teardown(() => own.end());
    await own.unsafe(`set ${setting} = '${value}'`);
    await t.rejects(assertUsable(own, url), {
      exitCode: 2,
      message: new RegExp(
        `Postgres has ${setting} = .*alter role postgres in database .* set ${setting} = '`,
      ),
    });
  }
});

void t.test('the daemons run on a database with foreign settings', async (t) => {
  const env = await daemonEnv(t);
  const url = env.DATABASE_URL ?? '';
  const sql = connect(url, { max: 1, name: 'billing test' });
  const name = new URL(url).pathname.slice(1);
  for (const [setting, value] of Object.entries(foreign))
    await sql.unsafe(`alter database ${name} set ${setting} = '${value}'`);
  await sql.end();
  for (const daemon of daemons) {
    const running = await startReady(t, daemon, env);
    running.child.kill('SIGTERM');
    t.match(await running.ended, { code: 0 }, daemon);
  }
  t.match(await runShared(['status'], env), { code: 0 });
});

void t.test('a database that is not UTF8 is refused before anything is made in it', async (t) => {
  const { sql, url } = await testDatabase(t, { empty: true });
  for (const encoding of ['SQL_ASCII', 'LATIN1']) {
    const other = new URL(url);
    other.pathname = `${other.pathname}_${encoding.toLowerCase()}`;
    const name = other.pathname.slice(1);
    await sql.unsafe(
      `create database ${name} encoding '${encoding}' lc_collate 'C' lc_ctype 'C' template template0`,
    );
    t.teardown(async () => {
      const admin = connect(url.replace(/[^/]+$/, 'postgres'), { max: 1, name: 'billing test' });
      await admin.unsafe(`drop database ${name} with (force)`);
      await admin.end();
    });
    const env = {
      DATABASE_URL: other.href,
      ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
      METRICS_PORT: '0',
    };
    for (const command of ['migrate', 'dispatch', 'status']) {
      const refused = await run(t, [command], env);
      t.match(refused, { code: 2 }, command);
      t.match(
        refused.stderr,
        `server_encoding = ${encoding} for the database ${name}; the service needs UTF8`,
      );
      t.match(refused.stderr, /create database <name> encoding 'UTF8' template template0/);
    }
    const own = connect(other.href, { max: 1, name: 'billing test' });
    t.same(await own`select tablename from pg_tables where schemaname = 'public'`, []);
    await own.end();
  }
});
