// The queue of deliveries, as dispatchers use it. Run these on connectQueue(): see there why. A lane is one endpoint's first sendings (kind 0) or
// its retries (kind 1), oldest due first.
import type { Queryable } from './connect.ts';

/** 0: never sent before; 1: a retry. */
export type LaneKind = 0 | 1;

export interface LaneHead {
  endpointId: string;
  kind: LaneKind;
  /** Milliseconds since the oldest of the lane became due. */
  overdueMs: number;
}

/** What may be claimed of one lane. */
export interface Grant {
  endpointId: string;
  kind: LaneKind;
  room: number;
  /** Rows that were due before this (Unix ms) are left to a later claim. */
  from: number;
}

export interface ClaimedDelivery {
  id: string;
  endpointId: string;
  eventId: string;
  /** Attempts made before this one. */
  attempts: number;
  /** Unix milliseconds of the database's clock. */
  dueAt: number;
  /** Sent byte for byte. */
  body: string;
  endpointDeleted: boolean;
}

/** What became of one claimed delivery. All but `endpointDeleted` had an attempt. */
export interface Outcome {
  id: string;
  claimId: string;
  status: 'pending' | 'delivered' | 'failed' | 'cancelled';
  /** Unix milliseconds of the database's clock at which it is due again; null unless pending. */
  dueAt: number | null;
  /** null when nothing was sent: the endpoint is gone. */
  attempt: Attempt | null;
}

export interface Attempt {
  /** Unix milliseconds of the database's clock. */
  startedAt: number;
  durationMs: number;
  httpStatus: number | null;
  error: string | null;
  response: Buffer | null;
  address: string | null;
}

/**
 * Leases due deliveries of each lane, at most `room` of it, oldest due first, for `leaseMs` by the database's clock. A row whose lease has passed
 * belongs to a dispatcher that is gone or stopped: it is taken over here. Rows that another dispatcher is claiming are skipped. `from` (Unix ms)
 * is where to begin in the lane: between vacuums the index still has an entry for each row that was finished, and a claim would walk over all of
 * them again.
 */
export function claimDeliveries(
  sql: Queryable,
  { lanes, claimId, leaseMs }: { lanes: readonly Grant[]; claimId: string; leaseMs: number },
): Promise<ClaimedDelivery[]> {
  return sql<ClaimedDelivery[]>`
    with picked as (
      select found.id, endpoint.deleted_at is not null as endpoint_deleted
      from unnest(${literal(lanes.map((lane) => lane.endpointId))}::uuid[], ${literal(lanes.map((lane) => lane.kind))}::int[],
          ${literal(lanes.map((lane) => lane.room))}::int[], ${literal(lanes.map((lane) => lane.from))}::float8[]) as lane (endpoint_id, kind, room, start)
        join webhook_endpoints endpoint on endpoint.id = lane.endpoint_id
        cross join lateral (
          select delivery.id from deliveries delivery
          where delivery.endpoint_id = lane.endpoint_id and least(delivery.attempts, 1) = lane.kind and delivery.finished_at is null
            and delivery.due_at >= to_timestamp(lane.start / 1000) and delivery.due_at <= clock_timestamp()
            and (delivery.lease_until is null or delivery.lease_until < clock_timestamp())
          order by delivery.due_at, delivery.id
          limit lane.room
          for no key update skip locked
        ) as found
    )
    update deliveries delivery set lease_until = clock_timestamp() + ${leaseMs}::float8 * interval '1 ms', claim_id = ${claimId}
    from picked, events event
    where delivery.id = picked.id and event.id = delivery.event_id
    returning delivery.id, delivery.endpoint_id, delivery.event_id, delivery.attempts,
      (extract(epoch from delivery.due_at) * 1000)::float8 as due_at, event.body, picked.endpoint_deleted`;
}

/** Endpoints for which deliveries were queued at or after `since` (Unix ms, the database's clock) and are not finished. */
export function findQueued(sql: Queryable, since: number): Promise<{ endpointId: string }[]> {
  return sql<{ endpointId: string }[]>`
    select distinct endpoint_id from deliveries
    where id >= (lpad(to_hex(${Math.floor(since)}::int8), 12, '0') || '70000000000000000000')::uuid and finished_at is null`;
}

