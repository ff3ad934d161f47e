// Queue of unfinished deliveries. Dispatchers claim rows; a claim expires at claimed_until. Every
// write for a claimed row repeats the claim id in its WHERE, so the write changes nothing after
// another dispatcher has claimed the row.
import type { Queryable } from '../postgres/connect.ts';
import { idsBetween } from '../postgres/ids.ts';
import type { Fragment } from '../postgres/lists.ts';
import { recordset } from '../postgres/recordset.ts';

/** A request to claim up to `room` deliveries of one endpoint. */
export interface ClaimRequest {
  endpointId: string;
  room: number;
  /**
   * Due time (Unix ms of the database's clock) at which the search starts. Deliveries due earlier
   * are not claimed. Null for no limit.
   */
  floor: number | null;
}

export interface ClaimedDelivery {
  id: string;
  endpointId: string;
  eventId: string;
  /** Number of attempts made before this claim. */
  attempts: number;
  /** Due time in Unix ms of the database's clock. */
  dueAt: number;
  /** The request body, byte for byte. */
  body: string;
  /** The trace of the request that caused the event; null without one. */
  traceparent: string | null;
  /** True when the endpoint is deleted or disabled. The dispatcher then cancels the delivery. */
  endpointClosed: boolean;
  /**
   * Time of the last change of the endpoint's secret or settings, in Unix ms; null when nothing was
   * changed.
   */
  changedAt: number | null;
}

/** The result of sending one claimed delivery. */
export interface Outcome {
  id: string;
  endpointId: string;
  /** The claim under which the delivery was sent. */
  claimId: string;
  /** `cancelled` means that the endpoint is deleted or disabled and no request was sent. */
  status: 'pending' | 'delivered' | 'failed' | 'cancelled';
  /**
   * Time of the next attempt, in Unix ms of the database's clock; null unless status is pending.
   */
  dueAt: number | null;
  /** Null when no request was sent. */
  attempt: Attempt | null;
}

export interface Attempt {
  /** Start time in Unix ms of the database's clock. */
  startedAt: number;
  durationMs: number;
  httpStatus: number | null;
  error: string | null;
  response: Buffer | null;
  address: string | null;
}

export interface DueEndpoint {
  endpointId: string;
  /** Milliseconds since the endpoint's oldest delivery became due. */
  overdueMs: number;
}

/**
 * Claims due deliveries for `claimMs`, oldest due first. Skips rows whose claim has not expired.
 * The result has no order. Needs a pool with `planning: 'queue'`. The commit does not wait for the
 * disk: if a crash of Postgres loses a claim, the delivery is claimed again.
 */
export function claimDeliveries(
  sql: Queryable,
  requests: readonly ClaimRequest[],
  { claimId, claimMs }: { claimId: string; claimMs: number },
): Promise<ClaimedDelivery[]> {
  const wanted = recordset(sql, requests, { endpointId: 'uuid', room: 'int', floor: 'float8' });
  return sql<ClaimedDelivery[]>`
    with local as materialized (
      select set_config('synchronous_commit', 'off', true) as value
    ), claimed as (
      update delivery_queue set claim_id = ${claimId}, claimed_until = clock_timestamp() +
        ${claimMs}::float8 * interval '1 ms'
      where id = any(array(
        select due.id
        from (${wanted}) as wanted
          cross join lateral (
            select id from delivery_queue
            where endpoint_id = wanted.endpoint_id and due_at <= now()
              and due_at >= coalesce(to_timestamp(wanted.floor / 1000), '-infinity')
              and (claimed_until is null or claimed_until < now())
            order by due_at, id limit wanted.room for update skip locked
          ) as due
      ))
      returning id, endpoint_id, event_id, attempts, due_at
    )
    select claimed.id, claimed.endpoint_id, claimed.event_id, claimed.attempts,
      (extract(epoch from claimed.due_at) * 1000)::float8 as due_at,
      event.body, event.traceparent,
      coalesce(endpoint.deleted_at, endpoint.disabled_at) is not null as endpoint_closed,
      (extract(epoch from endpoint.changed_at) * 1000)::float8 as changed_at
    from claimed join local on local.value = 'off'
      cross join lateral (select body, traceparent from events
        where id = claimed.event_id limit 1) as event
      cross join lateral (select deleted_at, disabled_at,
        greatest(rotated_at, settings_at) as changed_at from webhook_endpoints
        where id = claimed.endpoint_id limit 1) as endpoint`;
}

/** Releases claims without counting an attempt. Any dispatcher can claim the rows immediately. */
export async function releaseClaims(
  sql: Queryable,
  claims: readonly { id: string; claimId: string }[],
): Promise<void> {
  if (claims.length === 0) return;
  await sql`
    update delivery_queue queued set claim_id = null, claimed_until = null
    from (${recordset(sql, claims, { id: 'uuid', claimId: 'uuid' })}) as given
    where queued.id = given.id and queued.claim_id = given.claim_id`;
}

/**
 * Finds endpoints whose oldest delivery is due, even if the delivery is claimed. A loose index scan
 * reads one index entry per endpoint.
 */
