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

/** An endpoint's deliveries, newest first. */
export function listDeliveries(
  sql: Queryable,
  endpointId: string,
  { status, type, since, until }: DeliveryFilters,
  { after, limit }: { after: string | null; limit: number },
): Promise<DeliveryRow[]> {
  return sql<DeliveryRow[]>`
    select d.id, d.endpoint_id as webhook_id, d.event_id, e.type as event_type, d.status, d.attempts,
      case when d.status = 'pending' then d.due_at end as next_attempt_at, d.replay_of, d.created_at, d.finished_at
    from deliveries d join events e on e.id = d.event_id
    where d.endpoint_id = ${endpointId}
      and (${status}::text is null or d.status = ${status})
      and (${type}::text is null or e.type = ${type})
      and d.created_at >= coalesce(${since}::timestamptz, '-infinity')
      and d.created_at < coalesce(${until}::timestamptz, 'infinity')
      and (d.created_at, d.id) < (case when ${after}::uuid is null then 'infinity' else (select c.created_at from deliveries c where c.id = ${after}) end,
        coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by d.created_at desc, d.id desc limit ${limit}`;
}

export async function findDelivery(sql: Queryable, id: string): Promise<DeliveryRow | undefined> {
  const [row] = await sql<DeliveryRow[]>`
    select d.id, d.endpoint_id as webhook_id, d.event_id, e.type as event_type, d.status, d.attempts,
      case when d.status = 'pending' then d.due_at end as next_attempt_at, d.replay_of, d.created_at, d.finished_at
    from deliveries d join events e on e.id = d.event_id
    where d.id = ${id}`;
  return row;
}

/** A delivery's attempts in order: six at the most. */
export function listAttempts(sql: Queryable, deliveryId: string): Promise<AttemptRow[]> {
  return sql<AttemptRow[]>`
    select number, started_at, duration_ms, http_status, error, response, address from delivery_attempts
    where delivery_id = ${deliveryId} order by number`;
}