/** The database's clock, in Unix milliseconds. */
export async function readClock(sql: Queryable): Promise<number> {
  const [row] = await sql<{ now: number }[]>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`;
  if (row === undefined) throw new Error('the database told no time');
  return row.now;
}

/** Every lane whose oldest delivery is due. Steps from lane to lane through the index: what it costs follows the lanes, not their rows. */
export function findDueLanes(sql: Queryable): Promise<LaneHead[]> {
  return sql<LaneHead[]>`
    with recursive head as (
      (select endpoint_id, least(attempts, 1) as kind, due_at from deliveries
        where finished_at is null order by endpoint_id, least(attempts, 1), due_at, id limit 1)
      union all
      select next.* from head cross join lateral (
        select endpoint_id, least(attempts, 1) as kind, due_at from deliveries
        where finished_at is null and (endpoint_id, least(attempts, 1)) > (head.endpoint_id, head.kind)
        order by endpoint_id, least(attempts, 1), due_at, id limit 1
      ) as next
    )
    select endpoint_id, kind, (extract(epoch from clock_timestamp() - due_at) * 1000)::float8 as overdue_ms
    from head where due_at <= clock_timestamp()`;
}

/** How many deliveries are due, counted up to `limit`. */
export async function countDue(sql: Queryable, limit: number): Promise<number> {
  const [row] = await sql<{ count: bigint }[]>`
    select count(*) as count from (
      select from deliveries where finished_at is null and due_at <= clock_timestamp() limit ${limit}
    ) as due`;
  return Number(row?.count ?? 0n);
}

/**
 * Writes outcomes and their attempts, each only while the row still carries the claim: a dispatcher that comes after its lease was taken over
 * changes nothing. Returns how many were written.
 */
export async function recordOutcomes(sql: Queryable, outcomes: readonly Outcome[]): Promise<number> {
  const attempts = outcomes.map((outcome) => outcome.attempt);
  const [row] = await sql<{ count: bigint }[]>`
    with written as (
      update deliveries delivery set status = outcome.status, attempts = delivery.attempts + outcome.sent,
        due_at = coalesce(to_timestamp(outcome.due_at / 1000), delivery.due_at), lease_until = null, claim_id = null,
        finished_at = case when outcome.status = 'pending' then null else clock_timestamp() end
      from unnest(${literal(outcomes.map((outcome) => outcome.id))}::uuid[], ${literal(outcomes.map((outcome) => outcome.claimId))}::uuid[],
        ${literal(outcomes.map((outcome) => outcome.status))}::text[], ${literal(outcomes.map((outcome) => outcome.dueAt))}::float8[],
        ${literal(attempts.map((attempt) => (attempt === null ? 0 : 1)))}::int[],
        ${literal(attempts.map((attempt) => attempt?.startedAt))}::float8[], ${literal(attempts.map((attempt) => attempt?.durationMs))}::int[],
        ${literal(attempts.map((attempt) => attempt?.httpStatus))}::int[], ${literal(attempts.map((attempt) => attempt?.error))}::text[],
        ${literal(attempts.map((attempt) => attempt?.response?.toString('hex')))}::text[],
        ${literal(attempts.map((attempt) => attempt?.address))}::text[]
      ) as outcome (id, claim_id, status, due_at, sent, started_at, duration_ms, http_status, error, response, address)
      where delivery.id = outcome.id and delivery.claim_id = outcome.claim_id
      returning delivery.attempts as number, outcome.*
    ), logged as (
      insert into delivery_attempts (delivery_id, number, started_at, duration_ms, http_status, error, response, address)
      select id, number, to_timestamp(started_at / 1000), duration_ms, http_status, error, decode(response, 'hex'), address
      from written where sent = 1
    )
    select count(*) as count from written`;
  return Number(row?.count ?? 0n);
}

/** Gives claimed deliveries back unsent. */
export async function releaseDeliveries(sql: Queryable, claimId: string, ids: readonly string[]): Promise<void> {
  await sql`
    update deliveries delivery set lease_until = null, claim_id = null
    from unnest(${literal(ids)}::uuid[]) as released (id)
    where delivery.id = released.id and delivery.claim_id = ${claimId}`;
}

/** Cancels what an endpoint still waits for, when it is deleted. One that is in flight just now ends with its own outcome. */
export async function cancelDeliveries(sql: Queryable, endpointId: string): Promise<void> {
  await sql`
    update deliveries set status = 'cancelled', finished_at = clock_timestamp(), lease_until = null, claim_id = null
    where endpoint_id = ${endpointId} and finished_at is null and (lease_until is null or lease_until < clock_timestamp())`;
}

// An array in Postgres's own notation, which postgres.js would build element by element with checks that these values (ids, numbers, hex, words
// of ours) do not need: a fifth of the time of a large batch.
function literal(values: readonly (string | number | null | undefined)[]): string {
  return `{${values.map((value) => (value === '' ? '""' : String(value ?? null))).join(',')}}`;
}
