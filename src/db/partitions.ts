// The monthly partitions of events, deliveries and their attempts. The statements are functions of the schema (sql/0003_webhooks.sql).
import type { Queryable, Sql } from './connect.ts';

/** Tables that are dropped by the month; the attempts go with their deliveries. */
export type PartitionedTable = 'deliveries' | 'events';

/** Making and dropping wait for every statement on the tables, and others wait behind them: given up after this. */
const lockTimeout = '2s';

/** Makes the partitions of this month and the next three, where they are missing. Throws when a lock is not to be had within 2 s. */
export async function makeMonths(sql: Sql): Promise<string[]> {
  return sql.begin(async (tx) => {
    await tx`select set_config('lock_timeout', ${lockTimeout}, true)`;
    const rows = await tx<{ name: string }[]>`select make_months() as name`;
    return rows.map(({ name }) => name);
  });
}

/** Drops the oldest month that ended more than `days` ago, as YYYY_MM; null when there is none. Throws when a lock is not to be had within 2 s. */
export async function dropMonth(
  sql: Sql,
  table: PartitionedTable,
  days: number,
): Promise<string | null> {
  return sql.begin(async (tx) => {
    await tx`select set_config('lock_timeout', ${lockTimeout}, true)`;
    const [row] = await tx<
      { month: string | null }[]
    >`select drop_month(${table}, ${days}) as month`;
    return row?.month ?? null;
  });
}

/** Tables whose DEFAULT partition holds a row: their months were not made in time. */
export async function findDefaultRows(
  sql: Queryable,
): Promise<Record<'deliveries' | 'earlier_attempts' | 'events', boolean>> {
  const [row] = await sql<{ events: boolean; deliveries: boolean; attempts: boolean }[]>`
    select exists (select from events_default) as events, exists (select from deliveries_default) as deliveries,
      exists (select from earlier_attempts_default) as attempts`;
  return {
    deliveries: row?.deliveries === true,
    earlier_attempts: row?.attempts === true,
    events: row?.events === true,
  };
}