export function findDueEndpoints(sql: Queryable): Promise<DueEndpoint[]> {
  return sql<DueEndpoint[]>`
    with recursive head as (
      (select endpoint_id, due_at from delivery_queue order by endpoint_id, due_at, id limit 1)
      union all
      select next.* from head cross join lateral (
        select endpoint_id, due_at from delivery_queue where endpoint_id > head.endpoint_id
        order by endpoint_id, due_at, id limit 1
      ) as next
    )
    select endpoint_id, (extract(epoch from clock_timestamp() - due_at) * 1000)::float8 as
      overdue_ms
    from head where due_at <= clock_timestamp()`;
}

/** Counts due deliveries up to `limit`. Retries that are not due yet are not read. */
export async function countDue(sql: Queryable, limit: number): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    with recursive queued as (
      (select endpoint_id from delivery_queue order by endpoint_id limit 1)
      union all
      select next.* from queued cross join lateral (
        select endpoint_id from delivery_queue where endpoint_id > queued.endpoint_id
          order by endpoint_id limit 1
      ) as next
    )
    select count(*)::int as count from (
      select from queued cross join lateral (
        select from delivery_queue where endpoint_id = queued.endpoint_id and due_at <= now()
      ) as due limit ${limit}
    ) as counted`;
  return row?.count ?? 0;
}

/**
 * Writes the outcomes whose claim id is still in the queue row, and returns their delivery ids. A
 * finished delivery moves from the queue to the log. A delivery to be retried gets its next due
 * time, or is cancelled if its endpoint was deleted or disabled.
 */
export async function recordOutcomes(
  sql: Queryable,
  outcomes: readonly Outcome[],
): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    with outcome as materialized (
      select given.id, given.endpoint_id, given.claim_id, to_timestamp(given.due_at / 1000) as due_at,
        to_timestamp(given.started_at / 1000) as started_at, given.duration_ms, given.http_status,
        given.error, given.response, given.address,
        case when given.status = 'pending'
          and coalesce(endpoint.deleted_at, endpoint.disabled_at) is not null then 'cancelled'
          else given.status end as result
      from (${recordsOf(sql, outcomes)}) as given
        join webhook_endpoints endpoint on endpoint.id = given.endpoint_id
    ), ended as (
      delete from delivery_queue queued using outcome
      where queued.id = outcome.id and queued.claim_id = outcome.claim_id
        and outcome.result <> 'pending'
      returning queued.id, queued.endpoint_id, queued.event_id, queued.event_type, queued.attempts,
        queued.replay_of, queued.replayed, result, started_at, duration_ms, http_status, error, response, address
    ), logged as (
      insert into deliveries (id, endpoint_id, event_id, event_type, status, attempts, replay_of,
        replayed, finished_at,
        last_started_at, last_duration_ms, last_http_status, last_error, last_response,
          last_address)
      select id, endpoint_id, event_id, event_type, result,
        attempts + (started_at is not null)::int, replay_of, replayed, clock_timestamp(),
        started_at, duration_ms, http_status, error, response, address
      from ended
    ), put_back as (
      update delivery_queue queued set attempts = queued.attempts + 1,
        due_at = outcome.due_at, claim_id = null, claimed_until = null
      from outcome
      where queued.id = outcome.id and queued.claim_id = outcome.claim_id
        and outcome.result = 'pending'
      returning queued.id, queued.attempts, started_at, duration_ms, http_status, error, response,
        address
    ), attempted as (
      insert into earlier_attempts (delivery_id, number, started_at, duration_ms, http_status,
        error, response, address)
      select id, attempts, started_at, duration_ms, http_status, error, response, address
        from put_back
    )
    select id from ended union all select id from put_back`;
  return new Set(rows.map(({ id }) => id));
}

/**
 * Finds the outcomes that an earlier call of recordOutcomes() committed before the connection to
 * Postgres was lost. Returns their delivery ids. An outcome that is not found was never recorded,
 * because its claim had expired.
 */
export async function findRecorded(
  sql: Queryable,
  outcomes: readonly Outcome[],
): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    select given.id from (${recordsOf(sql, outcomes)}) as given
    where case when given.started_at is null
      then exists (select from deliveries where id = given.id and status = 'cancelled')
      else exists (select from delivery_attempts where delivery_id = given.id
        and started_at = to_timestamp(given.started_at / 1000)) end`;
  return new Set(rows.map(({ id }) => id));
}

const MAX_CANCELLED = 1000;

/**
 * Cancels the unclaimed deliveries of an endpoint. recordOutcomes() cancels a claimed delivery
 * after its current attempt, unless this attempt finishes the delivery.
 */
export async function cancelUnclaimed(sql: Queryable, endpointId: string): Promise<void> {
  const ofEndpoint = sql`endpoint_id = ${endpointId}`;
  for (let count = MAX_CANCELLED; count === MAX_CANCELLED;)
    count = await cancelSome(sql, ofEndpoint);
}

/** Filters for pending deliveries. A null filter matches every delivery. */
export interface PendingFilters {
  appId: string | null;
  endpointId: string | null;
  type: string | null;
  /** Time range: the delivery was queued at or after `since`, and before `until`. */
  since: Date | null;
  until: Date | null;
}

const matches = (
  sql: Queryable,
  { appId, endpointId, type, since, until }: PendingFilters,
): Fragment => {
  const { first, end } = idsBetween(since, until);
  return sql`id >= ${first}::uuid and id < ${end}::uuid
    and (${endpointId}::uuid is null or endpoint_id = ${endpointId})
    and (${appId}::uuid is null or endpoint_id in (select id from webhook_endpoints
      where app_id = ${appId}))
    and (${type}::text is null or event_type = ${type})`;
};

/** Counts the pending deliveries that match the filters, claimed or not. */
export async function countPending(sql: Queryable, filters: PendingFilters): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from delivery_queue where ${matches(sql, filters)}`;
  return row?.count ?? 0;
}

