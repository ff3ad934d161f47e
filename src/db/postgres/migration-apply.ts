// Applies one migration: in one transaction, or statement by statement outside a transaction.
import { OperatorError } from '../../errors.ts';
import type { Queryable } from './connect.ts';
import { type Migration, runsInBatches, runsInSteps, statementsOf } from './migration-files.ts';
import { isLocked, isLost } from './outage.ts';

/**
 * Lock timeout of a migration. While a migration waits for a table lock, the daemons' statements
 * wait behind the migration. The migration therefore gives up early and retries.
 */
const LOCK_TIMEOUT = '2s';
const LOCK_TRIES = 30;

/**
 * Sets the timeouts of a session that migrates. A timeout of the database or of the role would end
 * statements that run for minutes. transaction_timeout exists since Postgres 17.
 */
export async function setTimeouts(sql: Queryable): Promise<void> {
  await sql`
    select set_config(name, '0', false) from pg_settings
    where name in (
      'statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')`;
  await limitWaits(sql, LOCK_TIMEOUT);
}

/** Sets the lock timeout of the session. '0' means no timeout. */
function limitWaits(sql: Queryable, timeout: string): PromiseLike<unknown> {
  return sql`select set_config('lock_timeout', ${timeout}, false)`;
}

/**
 * Applies a migration and records it. `sql` is a connection with setTimeouts(). `onStep` gets words
 * about the statement that runs. Throws an OperatorError if a table stays locked. A migration in
 * one transaction then leaves nothing behind. A migration in steps keeps the finished steps and can
 * be applied again.
 */
export async function applyMigration(
  sql: Queryable,
  migration: Migration,
  onStep: (words: string) => void = () => undefined,
): Promise<void> {
  onStep(migration.name);
  if (!runsInSteps(migration)) {
    await patiently(migration.name, () => inTransaction(sql, migration.text, migration));
    return;
  }
  const statements = statementsOf(migration.text);
  for (const [index, statement] of statements.entries()) {
    const step = `${migration.name}, statement ${index + 1} of ${statements.length}`;
    onStep(step);
    if (runsInBatches(statement))
      await inBatches(statement.text, {
        run: (text, after) => patiently(step, () => sql.unsafe(text, [after])),
        onBatch: (rows) => {
          onStep(`${step}: ${rows} rows`);
        },
      });
    else if (/^(create (unique )?|drop )index concurrently /.test(statement.form))
      await patiently(step, () => changeIndex(sql, statement.text));
    else await patiently(step, () => sql.unsafe(statement.text));
  }
  await patiently(migration.name, () => inTransaction(sql, '', migration));
}

async function inTransaction(
  sql: Queryable,
  text: string,
  { version, name, checksum, minRelease }: Migration,
): Promise<void> {
  const release = minRelease === null ? 'null' : `'${minRelease}'`;
  try {
    await sql.unsafe(`begin;
      create table if not exists schema_migrations (
        version int primary key,
        name text not null,
        checksum text not null,
        min_release text,
        applied_at timestamptz not null default now());
      ${text};
      insert into schema_migrations (version, name, checksum, min_release) values (${version}, '${name}', '${checksum}', ${release});
      commit`);
  } catch (error) {
    if (!isLost(error)) await sql`rollback`;
    throw error;
  }
}

/** The smallest UUID. */
const NIL = '00000000-0000-0000-0000-000000000000';

/**
 * Repeats a statement until it returns no row. `$1` is the largest id that it returned before.
 */
async function inBatches(
  text: string,
  {
    run,
    onBatch,
  }: {
    run: (text: string, after: string) => PromiseLike<{ id?: unknown }[]>;
    onBatch: (rows: number) => void;
  },
): Promise<void> {
  let after = NIL;
  for (let rows = 0; ;) {
    const batch = await run(text, after);
    if (batch.length === 0) return;
    for (const { id } of batch) {
      if (typeof id !== 'string') throw new TypeError('a statement in batches must return ids');
      // UUIDs as text sort in the same order as UUIDs.
      if (id > after) after = id;
    }
    rows += batch.length;
    onBatch(rows);
  }
}

/** Matches `create index concurrently`. Captures the names of the index and of its table. */
const BUILDS =
  /create\s+(?:unique\s+)?index\s+concurrently\s+(?:if\s+not\s+exists\s+)?(\w+)\s+on\s+(\w+)/i;

/**
 * Runs `create index concurrently` or `drop index concurrently`. Removes the invalid index that an
 * interrupted build has left. Builds the index of a partitioned table partition by partition,
 * because Postgres cannot build that one concurrently.
 */
async function changeIndex(sql: Queryable, text: string): Promise<void> {
  await limitWaits(sql, LOCK_TIMEOUT);
  const [, index, table] = BUILDS.exec(text) ?? [];
  if (index === undefined || table === undefined) {
    await concurrently(sql, text);
    return;
  }
  const partitions = await sql<{ name: string }[]>`
    select inhrelid::regclass::text as name
    from pg_inherits join pg_class on pg_class.oid = inhparent
    where inhparent = to_regclass(${table}) and relkind = 'p' order by 1`;
  if (partitions.length === 0) {
    await buildIndex(sql, index, text);
    return;
  }
  // The index on the partitioned table is created empty. It becomes valid when each partition has
  // its index.
  await sql.unsafe(text.replace(/\bconcurrently\b/i, '').replace(/\son\s+(\w+)/i, ' on only $1'));
  for (const { name } of partitions) {
    const part = `${name}_${index}`;
    const [found] = await sql`
      select from pg_inherits join pg_index on indexrelid = inhrelid
      where inhparent = to_regclass(${index}) and indrelid = to_regclass(${name})`;
    if (found !== undefined) continue;
    const building = text.replace(BUILDS, (words) =>
      words.replace(index, part).replace(/\w+$/, name),
    );
    await buildIndex(sql, part, building);
    await sql.unsafe(`alter index ${index} attach partition ${part}`);
  }
}

async function buildIndex(sql: Queryable, index: string, text: string): Promise<void> {
  const [invalid] = await sql`
    select from pg_index where indexrelid = to_regclass(${index}) and not indisvalid`;
  if (invalid !== undefined) await concurrently(sql, `drop index concurrently ${index}`);
  await concurrently(sql, text);
}

/**
 * Runs a statement without a lock timeout. The statement may wait for locks and old transactions,
 * but blocks neither readers nor writers meanwhile.
 */
async function concurrently(sql: Queryable, text: string): Promise<void> {
  await limitWaits(sql, '0');
  await sql.unsafe(text);
  await limitWaits(sql, LOCK_TIMEOUT);
}

/** Runs `work`, and retries for about a minute while another session holds a lock. */
export async function patiently<T>(action: string, work: () => PromiseLike<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isLocked(error)) throw error;
      if (tries === LOCK_TRIES)
        throw new OperatorError(
          `Another session holds a lock that "${action}" needs (a dump, or a transaction left open: see pg_stat_activity). Nothing of it was applied: run "billing migrate" again.`,
          1,
          { cause: error },
        );
    }
  }
}
