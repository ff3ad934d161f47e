// Deleting what is older than is kept, in bounded batches along the primary key: ids are made in order of time, so that their age is the row's.
import type { Queryable } from './connect.ts';

export interface Batch {
  /** Rows older than this many days. */
  days: number;
  /** The last id of the batch before; starts at the nil UUID. */
  after: string;
  limit: number;
}

/**
 * Deletes finished deliveries with their attempts, oldest first; returns their ids in order. Two at once do not meet: locked rows are skipped. One whose
 * replay is still to be sent stays until that has ended: replays forget what they were of one by one, and whoever writes many of them as well (outcomes,
 * the end of an endpoint) would wait for this and this for them.
 */
export async function deleteOldDeliveries(sql: Queryable, { days, after, limit }: Batch): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    with old as (
      select id from deliveries
      where id > ${after}::uuid and finished_at is not null and id < first_id_at(now() - ${days}::int * interval '1 day')
        and coalesce((select false from deliveries again where again.replay_of = deliveries.id and again.finished_at is null limit 1), true)
      order by id limit ${limit} for update skip locked
    ), attempts as (
      delete from earlier_attempts using old where earlier_attempts.delivery_id = old.id
    )
    delete from deliveries using old where deliveries.id = old.id returning deliveries.id`;
  return rows.map((row) => row.id).sort();
}

/** Deletes events that no delivery carries any more, oldest first; returns their ids in order. */
export async function deleteOldEvents(sql: Queryable, { days, after, limit }: Batch): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    with old as (
      select id from events
      where id > ${after}::uuid and id < first_id_at(now() - ${days}::int * interval '1 day')
        and not exists (select from deliveries where deliveries.event_id = events.id)
      order by id limit ${limit} for update skip locked
    )
    delete from events using old where events.id = old.id returning events.id`;
  return rows.map((row) => row.id).sort();
}