/**
 * Cancels the unclaimed deliveries that match the filters, in batches. Returns the number of
 * cancelled deliveries. `onProgress` gets the number so far after each batch.
 */
export async function cancelMatching(
  sql: Queryable,
  filters: PendingFilters,
  onProgress: (count: number) => void = () => undefined,
): Promise<number> {
  let total = 0;
  for (let count = MAX_CANCELLED; count === MAX_CANCELLED;) {
    count = await cancelSome(sql, matches(sql, filters));
    total += count;
    onProgress(total);
  }
  return total;
}

async function cancelSome(sql: Queryable, condition: Fragment): Promise<number> {
  const { count } = await sql`
    with free as (
      select id from delivery_queue
      where ${condition} and (claimed_until is null or claimed_until < clock_timestamp())
      order by id limit ${MAX_CANCELLED} for update skip locked
    ), ended as (
      delete from delivery_queue where id = any(array(select id from free))
      returning id, endpoint_id, event_id, event_type, attempts, replay_of, replayed
    )
    insert into deliveries (id, endpoint_id, event_id, event_type, status, attempts, replay_of,
      replayed, finished_at)
    select id, endpoint_id, event_id, event_type, 'cancelled', attempts, replay_of, replayed,
      clock_timestamp() from ended`;
  return count;
}

/**
 * An endpoint that has unfinished deliveries or is failing, for operators. Each count stops at a
 * limit.
 */
export interface QueuedEndpoint {
  endpointId: string;
  appId: string;
  appName: string;
  url: string;
  pending: number;
  /** Number of unfinished deliveries with at least one failed attempt. */
  retrying: number;
  due: number;
  /** Seconds since the oldest delivery became due; 0 when none is due. */
  lateSeconds: number;
  failingSince: Date | null;
  lastError: string | null;
  disabledAt: Date | null;
}

/**
 * Lists endpoints that have unfinished deliveries or are failing, most overdue first. Reads at most
 * `most` deliveries per endpoint. A loose index scan finds the endpoints in the queue.
 */
export function listQueuedEndpoints(
  sql: Queryable,
  { most, limit }: { most: number; limit: number },
): Promise<QueuedEndpoint[]> {
  return sql<QueuedEndpoint[]>`
    with recursive head as (
      (select endpoint_id from delivery_queue order by endpoint_id limit 1)
      union all
      select next.* from head cross join lateral (
        select endpoint_id from delivery_queue where endpoint_id > head.endpoint_id
          order by endpoint_id limit 1
      ) as next
    )
    select e.id as endpoint_id, e.app_id, a.name as app_name, e.url, counted.*, h.failing_since,
      h.last_error, e.disabled_at
    from (select endpoint_id from head
        union select endpoint_id from endpoint_health where failing_since is not null) as listed
      join webhook_endpoints e on e.id = listed.endpoint_id and e.deleted_at is null
      join apps a on a.id = e.app_id
      left join endpoint_health h on h.endpoint_id = e.id
      cross join lateral (
        select count(*)::int as pending, count(*) filter (where attempts > 0)::int as retrying,
          count(*) filter (where due_at <= now())::int as due,
          coalesce(greatest(0, extract(epoch from now() - min(due_at))), 0)::int as late_seconds
        from (select attempts, due_at from delivery_queue where endpoint_id = e.id
          order by due_at, id limit ${most}) as first
      ) as counted
    order by counted.late_seconds desc, counted.pending desc, e.id limit ${limit}`;
}

/** SQL for the outcomes as a table. Times are Unix ms. */
const recordsOf = (sql: Queryable, outcomes: readonly Outcome[]): Fragment =>
  recordset(
    sql,
    outcomes.map(({ attempt, ...outcome }) => ({ ...attempt, ...outcome })),
    {
      ...{ id: 'uuid', endpointId: 'uuid', claimId: 'uuid', status: 'text', dueAt: 'float8' },
      ...{ startedAt: 'float8', durationMs: 'int', httpStatus: 'int', error: 'text' },
      ...{ response: 'bytea', address: 'text' },
    },
  );
