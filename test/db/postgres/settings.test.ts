// Databases and roles whose settings or encoding are not those that the service relies on.
import t from 'tap';
import { connect } from '../../../src/db/postgres/connect.ts';
import { assertUsable } from '../../../src/db/postgres/readiness.ts';
import {
  CHECKED_SETTINGS,
  type Planning,
  ROLE_SETTINGS,
  SESSION_SETTINGS,
} from '../../../src/db/postgres/settings.ts';
import { run, runShared } from '../../fixtures/command.ts';
import { daemonEnv, daemons, startReady } from '../../fixtures/daemons.ts';
import { randomAddress } from '../../fixtures/http.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { startServe } from '../../fixtures/serve.ts';
import { until } from '../../fixtures/webhooks.ts';

const foreign = {
  search_path: 'app',
  TimeZone: 'Asia/Tokyo',
  DateStyle: 'German',
  IntervalStyle: 'iso_8601',
  bytea_output: 'escape',
  extra_float_digits: '0',
  standard_conforming_strings: 'off',
  default_transaction_isolation: 'serializable',
  array_nulls: 'off',
  transform_null_equals: 'on',
  exit_on_error: 'on',
  default_transaction_deferrable: 'on',
} satisfies Record<keyof typeof SESSION_SETTINGS, string>;

/** Settings of sessions that may have any value, by the reason. */
const free = {
  'it only changes which error or notice there is': [
    ...['lc_messages', 'client_min_messages', 'escape_string_warning', 'row_security'],
    ...['check_function_bodies', 'icu_validation_level'],
  ],
  'it ends what takes too long, as an error': [
    ...['statement_timeout', 'lock_timeout', 'transaction_timeout'],
    ...['idle_in_transaction_session_timeout', 'idle_session_timeout'],
  ],
  'readiness checks it again and again, since a failover changes it': [
    ...['default_transaction_read_only', 'transaction_read_only'],
  ],
  'it follows its default at each transaction': [
    ...['transaction_isolation', 'transaction_deferrable'],
  ],
  'no statement uses it': [
    ...['default_text_search_config', 'lc_monetary', 'lc_numeric', 'lc_time', 'backslash_quote'],
    ...['timezone_abbreviations', 'xmlbinary', 'xmloption', 'lo_compat_privileges'],
    ...['gin_fuzzy_search_limit', 'quote_all_identifiers', 'createrole_self_grant'],
    ...['restrict_nonsystem_relation_kind', 'event_triggers', 'synchronize_seqscans'],
  ],
  'it changes where and how data is stored': [
    ...['default_table_access_method', 'default_tablespace', 'default_toast_compression'],
    ...['temp_tablespaces', 'gin_pending_list_limit'],
  ],
  'it loads code': [
    ...['dynamic_library_path', 'extension_control_path', 'local_preload_libraries'],
    ...['session_preload_libraries'],
  ],
};

void t.test(
  'each Postgres setting that can change the meaning of statements is set or checked',
  async (t) => {
    const { sql } = await testDatabase(t);
    const known = new Set([
      ...Object.keys({ ...SESSION_SETTINGS, ...CHECKED_SETTINGS }),
      ...Object.values(free).flat(),
      'client_encoding',
    ]);
    const found = await sql<{ name: string }[]>`
    select name from pg_settings
    where context in ('user', 'superuser', 'backend', 'superuser-backend')
      and category ~ '^(Client Connection Defaults|Version and Platform|Error Handling)'`;
    t.ok(found.length > 40);
    t.same(
      found.flatMap(({ name }) => (known.has(name) ? [] : [name])),
      [],
    );
  },
);

void t.test(
  'settings of the database (ALTER DATABASE) do not affect the sessions of the service',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const name = new URL(url).pathname.slice(1);
    for (const [setting, value] of Object.entries(foreign))
      await sql.unsafe(`alter database ${name} set ${setting} = '${value}'`);
    const own = connect(url, { max: 1, name: 'billing test' });
    t.teardown(() => own.end());
    await assertUsable(own, url);
    const [row] = await own`
    select timestamptz '2026-12-31 23:00Z' as at, '\\x00ff5c'::bytea as bytes,
      interval '36 hours'::text as span, current_schema() as schema, 0.1::float8 + 0.2 as sum,
      current_setting('transaction_isolation') as isolation`;
    t.same(row, {
      at: new Date('2026-12-31T23:00:00Z'),
      bytes: Buffer.from([0, 0xff, 0x5c]),
      span: '36:00:00',
      schema: 'public',
      sum: 0.1 + 0.2,
      isolation: 'read committed',
    });
  },
);

