// An app's events in the order in which they became visible, none missed and none twice.
//
// Neither ids nor times can be the place in such a feed: a transaction that began earlier may commit later. What was visible already is known
// exactly, by the snapshot (pg_snapshot) of the statement that read it: new is whatever that snapshot did not see. Rows carry the transaction that
// made them in xmin, of 32 bits: it is widened to the one that is below the newest transaction. Nothing here is made under a savepoint, whose
// transaction a snapshot does not list.
import type { Queryable } from './connect.ts';

/** What a reader has seen. */
export interface FeedPlace {
  /** As text: xmin:xmax:xip. */
  snapshot: string;
  /** Nothing that the snapshot did not see was made before this (an event's time is its transaction's start); microseconds, as text. */
  since: string;
}

/** A page on the way from one place to the next. */
export interface FeedPage {
  from: FeedPlace;
  /** Where the page before saw the end; null: as far as there is. */
  to: FeedPlace | null;
  /** The last row of the page before. */
  after: { createdAt: string; id: string } | null;
}

export interface FeedRow {
  id: string;
  type: string;
  createdAt: Date;
  /** The very text that is sent. */
  body: string;
  sample: boolean;
  /** Its time as text, for `after`. */
  place: string;
}

/**
 * A time before which everything is visible or never will be: read it before the snapshot that it goes with. Transactions of users that
 * DATABASE_URL's may not look at are covered as long as they take less than a minute.
 */
export async function readFeedStart(sql: Queryable): Promise<string> {
  const [row] = await sql<{ since: string }[]>`
    select date_trunc('milliseconds', least(now() - interval '1 minute', min(xact_start)))::text as since
    from pg_stat_activity where datname = current_database()`;
  if (row === undefined) throw new Error('the database told no time');
  return row.since;
}

/** The snapshot of right now. */
export async function readSnapshot(sql: Queryable): Promise<string> {
  const [row] = await sql<{ snapshot: string }[]>`select pg_current_snapshot()::text as snapshot`;
  if (row === undefined) throw new Error('the database has no snapshot');
  return row.snapshot;
}

/** The next events of an app, samples among them, by time, at most `limit`; and the snapshot that this statement had. */
export async function readFeed(
  sql: Queryable,
  appId: string,
  { from, to, after }: FeedPage,
  limit: number,
): Promise<{ snapshot: string; rows: FeedRow[] }> {
  const found = await sql<(Omit<FeedRow, 'id'> & { id: string | null; snapshot: string })[]>`
    with asked as materialized (
      select ${appId}::uuid as app_id, coalesce(${after?.createdAt ?? null}::timestamptz, ${from.since}::timestamptz) as start_time,
        coalesce(${after?.id ?? null}::uuid, '00000000-0000-0000-0000-000000000000') as start_id,
        ${from.snapshot}::pg_snapshot as seen, coalesce(${to?.snapshot ?? null}::pg_snapshot, pg_current_snapshot()) as visible,
        pg_snapshot_xmax(pg_current_snapshot())::text::int8 as newest
    ), made as (
      select e.id, e.type, e.created_at, e.body, false as sample from asked, lateral (
        select * from (
          select *, (asked.newest - ((asked.newest - xmin::text::int8) & 4294967295))::text::xid8 as made_by from events
          where (app_id, created_at, id) > (asked.app_id, asked.start_time, asked.start_id) and (app_id, created_at) <= (asked.app_id, 'infinity')
        ) as later
        where not pg_visible_in_snapshot(made_by, asked.seen) and pg_visible_in_snapshot(made_by, asked.visible)
        order by app_id nulls first, created_at, id limit ${limit}
      ) as e
      union all
      select e.id, e.type, e.created_at, e.body, true from asked, lateral (
        select * from (
          select *, (asked.newest - ((asked.newest - xmin::text::int8) & 4294967295))::text::xid8 as made_by from sample_events
          where (app_id, created_at, id) > (asked.app_id, asked.start_time, asked.start_id) and (app_id, created_at) <= (asked.app_id, 'infinity')
        ) as later
        where not pg_visible_in_snapshot(made_by, asked.seen) and pg_visible_in_snapshot(made_by, asked.visible)
        order by app_id, created_at, id limit ${limit}
      ) as e
    ), fresh as (
      select id, type, created_at, body, sample, created_at::text as place from made order by created_at, id limit ${limit}
    )
    select pg_current_snapshot()::text as snapshot, fresh.* from (values (1)) as one left join fresh on true order by fresh.created_at, fresh.id`;
  const [first] = found;
  if (first === undefined) throw new Error('the database has no snapshot');
  return { snapshot: first.snapshot, rows: found.flatMap(({ id, ...rest }) => (id === null ? [] : [{ ...rest, id }])) };
}

/** Fresh ids, as rows get them. */
export async function newIds(sql: Queryable, count: number): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`select uuid_v7() as id from generate_series(1, ${count})`;
  return rows.map(({ id }) => id);
}

export async function insertSample(
  sql: Queryable,
  { id, appId, type, body }: { id: string; appId: string; type: string; body: string },
): Promise<void> {
  await sql`insert into sample_events (id, app_id, type, body) values (${id}, ${appId}, ${type}, ${body})`;
}

/** Deletes samples that are an hour old, at most a thousand; returns how many. */
export async function deleteOldSamples(sql: Queryable): Promise<number> {
  const gone = await sql`
    delete from sample_events where id in (select id from sample_events where created_at < now() - interval '1 hour' limit 1000) returning 1`;
  return gone.length;
}
