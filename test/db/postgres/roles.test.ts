// The rights of the daemons' roles. That each daemon can do its whole job under its role is what
// all other tests of daemons show: their connections have these roles (test/fixtures/postgres.ts),
// and so have those of the sandbox.
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { connect, type Sql } from '../../../src/db/postgres/connect.ts';
import { daemonRoles } from '../../../src/db/postgres/daemon-roles.ts';
import { grantRights } from '../../../src/db/postgres/grants.ts';
import { rights } from '../../../src/db/postgres/roles.ts';
import { runShared } from '../../fixtures/command.ts';
import { asRole, testDatabase } from '../../fixtures/postgres.ts';
import { queueDeliveries, seedApp } from '../../fixtures/webhooks.ts';

const forbidden = { code: '42501' };

void t.test('every table of the schema is named in the rights of a daemon', async (t) => {
  const { sql } = await testDatabase(t);
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v') and not relispartition order by 1`;
  const named = new Set(daemonRoles.flatMap((daemon) => rights[daemon].select));
  t.same(
    tables.map(({ name }) => name).filter((name) => !named.has(name)),
    [],
  );
});

void t.test(
  'after migrate --roles a role has exactly the listed rights, whatever rights it had before',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    await sql.unsafe('grant all on all tables in schema public to postgres_serve');
    await grantRights(sql);
    for (const daemon of daemonRoles) {
      const found = await sql<{ name: string; select: boolean; insert: boolean; gone: boolean }[]>`
      select relname as name, has_table_privilege(${`postgres_${daemon}`}, oid, 'select') as select,
        has_table_privilege(${`postgres_${daemon}`}, oid, 'insert') as insert,
        has_table_privilege(${`postgres_${daemon}`}, oid, 'delete, truncate') as gone
      from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v')`;
      const those = (which: 'select' | 'insert' | 'gone') =>
        found.flatMap((row) => (row[which] ? [row.name] : [])).toSorted();
      t.same(those('select'), rights[daemon].select.toSorted(), daemon);
      t.same(those('insert'), rights[daemon].insert.toSorted(), daemon);
      t.same(those('gone'), rights[daemon].delete.toSorted(), daemon);
      const own = connect(asRole(url, daemon), { max: 1, name: 'billing test' });
      t.teardown(() => own.end());
      await t.rejects(own`truncate events`, forbidden);
      await t.rejects(own`alter table events add column more int`, forbidden);
      await t.rejects(own.unsafe('drop table payments'), forbidden);
    }
  },
);

/** A database with one of everything that matters, and a connection of a daemon's role. */
async function scene(t: Test, daemon: (typeof daemonRoles)[number]) {
  const { sql, url } = await testDatabase(t);
  const app = await seedApp(sql, 'http://127.0.0.1:1/');
  await queueDeliveries(sql, app, 1);
  await sql`
    insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
      platform_fee, amount_net, tx_signature, occurred_at)
    select app_id, plan_id, id, subscription_pda, subscriber_wallet, 'succeeded', now(), now() + interval '1 hour', 100, 1, 99, 's', now()
    from subscriptions`;
  const own = connect(asRole(url, daemon), { max: 1, name: 'billing test' });
  t.teardown(() => own.end());
  return { sql, own };
}

void t.test(
  "serve cannot change a plan's destination or terms, a fee, a tier, a payment or an event",
  async (t) => {
    const { sql, own } = await scene(t, 'serve');
    const everything = async (handle: Sql) =>
      JSON.stringify(
        await handle`select (select json_agg(p) from plans p) as plans, (select json_agg(m) from merchants m) as merchants,
          (select json_agg(y) from payments y) as payments, (select json_agg(e) from events e) as events`,
      );
    const before = await everything(sql);
    for (const statement of [
      `update plans set treasury = 'thief'`,
      `update plans set owner = 'thief'`,
      `update plans set puller = 'thief'`,
      `update plans set mint = 'other'`,
      `update plans set plan_pda = 'other'`,
      `update plans set amount = amount * 10`,
      `update plans set period_hours = 1`,
      `update merchants set fee_bps = 0`,
      `update merchants set tier = 'pro'`,
      `update merchants set wallet = 'thief'`,
      `update payments set amount_net = amount_gross, platform_fee = 0`,
      `update payments set status = 'failed'`,
      `delete from payments`,
      `insert into payments select * from payments`,
      `insert into payment_attempts select * from payment_attempts`,
      `insert into transactions select * from transactions`,
      `update payment_attempts set platform_fee = 0`,
      `update events set body = '{}'`,
      `delete from events`,
      `update subscriptions set amount = 1`,
      `update subscription_work set paid_through = now() + interval '100 years'`,
      `update installation set treasuries = '{thief}'`,
      `delete from subscriptions`,
      `delete from plans`,
    ])
      await t.rejects(own.unsafe(statement), forbidden, statement);
    t.equal(await everything(sql), before);
    await own`update plans set name = 'Another name'`;
    await own`update merchants set name = 'Another name'`;
    for (const statement of [
      `insert into merchants (wallet, tier) values ('w', 'pro')`,
      `insert into merchants (wallet, fee_bps) values ('w', 0)`,
      `insert into api_keys (merchant_id, prefix, hash, revoked_at) select id, 'p', sha256('a'), now() from merchants`,
    ])
      await t.rejects(own.unsafe(statement), forbidden, statement);
    await own`insert into merchants (wallet) values ('w')`;
  },
);

