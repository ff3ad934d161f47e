// Forward-only migrations. Each file of sql/ is applied once, in its own transaction, under an
// advisory lock.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { OperatorError } from '../../errors.ts';
import type { Queryable, Sql } from './connect.ts';
import { isLocked, isLost } from './outage.ts';
import { grantRights } from './roles.ts';

const directory = new URL('../../../sql/', import.meta.url);
// Arbitrary key of the advisory lock: "billing" on a phone keypad.
const ADVISORY_LOCK = 2455464n;
/**
 * Lock timeout of a migration. While a migration waits for a table lock, statements of the daemons
 * queue behind it, so the migration gives up early and retries.
 */
const LOCK_TIMEOUT = '2s';
const LOCK_TRIES = 30;

export interface Migration {
  version: number;
  name: string;
  text: string;
  checksum: string;
}

/** Reads the migrations of this build, in order. */
export async function listMigrations(): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => /^\d{4}_.+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, directory), 'utf8');
      return {
        version: Number(name.slice(0, 4)),
        name,
        text,
        checksum: createHash('sha256').update(text).digest('hex'),
      };
    }),
  );
}

async function appliedVersions(sql: Queryable): Promise<Map<number, string>> {
  const [found] = await sql<
    { exists: boolean }[]
  >`select to_regclass('schema_migrations') is not null as exists`;
  if (found?.exists !== true) return new Map();
  const rows = await sql<
    { version: number; checksum: string }[]
  >`select version, checksum from schema_migrations order by version`;
  return new Map(rows.map((row) => [row.version, row.checksum]));
}

/**
 * Applies pending migrations and grants the daemon roles their rights. Returns the names of the
 * applied files. `onStep` gets the name of each step. A concurrent run waits for the advisory lock.
 * Throws an OperatorError when the database is newer than this build, a file has changed or a table
 * stays locked.
 */
export async function migrate(
  sql: Sql,
  onStep: (words: string) => void = () => undefined,
): Promise<string[]> {
  const migrations = await listMigrations();
  const reserved = await sql.reserve();
  const giveBack = async () => {
    await reserved`select pg_advisory_unlock(${ADVISORY_LOCK})`.catch(() => undefined);
    await reserved`reset lock_timeout`.catch(() => undefined);
    reserved.release();
  };
  try {
    onStep('waiting for another migration to end');
    await reserved`select pg_advisory_lock(${ADVISORY_LOCK})`;
    await reserved`select set_config('lock_timeout', ${LOCK_TIMEOUT}, false)`;
    const applied = await appliedVersions(reserved);
    refuseForeign(migrations, applied);
    const pending = migrations.filter(({ version }) => !applied.has(version));
    for (const migration of pending) {
      onStep(migration.name);
      await patiently(migration.name, () => apply(reserved, migration));
    }
    const months = 'making the partitions of the months ahead';
    onStep(months);
    await patiently(months, () => reserved`select make_months()`);
    await grantRights(reserved);
    await giveBack();
    return pending.map(({ name }) => name);
  } catch (error) {
    // A lost connection no longer holds the lock. Another statement on it would crash postgres.js
    // (connect.ts).
    if (!isLost(error)) await giveBack();
    throw error;
  }
}

async function apply(sql: Queryable, { version, name, text, checksum }: Migration): Promise<void> {
  try {
    await sql.unsafe(`begin;
      create table if not exists schema_migrations (version int primary key, name text not null, checksum text not null, applied_at timestamptz not null default now());
      ${text};
      insert into schema_migrations (version, name, checksum) values (${version}, '${name}', '${checksum}');
      commit`);
  } catch (error) {
    if (!isLost(error)) await sql`rollback`;
    throw error;
  }
}

/** Runs `work`, and retries for about a minute while another session holds a lock. */
async function patiently(what: string, work: () => PromiseLike<unknown>): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await work();
      return;
    } catch (error) {
      if (!isLocked(error)) throw error;
      if (tries === LOCK_TRIES)
        throw new OperatorError(
          `Another session holds a lock that "${what}" needs (a dump, or a transaction left open: see pg_stat_activity). Nothing of it was applied: run "billing migrate" again.`,
          1,
          { cause: error },
        );
    }
  }
}

/**
 * Checks that the schema matches this build. Otherwise throws an OperatorError with the command to
 * run.
 */
export async function assertSchema(sql: Sql): Promise<void> {
  const migrations = await listMigrations();
  const applied = await appliedVersions(sql);
  refuseForeign(migrations, applied);
  const missing = migrations.filter(({ version }) => !applied.has(version));
  if (missing.length > 0) {
    const at =
      applied.size === 0
        ? 'has no schema yet'
        : `is at version ${applied.size} of ${migrations.length}`;
    throw new OperatorError(`The database ${at}. Run "billing migrate" first.`);
  }
}

function refuseForeign(migrations: Migration[], applied: Map<number, string>): void {
  for (const [version, checksum] of applied) {
    const known = migrations.find((migration) => migration.version === version);
    if (known === undefined) {
      throw new OperatorError(
        `The database is at schema version ${version}, newer than this build's ${migrations.length}. Run the newer release of billing.`,
        2,
      );
    }
    if (known.checksum !== checksum) {
      throw new OperatorError(
        `Migration ${known.name} was applied with other contents than this build's. Run the release that the database was migrated with, or restore it.`,
        2,
      );
    }
  }
}
