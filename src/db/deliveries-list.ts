// Deliveries and their attempts as merchants read them.
import type { Queryable } from './connect.ts';
import type { EventType } from './events.ts';

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

/** An endpoint's deliveries, newest first. One arm for each set of filters, as in registrations.ts. */
export function listDeliveries(
  sql: Queryable,
  endpointId: string,
  { status, type, since, until }: DeliveryFilters,
  { after, limit }: { after: string | null; limit: number },
): Promise<DeliveryRow[]> {
  return sql<DeliveryRow[]>`
    with place as materialized (
      select '00000000-0000-0000-0000-000000000000'::uuid as nil, coalesce(${until}::timestamptz, 'infinity') as until,
        case when ${after}::uuid is null then 'infinity' else (select created_at from deliveries where id = ${after}) end as before
    ), asked as materialized (
      select ${endpointId}::uuid as endpoint_id, ${type}::text as type,
        case when ${status}::text is null then array['pending', 'delivered', 'failed', 'cancelled'] else array[${status}::text] end as statuses,
        coalesce(${since}::timestamptz, '-infinity') as since, nil,
        case when until <= before then until else before end as end_time, case when until <= before then nil else ${after}::uuid end as end_id
      from place
    ), found as (
      select d.* from asked, unnest(asked.statuses) as wanted (status), lateral (
        select * from deliveries
        where (status, endpoint_id, created_at, id) >= (wanted.status, asked.endpoint_id, asked.since, asked.nil)
          and (status, endpoint_id, created_at, id) < (wanted.status, asked.endpoint_id, asked.end_time, asked.end_id)
        order by status desc, endpoint_id desc, created_at desc, id desc limit ${limit}
      ) as d where asked.type is null
      union all
      select d.* from asked, unnest(asked.statuses) as wanted (status), lateral (
        select * from deliveries
        where (event_type, endpoint_id, status, created_at, id) >= (asked.type, asked.endpoint_id, wanted.status, asked.since, asked.nil)
          and (event_type, endpoint_id, status, created_at, id) < (asked.type, asked.endpoint_id, wanted.status, asked.end_time, asked.end_id)
        order by event_type desc, endpoint_id desc, status desc, created_at desc, id desc limit ${limit}
      ) as d where asked.type is not null
    )
    select id, endpoint_id as webhook_id, event_id, event_type, status, attempts, case when status = 'pending' then due_at end as next_attempt_at,
      replay_of, created_at, finished_at
    from found order by created_at desc, id desc limit ${limit}`;
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