void t.test(
  'no role can restore a revoked key, and serve cannot read the statements of other sessions',
  async (t) => {
    const { sql, own } = await scene(t, 'serve');
    await own`insert into api_keys (merchant_id, prefix, hash) select id, 'p', sha256('a') from merchants`;
    await own`update api_keys set revoked_at = now()`;
    for (const role of [own, sql])
      await t.rejects(role`update api_keys set revoked_at = null`, {
        code: '23514',
        message: 'a revoked API key stays revoked',
      });
    await own`update api_keys set last_used_at = now()`;

    const writer = await sql.reserve();
    await writer`begin`;
    await writer`update merchants set name = 'A secret'`;
    const [begun] = await writer<{ start: Date }[]>`select now() as start`;
    const [seen] = await own<{ oldest: Date; hidden: boolean }[]>`
      select oldest_writer() as oldest, not exists (
        select from pg_stat_activity where query like '%A secret%' and pid <> pg_backend_pid()
      ) as hidden`;
    t.same(seen, { oldest: begun?.start, hidden: true });
    await writer`rollback`;
    writer.release();
  },
);

void t.test('keeper reads no API key and sets no fee; dispatch writes no money', async (t) => {
  const keeper = (await scene(t, 'keeper')).own;
  for (const statement of [
    'select hash from api_keys',
    'update merchants set fee_bps = 0',
    `update plans set treasury = 'thief'`,
    'update payments set platform_fee = 0, amount_net = amount_gross',
    'update payment_attempts set platform_fee = 0',
    `update events set body = '{}'`,
    `update installation set treasuries = '{thief}'`,
    'update installation set history_accepted_until = now()',
    'delete from collection_holds',
    `update admin_actions set who = 'nobody'`,
  ])
    await t.rejects(keeper.unsafe(statement), forbidden, statement);
  const dispatch = (await scene(t, 'dispatch')).own;
  for (const statement of [
    'select * from subscriptions',
    'select * from api_keys',
    'select * from payments',
    `update webhook_endpoints set url = 'https://thief.example'`,
    `update events set body = '{}'`,
    `update deliveries set status = 'delivered'`,
  ])
    await t.rejects(dispatch.unsafe(statement), forbidden, statement);
});

/** An owner that is no superuser, with an empty database of its own; both go when the test ends. */
async function installation(t: Test) {
  const { sql, url } = await testDatabase(t, { empty: true });
  const name = `billing_${randomBytes(4).toString('hex')}`;
  const database = new URL(url).pathname.slice(1);
  await sql.unsafe(`create role ${name}_owner login createrole password 'its own'`);
  await sql.unsafe(`alter database ${database} owner to ${name}_owner`);
  await sql.unsafe(`grant create on schema public to ${name}_owner`);
  t.teardown(async () => {
    await sql.unsafe(`alter database ${database} owner to postgres`);
    for (const role of [...daemonRoles, 'owner'])
      await sql.unsafe(`drop owned by ${name}_${role} cascade; drop role ${name}_${role}`);
  });
  const owned = new URL(url);
  owned.username = `${name}_owner`;
  owned.password = 'its own';
  const directory = join(t.testdir(), 'credentials');
  await mkdir(directory);
  return { sql, name, directory, env: { DATABASE_URL: owned.href } };
}

