// The queue of deliveries, as dispatchers use it. Run these on connectQueue(): see there why. A lane is one endpoint's first sendings (kind 0) or
// its retries (kind 1), oldest due first. Who may send them is said in delivery_leases; nothing is written here before an outcome is.
import { literal } from './arrays.ts';
import type { Queryable } from './connect.ts';
import type { EndpointClaim } from './delivery-leases.ts';
import { firstIdAt } from './ids.ts';

/** 0: never sent before; 1: a retry. */
export type LaneKind = 0 | 1;

export interface LaneHead {
  endpointId: string;
  kind: LaneKind;
  /** Milliseconds since the oldest of the lane became due. */
  overdueMs: number;
}

/** What may be read of one lane. */
export interface Grant {
  endpointId: string;
  kind: LaneKind;
  room: number;
  /** Rows up to this one are left out: when it was due (Unix seconds) and its id. */
  after: { dueAt: number; id: string };
}

export interface DueDelivery {
  id: string;
  endpointId: string;
  eventId: string;
  /** Attempts made before this one. */
  attempts: number;
  /** Unix seconds of the database's clock, to the microsecond. */
  dueAt: number;
  /** Sent byte for byte. */
  body: Buffer;
  endpointDeleted: boolean;
}

/** What became of one delivery. All but `cancelled` ones had an attempt. */
export interface Outcome {
  id: string;
  endpointId: string;
  /** The lease under which it was sent. */
  claimId: string;
  /** Attempts made before this one. */
  attempts: number;
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

const nothing = Buffer.alloc(0);

/**
 * Reads what is due in each lane, at most `room` of it, oldest due first, of those endpoints whose lease is still the one that is named. `after` is
 * where to begin in the lane: between vacuums the index still has an entry for each row that was finished, and a read would walk over all of them
 * again. "Due" goes by now(), which the index can be searched by: what is not due yet is not walked over. Rows come as bytes, since decoding a body
 * only to encode it again for sending is what most of a row's time would go into; all but the body in one column, since each one costs.
 */
export async function readDue(sql: Queryable, lanes: readonly (Grant & { claimId: string })[]): Promise<DueDelivery[]> {
  const rows = await sql`
    select concat_ws(' ', due.id, due.event_id, lane.number, due.attempts, date_part('epoch', due.due_at), endpoint.deleted_at is not null), event.body
    from unnest(${literal(lanes.map((lane) => lane.endpointId))}::uuid[], ${literal(lanes.map((lane) => lane.claimId))}::uuid[],
        ${literal(lanes.map((lane) => lane.kind))}::int[], ${literal(lanes.map((lane) => lane.room))}::int[],
        ${literal(lanes.map((lane) => lane.after.dueAt))}::float8[], ${literal(lanes.map((lane) => lane.after.id))}::uuid[]
      ) with ordinality as lane (endpoint_id, claim_id, kind, room, after_due, after_id, number)
      join delivery_leases held on held.endpoint_id = lane.endpoint_id and held.claim_id = lane.claim_id
      join webhook_endpoints endpoint on endpoint.id = lane.endpoint_id
      cross join lateral (
        select delivery.id, delivery.event_id, delivery.attempts, delivery.due_at from deliveries delivery
        where delivery.endpoint_id = lane.endpoint_id and least(delivery.attempts, 1) = lane.kind and delivery.finished_at is null
          and (delivery.due_at, delivery.id) > (to_timestamp(lane.after_due), lane.after_id) and delivery.due_at <= now()
        order by delivery.due_at, delivery.id
        limit lane.room
      ) as due
      join events event on event.id = due.event_id`.raw();
  return rows.map(([head, body]) => {
    const [id = '', eventId = '', number, attempts, dueAt, endpointDeleted] = (head ?? nothing).toString('latin1').split(' ');
    return {
      id,
      endpointId: lanes[Number(number) - 1]?.endpointId ?? '',
      eventId,
      attempts: Number(attempts),
      dueAt: Number(dueAt),
      body: body ?? nothing,
      endpointDeleted: endpointDeleted === 't',
    };
  });
}

/** Endpoints for which deliveries were queued at or after `since` (Unix ms, the database's clock) and are not finished. */
export function findQueued(sql: Queryable, since: number): Promise<{ endpointId: string }[]> {
  return sql<{ endpointId: string }[]>`
    select distinct endpoint_id from deliveries
    where id >= ${firstIdAt(new Date(since))}::uuid and finished_at is null`;
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

/** How many deliveries are due, counted up to `limit`. Goes from lane to lane, too: what is not due yet is not walked over. */
export async function countDue(sql: Queryable, limit: number): Promise<number> {
  const [row] = await sql<{ count: bigint }[]>`
    with recursive lane as (
      (select endpoint_id, least(attempts, 1) as kind from deliveries
        where finished_at is null order by endpoint_id, least(attempts, 1) limit 1)
      union all
      select next.* from lane cross join lateral (
        select endpoint_id, least(attempts, 1) as kind from deliveries
        where finished_at is null and (endpoint_id, least(attempts, 1)) > (lane.endpoint_id, lane.kind)
        order by endpoint_id, least(attempts, 1) limit 1
      ) as next
    )
    select count(*) as count from (
      select from lane cross join lateral (
        select from deliveries
        where endpoint_id = lane.endpoint_id and least(attempts, 1) = lane.kind and finished_at is null and due_at <= now()
      ) as due limit ${limit}
    ) as counted`;
  return Number(row?.count ?? 0n);
}

/**
 * Writes outcomes and their attempts, each only while its lease is still the one that it was sent under, and once: a dispatcher that comes after its
 * lease was taken over changes nothing. A delivery that was cancelled while its request was under way has its attempt logged, and stays cancelled
 * unless it arrived. The row has its last attempt; the one that it had goes to those before, as this statement's snapshot still shows it. Returns
 * how many were written.
 */
export async function recordOutcomes(sql: Queryable, outcomes: readonly Outcome[]): Promise<number> {
  const attempts = outcomes.map((outcome) => outcome.attempt);
  const claims = new Map<string, EndpointClaim & { number: number }>();
  const claimed = outcomes.map(({ endpointId, claimId }) => {
    const key = endpointId + claimId;
    let claim = claims.get(key);
    if (claim === undefined) claims.set(key, (claim = { endpointId, claimId, number: claims.size + 1 }));
    return claim.number;
  });
  const named = [...claims.values()];
  // The leases are locked, so that whoever takes one over reads what was written under it. In order, so that no two wait for each other.
  // "not in", since no index can be searched by it: in a young table all that is pending was read for each batch, and held against each outcome.
  const [row] = await sql<{ count: bigint }[]>`
    with held as (
      select claim.number
      from unnest(${literal(named.map((claim) => claim.endpointId))}::uuid[], ${literal(named.map((claim) => claim.claimId))}::uuid[])
          with ordinality as claim (endpoint_id, claim_id, number)
        join delivery_leases lease on lease.endpoint_id = claim.endpoint_id and lease.claim_id = claim.claim_id
      order by lease.endpoint_id for share of lease
    ), written as (
      update deliveries delivery set attempts = delivery.attempts + outcome.sent,
        status = case when outcome.status = 'delivered' or (outcome.status <> 'pending' and delivery.status = 'pending')
          then outcome.status else delivery.status end,
        due_at = coalesce(to_timestamp(outcome.due_at / 1000), delivery.due_at),
        finished_at = case when outcome.status = 'delivered' or (outcome.status <> 'pending' and delivery.status = 'pending')
          then clock_timestamp() else delivery.finished_at end,
        last_started_at = case when outcome.sent = 1 then to_timestamp(outcome.started_at / 1000) else delivery.last_started_at end,
        last_duration_ms = case when outcome.sent = 1 then outcome.duration_ms else delivery.last_duration_ms end,
        last_http_status = case when outcome.sent = 1 then outcome.http_status else delivery.last_http_status end,
        last_error = case when outcome.sent = 1 then outcome.error else delivery.last_error end,
        last_response = case when outcome.sent = 1 then decode(outcome.response, 'hex') else delivery.last_response end,
        last_address = case when outcome.sent = 1 then outcome.address else delivery.last_address end
      from unnest(${literal(outcomes.map((outcome) => outcome.id))}::uuid[], ${literal(claimed)}::int8[],
        ${literal(outcomes.map((outcome) => outcome.attempts))}::int[],
        ${literal(outcomes.map((outcome) => outcome.status))}::text[], ${literal(outcomes.map((outcome) => outcome.dueAt))}::float8[],
        ${literal(attempts.map((attempt) => (attempt === null ? 0 : 1)))}::int[],
        ${literal(attempts.map((attempt) => attempt?.startedAt))}::float8[], ${literal(attempts.map((attempt) => attempt?.durationMs))}::int[],
        ${literal(attempts.map((attempt) => attempt?.httpStatus))}::int[], ${literal(attempts.map((attempt) => attempt?.error))}::text[],
        ${literal(attempts.map((attempt) => attempt?.response?.toString('hex')))}::text[],
        ${literal(attempts.map((attempt) => attempt?.address))}::text[]
      ) as outcome (id, claim, attempts, status, due_at, sent, started_at, duration_ms, http_status, error, response, address)
      where outcome.claim = any((select array_agg(number) from held)::int8[])
        and delivery.id = outcome.id and delivery.attempts = outcome.attempts and delivery.status not in ('delivered', 'failed')
      returning delivery.id, outcome.attempts, outcome.sent
    ), earlier as (
      insert into earlier_attempts (delivery_id, number, started_at, duration_ms, http_status, error, response, address)
      select id, before.attempts, last_started_at, last_duration_ms, last_http_status, last_error, last_response, last_address
      from written join deliveries before using (id)
      where written.attempts > 0 and written.sent = 1 and last_started_at is not null
    )
    select count(*) as count from written`;
  return Number(row?.count ?? 0n);
}
