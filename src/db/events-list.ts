// The event log as merchants read it.
import type { Queryable } from './connect.ts';
import type { EventType } from './events.ts';

export interface EventListRow {
  id: string;
  appId: string;
  subscriptionId: string;
  sequence: number;
  type: EventType;
  /** The very text that is sent. */
  body: string;
  createdAt: Date;
}

export interface EventFilters {
  type: string | null;
  /** The event's time, inclusive. */
  since: Date | null;
  /** The event's time, exclusive. */
  until: Date | null;
}

/** An app's events, newest first. One arm for each set of filters, as in registrations.ts. */
export function listEvents(
  sql: Queryable,
  appId: string,
  { type, since, until }: EventFilters,
  { after, limit }: { after: string | null; limit: number },
): Promise<EventListRow[]> {
  return sql<EventListRow[]>`
    with place as materialized (
      select '00000000-0000-0000-0000-000000000000'::uuid as nil, coalesce(${until}::timestamptz, 'infinity') as until,
        case when ${after}::uuid is null then 'infinity' else (select created_at from events where id = ${after}) end as before
    ), asked as materialized (
      select ${appId}::uuid as app_id, ${type}::text as type, coalesce(${since}::timestamptz, '-infinity') as since, nil,
        case when until <= before then until else before end as end_time, case when until <= before then nil else ${after}::uuid end as end_id
      from place
    ), found as (
      select e.* from asked, lateral (
        select * from events
        where (app_id, created_at, id) >= (asked.app_id, asked.since, asked.nil)
          and (app_id, created_at, id) < (asked.app_id, asked.end_time, asked.end_id)
        order by app_id desc nulls last, created_at desc, id desc limit ${limit}
      ) as e where asked.type is null
      union all
      select e.* from asked, lateral (
        select * from events
        where (type, app_id, created_at, id) >= (asked.type, asked.app_id, asked.since, asked.nil)
          and (type, app_id, created_at, id) < (asked.type, asked.app_id, asked.end_time, asked.end_id)
        order by type desc, app_id desc, created_at desc, id desc limit ${limit}
      ) as e where asked.type is not null
    )
    select id, app_id, subscription_id, sequence::float8 as sequence, type, body, created_at from found order by created_at desc, id desc limit ${limit}`;
}

export async function findEvent(sql: Queryable, id: string): Promise<EventListRow | undefined> {
  const [row] = await sql<EventListRow[]>`
    select id, app_id, subscription_id, sequence::float8 as sequence, type, body, created_at from events where id = ${id}`;
  return row;
}
