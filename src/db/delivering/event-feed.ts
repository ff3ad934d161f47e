// Reads an app's events in id order, each event once. An event's id contains the time at which the
// id was generated, but other sessions see the event only after the commit. A newly visible event
// can therefore have an older id than visible events. The id is never older than the start of the
// event's transaction, so readers stop at the start of the oldest transaction that may still write.
import type { Queryable } from '../postgres/connect.ts';

export interface FeedRow {
  id: string;
  type: string;
  createdAt: Date;
  /** The webhook's body, byte for byte. */
  body: string;
  sample: boolean;
}

/** Returns the lowest id that can be generated from now on. */
export async function readFeedStart(sql: Queryable): Promise<string> {
  const [row] = await sql<{ id: string }[]>`select id_at(clock_timestamp()) as id`;
  if (row === undefined) throw new Error('the database returned no time');
  return row.id;
}

/**
 * Returns the id below which no further event can appear. Call this in a separate statement before
 * the events are read. oldest_writer() returns the start of the oldest transaction that may add
 * events. It ignores transactions older than 10 s that have written nothing, such as that of
 * pg_dump. If the owner of oldest_writer() lacks the right pg_read_all_stats, the returned id lies
 * at least one minute in the past.
 */
export async function readFeedBound(sql: Queryable): Promise<string> {
  const [row] = await sql<{ bound: string }[]>`
    select id_at(least(now(), oldest_writer())) as bound`;
  if (row === undefined) throw new Error('the database returned no time');
  return row.bound;
}

/**
 * Reads an app's events and samples with ids in (after, bound), oldest first. `any(array[...])`
 * keeps the planner from using the primary key (lists.ts).
 */
export function readFeed(
  sql: Queryable,
  appId: string,
  { after, bound, limit }: { after: string; bound: string; limit: number },
): Promise<FeedRow[]> {
  return sql<FeedRow[]>`
    select * from (
      (select id, type, created_at, body, false as sample from events
        where app_id = any(array[${appId}::uuid]) and id > ${after}::uuid and id < ${bound}::uuid
          and type <> 'endpoint_disabled'
          order by app_id, id limit ${limit})
      union all
      (select id, type, created_at, body, true from sample_events
        where app_id = any(array[${appId}::uuid]) and id > ${after}::uuid and id < ${bound}::uuid
          order by app_id, id limit ${limit})
    ) as found order by id limit ${limit}`;
}

/** Generates ids with the function that generates row ids. */
export async function newIds(sql: Queryable, count: number): Promise<string[]> {
  const rows = await sql<
    { id: string }[]
  >`select uuid_v7() as id from generate_series(1, ${count})`;
  return rows.map(({ id }) => id);
}

/**
 * Stores a sample event. The caller must generate the id in the same transaction, because
 * readFeedBound() assumes that no event's id is older than the start of the event's transaction.
 */
export async function insertSample(
  sql: Queryable,
  { id, appId, type, body }: { id: string; appId: string; type: string; body: string },
): Promise<void> {
  await sql`insert into sample_events (id, app_id, type, body)
    values (${id}, ${appId}, ${type}, ${body})`;
}

/** Deletes up to 1,000 samples older than an hour and returns the number deleted. */
export async function deleteOldSamples(sql: Queryable): Promise<number> {
  const deleted = await sql`
    delete from sample_events where id in (select id from sample_events
      where created_at < now() - interval '1 hour' limit 1000) returning 1`;
  return deleted.length;
}