void t.test(
  'migrate --roles works without superuser, and only its user can read the credential files',
  async (t) => {
    const { sql, name, directory, env } = await installation(t);
    const [version] = await sql<{ number: number }[]>`
      select current_setting('server_version_num')::int as number`;
    // Before Postgres 16, any role with createrole may grant and revoke pg_read_all_stats.
    const mayGrant = (version?.number ?? 0) < 160_000;
    const first = await runShared(['migrate', '--json', '--roles', directory], env);
    t.equal(first.code, 0, first.stderr);
    t.match(JSON.parse(first.stdout), {
      roles: { serve: `${name}_serve`, keeper: `${name}_keeper`, dispatch: `${name}_dispatch` },
      statistics: { owner: `${name}_owner`, ownerSees: mayGrant, serveSees: false },
    });
    const urls = () =>
      Promise.all(
        daemonRoles.map((daemon) => readFile(join(directory, `${daemon}_database_url`), 'utf8')),
      );
    const written = await urls();
    t.equal(new Set(written.map((url) => new URL(url).password)).size, daemonRoles.length);
    for (const [index, daemon] of daemonRoles.entries()) {
      const { mode } = await stat(join(directory, `${daemon}_database_url`));
      t.equal(mode & 0o777, 0o600);
      const own = connect(written[index] ?? '', { max: 1, name: 'billing test' });
      const [row] = await own<
        { user: string }[]
      >`select current_user as user from schema_migrations`;
      t.equal(row?.user, `${name}_${daemon}`);
      await own.end();
    }
    const [role] = await sql`
      select rolsuper, rolcreaterole, rolcreatedb, rolbypassrls from pg_roles where rolname = ${`${name}_serve`}`;
    t.same(Object.values(role ?? {}), [false, false, false, false]);
    t.notMatch(first.stdout + first.stderr, new URL(written[0] ?? '').password);

    await sql.unsafe(`grant pg_read_all_stats to ${name}_serve`);
    const old = await runShared(['migrate', '--roles', directory], env);
    t.equal(
      old.stdout.includes(`"revoke pg_read_all_stats from ${name}_serve"`),
      !mayGrant,
      'an earlier build gave it to serve',
    );
    await sql.unsafe(`revoke pg_read_all_stats from ${name}_serve`);

    // An upgrade without --roles.
    const serveSees = async () => {
      const [row] = await sql<{ sees: boolean }[]>`
        select pg_has_role(${`${name}_serve`}, 'pg_read_all_stats', 'usage') as sees`;
      return row?.sees;
    };
    await sql.unsafe(`grant pg_read_all_stats to ${name}_serve`);
    const plain = await runShared(['migrate'], env);
    t.equal(plain.code, 0, plain.stderr);
    t.equal(
      plain.stdout.includes(`"revoke pg_read_all_stats from ${name}_serve"`),
      !mayGrant,
      'what the owner may not change is said',
    );
    t.equal(await serveSees(), !mayGrant);
    await sql.unsafe(`revoke pg_read_all_stats from ${name}_serve`);
    await sql.unsafe(`grant pg_read_all_stats to ${name}_owner with admin option`);
    await sql.unsafe(
      `set role ${name}_owner; grant pg_read_all_stats to ${name}_serve; reset role`,
    );
    t.equal((await runShared(['migrate'], env)).code, 0);
    t.equal(await serveSees(), false, 'what the owner granted is revoked');
    await sql.unsafe(`revoke pg_read_all_stats from ${name}_owner cascade`);

    await sql.unsafe(`grant pg_read_all_stats to ${name}_owner`);
    await sql.unsafe(`revoke select on plans from ${name}_serve`);
    const again = await runShared(['migrate', '--roles', directory], env);
    t.equal(again.code, 0, again.stderr);
    t.notMatch(again.stdout, /A superuser should/, 'it has pg_read_all_stats now');
    t.same(await urls(), written, 'passwords stay');
    const [plans] = await sql<{ may: boolean }[]>`
      select has_table_privilege(${`${name}_serve`}, 'plans', 'select') as may`;
    t.equal(plans?.may, true, 'each migration grants anew');
    t.equal(await serveSees(), false);
  },
);

void t.test('when billing migrate --roles fails, the error says how to fix it', async (t) => {
  const { sql, name, directory, env } = await installation(t);
  await sql.unsafe(`alter role ${name}_owner nocreaterole`);
  const refused = await runShared(['migrate', '--roles', directory], env);
  t.equal(refused.code, 1);
  t.match(refused.stderr, /cannot create roles.*alter role <user> createrole/s);
  await sql.unsafe(`alter role ${name}_owner createrole`);
  const made = await runShared(['migrate', '--roles', directory], env);
  t.equal(made.code, 0, made.stderr);
  const elsewhere = await runShared(['migrate', '--roles', join(directory, 'missing')], env);
  t.match(elsewhere, { code: 1, stderr: /missing\/serve_database_url cannot be written/ });
});

void t.test('with a pooler, billing migrate --roles writes both URLs of each role', async (t) => {
  const { name, directory, env, sql } = await installation(t);
  const made = await runShared(['migrate', '--roles', directory], {
    // Nothing connects to the pooler.
    DATABASE_URL: env.DATABASE_URL.replace(/@[^/]+/, '@pooler.test:6432'),
    DATABASE_DIRECT_URL: env.DATABASE_URL,
  });
  t.equal(made.code, 0, made.stderr);
  for (const daemon of daemonRoles) {
    const [file, directFile] = [`${daemon}_database_url`, `${daemon}_database_direct_url`];
    t.match(made.stdout, `DATABASE_DIRECT_URL_FILE=${join(directory, directFile)}`);
    const [pooled, direct] = await Promise.all(
      [file, directFile].map(
        async (path) => new URL(await readFile(join(directory, path), 'utf8')),
      ),
    );
    t.match(pooled, { host: 'pooler.test:6432', username: `${name}_${daemon}` });
    t.match(direct, { host: new URL(env.DATABASE_URL).host, username: `${name}_${daemon}` });
    t.equal(pooled?.password, direct?.password);
  }
  const rows = await sql<{ role: string; settings: string[] }[]>`
    select rolname as role, setconfig as settings from pg_db_role_setting
      join pg_roles on pg_roles.oid = setrole
    where starts_with(rolname, ${name}) and setdatabase <> 0 order by 1`;
  t.same(
    rows.map(({ role, settings }) => [role, settings.includes('statement_timeout=8000')]),
    ['dispatch', 'keeper', 'serve'].map((daemon) => [`${name}_${daemon}`, true]),
  );
});
