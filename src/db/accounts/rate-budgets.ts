import type { Queryable, Sql } from '../postgres/connect.ts';
import { recordset } from '../postgres/recordset.ts';

/** A number of requests of one subject, such as an IP address, and the subject's limit. */
export interface Spending {
  subject: string;
  count: number;
  limit: number;
}

export interface Grant {
  subject: string;
  /** Number of requests that this call grants, at most the `count` of the Spending. */
  granted: number;
  /** Number of granted requests in this window, including `granted`. */
  spent: number;
  /** Milliseconds until the window ends. */
  remainingMs: number;
}

/**
 * Counts the requests of each subject in its current window and grants requests up to the limit. A
 * window lasts `windowMs` and starts with the first request after the previous window. Each window
 * has its own row. With one row for all windows of a subject, the dead versions of this row would
 * pile up while a long transaction is open.
 */
export function spendBudgets(
  sql: Queryable,
  spendings: readonly Spending[],
  windowMs: number,
): Promise<Grant[]> {
  const given = spendings.map(({ limit, ...rest }) => ({ ...rest, most: limit }));
  const wanted = recordset(sql, given, { subject: 'text', count: 'int', most: 'int' });
  return sql<Grant[]>`
    insert into rate_budgets as b (subject, number, ends_at, spent, granted, most)
    select wanted.subject, coalesce(newest.number + case when newest.ends_at <= clock_timestamp()
      then 1 else 0 end, 0),
      clock_timestamp() + ${windowMs} * interval '1 ms', least(wanted.count, wanted.most),
        wanted.count, wanted.most
    from (${wanted}) as wanted
      left join lateral (
        select number, ends_at from rate_budgets where subject = wanted.subject order by number desc
          limit 1
      ) as newest on true
    order by wanted.subject
    on conflict (subject, number) do update set
      granted = least(excluded.granted, greatest(excluded.most - b.spent, 0)),
      spent = b.spent + least(excluded.granted, greatest(excluded.most - b.spent, 0)),
      most = excluded.most
    returning subject, least(granted, most) as granted, spent,
      greatest(ceil(extract(epoch from ends_at - clock_timestamp()) * 1000), 1)::int as
        remaining_ms`;
}

/** Deletes windows that ended more than a minute ago and returns the number deleted. */
export async function deleteEndedBudgets(sql: Sql): Promise<number> {
  const { count } = await sql`delete from rate_budgets where ends_at < now() - interval '1 minute'`;
  return count;
}
