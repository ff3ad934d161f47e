// Monthly partitions of events, deliveries and delivery attempts. SQL functions in
// sql/0006_delivering.sql create and drop them.
import type { Queryable, Sql, Transaction } from './connect.ts';

/**
 * Tables whose old monthly partitions are dropped. The partitions of earlier_attempts are dropped
 * together with the partitions of deliveries.
 */
export type PartitionedTable = 'deliveries' | 'events';

/**
 * Lock timeout for creating or dropping a partition. The lock waits for all running statements on
 * the table, and new statements wait for the lock. The timeout limits this wait.
 */
const LOCK_TIMEOUT = '200ms';

/**
 * Creates the missing partitions of this month and the next three, and returns their names. If
 * another session holds the partition lock, creates none. Throws an error that satisfies isLocked()
 * when a table lock is not free.
 */
export async function makeMonths(sql: Sql): Promise<string[]> {
  const created = await withPartitionLock(sql, async (tx) => {
    const rows = await tx<{ name: string }[]>`select make_months() as name`;
    return rows.map(({ name }) => name);
  });
  return created ?? [];
}

/**
 * Drops the oldest partition whose month ended more than `days` ago and returns the month as
 * YYYY_MM. Returns null when no month is old enough or another session holds the partition lock.
 * Throws an error that satisfies isLocked() when a table lock is not free.
 */
export function dropMonth(sql: Sql, table: PartitionedTable, days: number): Promise<string | null> {
  return withPartitionLock(sql, async (tx) => {
    const [row] = await tx<
      { month: string | null }[]
    >`select drop_month(${table}, ${days}) as month`;
    return row?.month ?? null;
  });
}

/** Runs `work` under the partition lock. Returns null when another session holds the lock. */
function withPartitionLock<T>(sql: Sql, work: (tx: Transaction) => Promise<T>): Promise<T | null> {
  return sql.begin(async (tx) => {
    const [lock] = await tx<{ isFree: boolean }[]>`
      select pg_try_advisory_xact_lock(hashtext('billing partitions')) as is_free,
        set_config('lock_timeout', ${LOCK_TIMEOUT}, true)`;
    return lock?.isFree === true ? await work(tx) : null;
  }) as Promise<T | null>;
}

/**
 * Tells for each table whether its DEFAULT partition holds a row. A row there means that the
 * monthly partition was not created in time.
 */
export async function findDefaultRows(
  sql: Queryable,
): Promise<Record<'deliveries' | 'earlier_attempts' | 'events', boolean>> {
  const [row] = await sql<{ events: boolean; deliveries: boolean; attempts: boolean }[]>`
    select exists (select from events_default) as events, exists (select from deliveries_default) as
      deliveries,
      exists (select from earlier_attempts_default) as attempts`;
  return {
    deliveries: row?.deliveries === true,
    earlier_attempts: row?.attempts === true,
    events: row?.events === true,
  };
}
