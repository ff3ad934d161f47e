// Deliveries and their attempts as merchants read them.
import type { Queryable } from './connect.ts';
import type { EventType } from './events.ts';
import { idsBetween } from './ids.ts';

export interface DeliveryRow {
  id: string;
  webhookId: string;
  eventId: string;
  eventType: EventType;
  status: 'pending' | 'delivered' | 'failed' | 'cancelled';
  attempts: number;
  /** null unless pending. */
  nextAttemptAt: Date | null;
  replayOf: string | null;
  createdAt: Date;
  finishedAt: Date | null;
}

export interface AttemptRow {
  number: number;
  startedAt: Date;
  durationMs: number;
  httpStatus: number | null;
  error: string | null;
  response: Buffer | null;
  address: string | null;
}

export interface DeliveryFilters {
  status: string | null;
  type: string | null;
  /** Creation time, inclusive. */
  since: Date | null;
  /** Creation time, exclusive. */
  until: Date | null;
}

/**
 * An endpoint's deliveries, newest first: by their ids, whose time is that of their creation. One arm for each set of filters, as in
 * registrations.ts.
 */
export function listDeliveries(
  sql: Queryable,
  endpointId: string,
  { status, type, since, until }: DeliveryFilters,
  { after, limit }: { after: string | null; limit: number },
): Promise<DeliveryRow[]> {
  const { first, end: bound } = idsBetween(since, until);
  const end = after === null || after > bound ? bound : after;
  return sql<DeliveryRow[]>`
    with asked as materialized (
      select ${endpointId}::uuid as endpoint_id, ${type}::text as type, ${first}::uuid as first_id, ${end}::uuid as end_id,
        case when ${status}::text is null then array['pending', 'delivered', 'failed', 'cancelled'] else array[${status}::text] end as statuses
    ), found as (
      select d.* from asked, unnest(asked.statuses) as wanted (status), lateral (
        select * from deliveries
        where (endpoint_id, status, id) >= (asked.endpoint_id, wanted.status, asked.first_id)
          and (endpoint_id, status, id) < (asked.endpoint_id, wanted.status, asked.end_id)
        order by endpoint_id desc, status desc, id desc limit ${limit}
      ) as d where asked.type is null
      union all
      select d.* from asked, unnest(asked.statuses) as wanted (status), lateral (
        select * from deliveries
        where (event_type, endpoint_id, status, id) >= (asked.type, asked.endpoint_id, wanted.status, asked.first_id)
          and (event_type, endpoint_id, status, id) < (asked.type, asked.endpoint_id, wanted.status, asked.end_id)
        order by event_type desc, endpoint_id desc, status desc, id desc limit ${limit}
      ) as d where asked.type is not null
    )
    select id, endpoint_id as webhook_id, event_id, event_type, status, attempts, case when status = 'pending' then due_at end as next_attempt_at,
      replay_of, created_at, finished_at
    from found order by id desc limit ${limit}`;
}

export async function findDelivery(sql: Queryable, id: string): Promise<DeliveryRow | undefined> {
  const [row] = await sql<DeliveryRow[]>`
    select id, endpoint_id as webhook_id, event_id, event_type, status, attempts, case when status = 'pending' then due_at end as next_attempt_at,
      replay_of, created_at, finished_at
    from deliveries where id = ${id}`;
  return row;
}

/** A delivery's attempts in order: six at the most. */
export function listAttempts(sql: Queryable, deliveryId: string): Promise<AttemptRow[]> {
  return sql<AttemptRow[]>`
    select number, started_at, duration_ms, http_status, error, response, address from delivery_attempts
    where delivery_id = ${deliveryId} order by number`;
}
