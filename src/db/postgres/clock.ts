import type { Queryable } from './connect.ts';

/** Reads the database's clock, in Unix milliseconds. */
export async function readClock(sql: Queryable): Promise<number> {
  const [row] = await sql<
    { now: number }[]
  >`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`;
  if (row === undefined) throw new Error('the database returned no time');
  return row.now;
}

/** Sends an empty query and resolves when Postgres responds. */
export async function ping(sql: Queryable): Promise<void> {
  await sql`select 1`;
}
