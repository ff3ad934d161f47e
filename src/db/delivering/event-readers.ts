// Stores which readers currently follow each app's event feed, across all processes of the API
// (`serve`). A reader that is not renewed expires.
import type { Queryable } from '../postgres/connect.ts';

/**
 * Adds a reader that expires in `seconds`, or sets this expiry time for an existing reader. Returns
 * the expiry time.
 */
export async function renewReader(
  sql: Queryable,
  { id, appId, seconds }: { id: string; appId: string; seconds: number },
): Promise<Date> {
  const [row] = await sql<{ until: Date }[]>`
    insert into event_readers (id, app_id, until)
    values (${id}, ${appId}, date_trunc('milliseconds', clock_timestamp()) + ${seconds} * interval
      '1 second')
    on conflict (id) do update set until = excluded.until
    returning until`;
  if (row === undefined) throw new Error('the reader was not stored');
  return row.until;
}

/** Removes the reader if its expiry time is still `until`. A reader that was renewed stays. */
export async function removeReader(
  sql: Queryable,
  { id, until }: { id: string; until: Date },
): Promise<void> {
  await sql`delete from event_readers where id = ${id} and until = ${until}`;
}

/** Counts the current readers of an app's feed. */
export async function countReaders(sql: Queryable, appId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from event_readers where app_id = ${appId}
      and until > clock_timestamp()`;
  return row?.count ?? 0;
}

/** Deletes up to 1,000 expired readers and returns the number deleted. */
export async function deleteGoneReaders(sql: Queryable): Promise<number> {
  const { count } = await sql`
    delete from event_readers where id in (select id from event_readers where until < now()
      limit 1000)`;
  return count;
}
