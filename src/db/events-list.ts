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

/** An app's events, newest first. */
export function listEvents(
  sql: Queryable,
  appId: string,
  { after, limit }: { after: string | null; limit: number },
): Promise<EventListRow[]> {
  return sql<EventListRow[]>`
    select id, app_id, subscription_id, sequence::float8 as sequence, type, body, created_at from events
    where app_id = ${appId}
      and (created_at, id) < (case when ${after}::uuid is null then 'infinity' else (select c.created_at from events c where c.id = ${after}) end,
        coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by created_at desc, id desc limit ${limit}`;
}

export async function findEvent(sql: Queryable, id: string): Promise<EventListRow | undefined> {
  const [row] = await sql<EventListRow[]>`
    select id, app_id, subscription_id, sequence::float8 as sequence, type, body, created_at from events where id = ${id}`;
  return row;
}
