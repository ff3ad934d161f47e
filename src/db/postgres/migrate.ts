// Forward-only migrations. Each file of sql/ is applied once, under an advisory lock: in a
// transaction of its own, or statement by statement (migration-apply.ts).
import { setTimeout as delay } from 'node:timers/promises';
import { OperatorError } from '../../errors.ts';
import { newerVersion, readApplied } from './applied-migrations.ts';
import type { Queryable, Sql } from './connect.ts';
import { grantRights } from './grants.ts';
import { applyMigration, patiently, setTimeouts } from './migration-apply.ts';
import { listMigrations } from './migration-files.ts';
import { type Planned, readPlanner } from './migration-plan.ts';
import { isLost } from './outage.ts';
import { SCHEMA } from './settings.ts';

// Arbitrary key of the advisory lock: "billing" on a phone keypad.
const ADVISORY_LOCK = 2455464n;
/**
 * Interval (ms) at which a process that waits for another migration checks whether it has ended.
 */
const LOOK_MS = 200;

/**
 * Throws an OperatorError if tables cannot be created in the schema `public`. Also throws one if
 * another schema already has the tables of an installation, because `migrate` would then create a
 * second, empty installation in `public`.
 */
async function refuseElsewhere(sql: Queryable): Promise<void> {
  const [row] = await sql<{ database: string; user: string; creates: boolean | null }[]>`
    select quote_ident(current_database()) as database, quote_ident(current_user) as user,
      has_schema_privilege(to_regnamespace(${SCHEMA})::oid, 'create, usage') as creates`;
  const { database = '', user = '', creates = null } = row ?? {};
  if (creates !== true)
    throw new OperatorError(
      `The tables of billing belong into the schema ${SCHEMA} of the database ${database}, which ${creates === null ? 'does not exist' : `${user} may not create tables in`}. ` +
        `As a superuser, in that database: create schema if not exists ${SCHEMA}; grant usage, create on schema ${SCHEMA} to ${user}.`,
    );
  const [other] = await sql<{ name: string }[]>`
    select quote_ident(nspname) as name from pg_namespace n
    where nspname <> ${SCHEMA} and 2 = (
      select count(*) from pg_class
      where relnamespace = n.oid and relname in ('schema_migrations', 'delivery_queue'))
    limit 1`;
  if (other !== undefined)
    throw new OperatorError(
      `The database ${database} has an installation of billing in the schema ${other.name}; billing uses the schema ${SCHEMA} only. ` +
        `With the daemons stopped and ${SCHEMA} empty: drop schema ${SCHEMA}; alter schema ${other.name} rename to ${SCHEMA}. Or create another database for a new installation.`,
    );
}

/**
 * Waits while another process migrates. Then applies the pending migrations, grants the daemon
 * roles their rights, and returns the names of the applied files. If the schema is newer and allows
 * this release, does nothing. Throws an OperatorError if (1) the newer schema does not allow this
 * release, (2) a build before release 0.1.0 made the schema, or an applied file has changed, (3) a
 * table stays locked, or (4) the schema `public` cannot be used.
 */
export async function migrate(
  sql: Sql,
  onStep: (words: string) => void = () => undefined,
): Promise<string[]> {
  const migrations = await listMigrations();
  onStep('waiting for another migration to end');
  const reserved = await lockedSession(sql);
  const giveBack = async () => {
    await reserved`select pg_advisory_unlock(${ADVISORY_LOCK})`.catch(() => undefined);
    await reserved`reset all`.catch(() => undefined);
    reserved.release();
  };
  try {
    await setTimeouts(reserved);
    const applied = await readApplied(reserved, migrations);
    if (applied.size === 0) await refuseElsewhere(reserved);
    if (newerVersion(migrations, applied) !== undefined) {
      await giveBack();
      return [];
    }
    const pending = migrations.filter(({ version }) => !applied.has(version));
    for (const migration of pending) await applyMigration(reserved, migration, onStep);
    const months = 'making the partitions of the months ahead';
    onStep(months);
    await patiently(months, () => reserved`select make_months()`);
    await grantRights(reserved);
    await giveBack();
    return pending.map(({ name }) => name);
  } catch (error) {
    // After a lost connection there is nothing to release, because Postgres has released the lock.
    // A statement on the lost connection would crash postgres.js (connect.ts).
    if (!isLost(error)) await giveBack();
    throw error;
  }
}

/**
 * Returns a session that holds the lock of migrations. Polls for the lock. A statement that waits
 * for the lock would deadlock with `create index concurrently` in the other process, which waits
 * for that statement. Between two polls the session is back in the pool, because losing a reserved
 * idle session would crash postgres.js at the next statement.
 */
async function lockedSession(sql: Sql) {
  for (;;) {
    const session = await sql.reserve();
    const [lock] = await session<{ isFree: boolean }[]>`
      select pg_try_advisory_lock(${ADVISORY_LOCK}) as is_free`;
    if (lock?.isFree === true) return session;
    session.release();
    await delay(LOOK_MS);
  }
}

/** Lists the pending migrations with what they lock and read. Changes nothing. */
export async function planMigrations(sql: Sql): Promise<Planned[]> {
  const migrations = await listMigrations();
  const applied = await readApplied(sql, migrations);
  if (applied.size === 0) await refuseElsewhere(sql);
  if (newerVersion(migrations, applied) !== undefined) return [];
  const planOf = await readPlanner(sql);
  return migrations.filter(({ version }) => !applied.has(version)).map(planOf);
}

/**
 * Returns the schema's version if it is newer than this build, otherwise undefined. Throws an
 * OperatorError if the newer schema does not allow this release.
 */
export async function newerSchema(sql: Sql): Promise<number | undefined> {
  const migrations = await listMigrations();
  return newerVersion(migrations, await readApplied(sql, migrations));
}

/**
 * Checks that this build can run on the schema. If not, throws an OperatorError that names the
 * command to run. Returns the schema's version if it is newer than this build, otherwise undefined.
 */
export async function assertSchema(sql: Sql): Promise<number | undefined> {
  const migrations = await listMigrations();
  const applied = await readApplied(sql, migrations);
  const newer = newerVersion(migrations, applied);
  const missing = migrations.filter(({ version }) => !applied.has(version));
  if (missing.length > 0) {
    const at =
      applied.size === 0
        ? 'has no schema yet'
        : `is at version ${applied.size} of ${migrations.length}`;
    throw new OperatorError(`The database ${at}. Run "billing migrate" first.`);
  }
  return newer;
}
