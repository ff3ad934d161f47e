// A rolling upgrade, seen from the old release: the next release has migrated the database. It is
// made here, one migration after this release's last.
import t from 'tap';
import { readRelease } from '../../src/config/release.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { listMigrations } from '../../src/db/postgres/migration-files.ts';
import { startStage } from '../fixtures/billing.ts';
import { run } from '../fixtures/command.ts';
import { asDaemon, daemons, stageEnv, startReady } from '../fixtures/daemons.ts';

/** Applies a migration that only adds, as the next release does. */
async function expand(sql: Sql, minRelease: string | null): Promise<void> {
  const version = (await listMigrations()).length + 1;
  await sql.unsafe('alter table subscriptions add column if not exists of_next_release int');
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
