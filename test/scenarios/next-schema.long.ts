// A rolling upgrade, seen from the old release: the next release has migrated the database. It is
// made here, one migration after this release's last.
import t from 'tap';
import { readRelease } from '../../src/config/release.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { listMigrations } from '../../src/db/postgres/migration-files.ts';
import { startStage } from '../fixtures/billing.ts';
import { run } from '../fixtures/command.ts';
import { asDaemon, daemons, stageEnv, startReady } from '../fixtures/daemons.ts';
import { startServe } from '../fixtures/serve.ts';

/** Adds a column to every table: the results of all statements that read `*` change. */
async function widen(sql: Sql): Promise<void> {
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace
      and relkind in ('r', 'p') and not relispartition order by 1`;
  for (const { name } of tables)
    await sql`alter table ${sql(name)} add column if not exists of_next_release int`;
}

/** Applies a migration that only adds, as the next release does. */
async function expand(sql: Sql, minRelease: string | null): Promise<void> {
  const version = (await listMigrations()).length + 1;
  await widen(sql);
  await sql`
    insert into schema_migrations (version, name, checksum, min_release)
    values (${version}, 'next.sql', 'of the next release', ${minRelease})
    on conflict (version) do update set min_release = excluded.min_release`;
}

void t.test('this release runs on the schema of the next one, if that allows it', async (t) => {
  const stage = await startStage(t);
  const { sql } = stage;
  const env = stageEnv(stage);
  const plan = await stage.plan();
  const collects = async () => {
    const subscription = await stage.subscriber(plan);
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  };
  const before = await Promise.all(daemons.map((daemon) => startReady(t, daemon, env)));
  await collects();
  await expand(sql, readRelease());
  await collects();
  // Restarted, as by systemd in the middle of the upgrade.
  for (const { child, ended } of before) {
    child.kill('SIGTERM');
    t.match(await ended, { code: 0 });
  }
  const after = await Promise.all(daemons.map((daemon) => startReady(t, daemon, env)));
  await collects();
  for (const running of after) await running.line('schema is that of a newer release');
  const migrated = await run(t, ['migrate'], env);
  t.match(migrated, { code: 0, stdout: /newer release/ }, 'it leaves the schema alone');

  await expand(sql, null);
  await collects();
  for (const daemon of daemons) {
    const refused = await run(t, [daemon], asDaemon(env, daemon));
    t.equal(refused.code, 1, `systemd starts ${daemon} again, until the next release is there`);
    t.match(refused.stderr, /newer than this build's \d+, on which release .* cannot run/);
  }
});

void t.test('warm connections of serve go on when every table gets a column', async (t) => {
  const served = await startServe(t, { DATABASE_POOL: '3' });
  const { token, key, appId } = await served.merchant();
  // For its rate limit.
  await served.sql`update merchants set tier = 'pro'`;
  const app = `/merchant/apps/${appId}`;
  const { id } = await served.call<{ id: string }>('POST', `${app}/webhooks`, {
    token,
    body: { url: 'https://shop.test/hook', extraEvents: ['refund_recorded'] },
  });
  const requests: [string, string, unknown?][] = [
    // Arrays.
    ['PATCH', app, { returnOrigins: ['https://shop.test', 'https://other.test'] }],
    ['POST', '/merchant/apps', { name: 'Tea', returnOrigins: ['https://tea.test'] }],
    // Bytes: the hash of a key, sealed secrets and headers.
    ['POST', '/merchant/api-keys'],
    ['POST', `${app}/webhooks/${id}/rotate-secret`],
    ['PATCH', `${app}/webhooks/${id}`, { headers: { 'x-shop': 'one' }, maxPerSecond: 5 }],
    ['PATCH', '/merchant/profile', { name: 'Coffee', mails: true }],
    ['GET', '/merchant/profile'],
    ['GET', '/merchant/api-keys'],
    ['GET', '/merchant/apps'],
    ['GET', `${app}/attention`],
    ...[
      '',
      '/plans',
      '/subscriptions',
      '/subscriptions?status=active,past_due',
      '/unregistered',
      '/transactions',
      '/refunds',
      '/checkout-sessions',
      '/analytics',
      '/webhooks',
      `/webhooks/${id}`,
      `/webhooks/${id}/deliveries`,
      '/deliveries',
      '/events',
      '/search?q=coffee',
      `/access?wallet=${served.env.PLATFORM_TREASURY}`,
    ].map((path): [string, string] => ['GET', app + path]),
  ];
  const bearers: Record<string, string> = { '/merchant/api-keys': token };
  /** Each request often enough at once that all connections have prepared its statements. */
  const ask = async () => {
    for (const [method, path, body] of requests) {
      const options = { token: bearers[path] ?? key, ...(body !== undefined && { body }) };
      await Promise.all(Array.from({ length: 6 }, () => served.call(method, path, options)));
    }
  };
  await ask();
  await ask();
  await widen(served.sql);
  await ask();
  const { returnOrigins } = await served.call<{ returnOrigins: string[] }>('GET', app, { token });
  t.same(returnOrigins, ['https://shop.test', 'https://other.test']);
  const endpoint = await served.call<object>('GET', `${app}/webhooks/${id}`, { token });
  t.match(endpoint, { extraEvents: ['refund_recorded'], maxPerSecond: 5 });
  await served.judge();
});
