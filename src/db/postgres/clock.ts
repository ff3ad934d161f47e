import type { Queryable } from './connect.ts';
import type { Fragment } from './lists.ts';

/** Reads the database's clock, in Unix milliseconds. */
export async function readClock(sql: Queryable): Promise<number> {
  const [row] = await sql<
    { now: number }[]
  >`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`;
  if (row === undefined) throw new Error('the database returned no time');
  return row.now;
}

/**
 * Returns the number of seconds by which the database's clock is ahead of this process's clock. The
 * error is at most half of the time that the query takes.
 */
export async function readClockOffset(sql: Queryable): Promise<number> {
  const startedAt = Date.now();
  const now = await readClock(sql);
  return (now - (startedAt + Date.now()) / 2) / 1000;
}

/** Sends an empty query and resolves when Postgres responds. */
export async function ping(sql: Queryable): Promise<void> {
  await sql`select 1`;
}

/** SQL for the seconds since the time `since`; 0 if it is null or in the future. */
export const secondsSince = (sql: Queryable, since: Fragment): Fragment => sql`
  greatest(0, coalesce(extract(epoch from now() - ${since}), 0))::float8`;
