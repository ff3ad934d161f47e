import type { Sql } from './connect.ts';

/** Asks every serve process to give back what it holds of a subject's budget. */
const channel = 'billing_budget_wanted';

export interface Grant {
  /** Requests that the caller may let through. */
  lease: number;
  /** Handed out to all processes in this window, this lease included. */
  granted: number;
  /** Names the window: its end, in Postgres's own words. */
  window: string;
  /** Milliseconds until the window ends. */
  remainingMs: number;
}

/**
 * Hands out a lease of what is left of the subject's window, a part of it so that other processes get theirs; a window starts with the first
 * request after the last one ended. A lease of 0 says that all is handed out.
 */
export async function takeLease(
  sql: Sql,
  { subject, limit, windowMs, part }: { subject: string; limit: number; windowMs: number; part: number },
): Promise<Grant> {
  const [row] = await sql<Grant[]>`
    insert into rate_budgets as b (subject, window_ends_at, granted, lease)
    values (${subject}, clock_timestamp() + ${windowMs} * interval '1 ms', ceil(${limit}::float8 / ${part}), ceil(${limit}::float8 / ${part}))
    on conflict (subject) do update set
      window_ends_at = case when b.window_ends_at <= clock_timestamp() then excluded.window_ends_at else b.window_ends_at end,
      granted = case when b.window_ends_at <= clock_timestamp() then excluded.granted
        else b.granted + greatest(ceil((${limit}::float8 - b.granted) / ${part}), 0) end,
      lease = case when b.window_ends_at <= clock_timestamp() then excluded.lease
        else greatest(ceil((${limit}::float8 - b.granted) / ${part}), 0) end
    returning lease, granted, window_ends_at::text as window,
      greatest(ceil(extract(epoch from window_ends_at - clock_timestamp()) * 1000), 1)::int as remaining_ms`;
  if (row === undefined) throw new Error('no rate budget was granted');
  return row;
}

/** Gives unspent requests of a window back. */
export async function returnLease(
  sql: Sql,
  { subject, window, unspent }: { subject: string; window: string; unspent: number },
): Promise<void> {
  // By way of text: postgres.js would make a Date of it, which has no microseconds.
  await sql`
    update rate_budgets set granted = greatest(granted - ${unspent}, 0) where subject = ${subject} and window_ends_at = ${window}::text::timestamptz`;
}

/** Asks the other processes for what they hold of a subject's budget. */
export async function askForLeases(sql: Sql, subject: string): Promise<void> {
  await sql.notify(channel, subject);
}

/** Told of every such question, our own too. Resolves when it listens, with what stops it. */
export async function onLeasesAskedFor(sql: Sql, told: (subject: string) => void): Promise<() => Promise<void>> {
  const listening = await sql.listen(channel, told);
  return () => listening.unlisten();
}

/** Deletes windows that ended over a minute ago; returns how many. */
export async function deleteEndedBudgets(sql: Sql): Promise<number> {
  const { count } = await sql`delete from rate_budgets where window_ends_at < now() - interval '1 minute'`;
  return count;
}