void t.test(
  'queries of lists and reports are planned with their parameter values at each execution',
  async (t) => {
    const { url } = await testDatabase(t);
    const generic = async (planning: Planning) => {
      const sql = connect(url, { max: 1, name: 'billing test', planning });
      t.teardown(() => sql.end());
      for (let times = 1; times <= 10; times += 1)
        await sql`select id from subscriptions where subscriber_wallet = ${'wallet'}`;
      const [found] = await sql<{ plans: number }[]>`
      select generic_plans::int as plans from pg_prepared_statements
      where statement like '%subscriber_wallet%' and generic_plans + custom_plans = 10`;
      return found?.plans;
    };
    t.equal(await generic('serve'), 0);
    t.equal(await generic('report'), 0);
    t.equal(await generic('daemon'), 5, 'the keeper keeps its plans');
  },
);

void t.test(
  'behind a pooler, queries of the serve role are also planned with their parameter values',
  (t) => {
    t.match(ROLE_SETTINGS.serve, { plan_cache_mode: 'force_custom_plan' });
    t.notOk('plan_cache_mode' in ROLE_SETTINGS.keeper);
    t.notOk('plan_cache_mode' in ROLE_SETTINGS.dispatch);
    t.end();
  },
);

void t.test(
  'a session whose settings a pooler drops is refused with the missing setting and the remedy',
  async (t) => {
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
  },
);

void t.test('disabled triggers and foreign keys are reported with the remedy', async (t) => {
  const { sql, url } = await testDatabase(t);
  const name = new URL(url).pathname.slice(1);
  const connected = () => {
    const own = connect(url, { max: 1, name: 'billing test' });
    t.teardown(() => own.end());
    return own;
  };
  await sql.unsafe(`alter database ${name} set session_replication_role = 'replica'`);
  const refusal = await assertUsable(connected(), url).then(
    () => '',
    (error: unknown) => (error as Error).message,
  );
  t.match(refusal, /^Postgres has session_replication_role = replica, and the service needs/);
  const remedy = /alter role (\S+) in database .*'origin'/.exec(refusal)!;
  t.teardown(() => sql.unsafe(`alter role ${remedy[1]!} in database ${name} reset all`));
  await sql.unsafe(remedy[0]);
  await assertUsable(connected(), url);
});

void t.test('the daemons run on a database whose settings differ from the defaults', async (t) => {
  const env = await daemonEnv(t);
  const url = env.DATABASE_URL ?? '';
  const sql = connect(url, { max: 1, name: 'billing test' });
  const name = new URL(url).pathname.slice(1);
  await sql`create schema app`;
  for (const [setting, value] of Object.entries(foreign))
    await sql.unsafe(`alter database ${name} set ${setting} = '${value}'`);
  await sql.end();
  for (const daemon of daemons) {
    const running = await startReady(t, daemon, env);
    running.child.kill('SIGTERM');
    t.match(await running.ended, { code: 0 }, daemon);
  }
  t.match(await runShared(['status'], env), { code: 0 });
  t.match(await runShared(['migrate'], env), { code: 0, stdout: /The schema is up to date/ });
});

void t.test(
  'a database that is not UTF8 is refused before anything is created in it',
  async (t) => {
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
        SOLANA_RPC_URL: 'http://127.0.0.1:1',
        KEEPER_ADDRESS: randomAddress(),
        PLATFORM_TREASURY: randomAddress(),
        JWT_SECRET: 'j'.repeat(32),
      };
      for (const command of ['migrate', 'serve', 'dispatch', 'status']) {
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
  },
);

void t.test(
  'serve stores and reads every character unchanged in a SQL_ASCII database',
  async (t) => {
    const served = await startServe(t);
    const { sql, databaseUrl } = served;
    const { token, appId } = await served.merchant();
    const name = 'Grüße, 東京 💶';
    const path = `/merchant/apps/${appId}`;
    await served.call('PATCH', path, { token, body: { name } });
    // The same rows in a database of another encoding, as after a restore into a wrong one.
    await sql`update pg_database set encoding = 0 where datname = current_database()`;
    await sql`
      select pg_terminate_backend(pid, 60000) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`;
    await until(async () => (await fetch(`${served.url}/readyz`)).ok);
    const shown = async () => (await served.call<{ name: string }>('GET', path, { token })).name;
    t.equal(await shown(), name);
    await served.call('PATCH', path, { token, body: { name: `${name} ñ` } });
    t.equal(await shown(), `${name} ñ`);
    const own = connect(databaseUrl, { max: 1, name: 'billing test' });
    t.teardown(() => own.end());
    t.match(
      await own`
        select current_setting('server_encoding') as encoding, name,
          convert_to(name, 'SQL_ASCII') as bytes from apps`,
      [{ encoding: 'SQL_ASCII', name: `${name} ñ`, bytes: Buffer.from(`${name} ñ`) }],
    );
    await t.rejects(assertUsable(own, databaseUrl), { message: /server_encoding = SQL_ASCII/ });
  },
);
