// Deliveries of all apps as operators read them, newest first. One statement walks a bounded number of rows whatever the filters are, so that none is
// slow on millions of rows: what matches rarely takes several statements, each of which says how far back it has looked.
import type { Queryable } from './connect.ts';
import type { DeliveryRow } from './deliveries-list.ts';

export interface LogFilters {
  status: DeliveryRow['status'] | null;
  appId: string | null;
  endpointId: string | null;
  type: string | null;
}

export interface LoggedDelivery extends DeliveryRow {
  appId: string;
  appName: string;
  url: string;
  /** Of the last attempt: its HTTP status, or why there was no answer; both null before the first. */
  lastStatus: number | null;
  lastError: string | null;
}

/**
 * Which rows are walked: `all` by id; `endpoints` those of the app's or the endpoint named; `undelivered` failed and cancelled ones; `waiting` unfinished
 * ones, in no order: all of them, or one more than `walk` when there are more.
 */
export type Source = 'all' | 'endpoints' | 'undelivered' | 'waiting';

export interface Walk {
  source: Source;
  /** Exclusive. */
  before: string;
  /** Inclusive. */
  from: string;
  /** Rows that are looked at. */
  walk: number;
  /** Rows that are returned. */
  limit: number;
}

export interface Walked {
  rows: LoggedDelivery[];
  /** How many rows were looked at: fewer than `walk` means that there are no more. */
  walked: number;
  /** The oldest of them. */
  walkedTo: string | null;
}

/** Deliveries that match, newest first, of the next `walk` rows of the source. */
export async function walkDeliveries(
  sql: Queryable,
  { status, appId, endpointId, type }: LogFilters,
  { source, before, from, walk, limit }: Walk,
): Promise<Walked> {
  // Each source's condition is a one-time filter: the other three are not run. The laterals keep Postgres from reading a whole table for a hash. An
  // endpoint's rows are in an index by their status: of each as many are read as are looked at in all.
  const found = await sql<(Walked & LoggedDelivery)[]>`
    with walked as materialized (
      (select id, endpoint_id, event_id, status, attempts, due_at, replay_of, created_at, finished_at, last_http_status, last_error
        from deliveries
        where ${source}::text = 'all' and id < ${before}::uuid and id >= ${from}::uuid
        order by id desc limit ${walk})
      union all
      (select each.* from webhook_endpoints endpoint cross join lateral (
          select found.* from unnest(array['pending', 'delivered', 'failed', 'cancelled']) as wanted (status) cross join lateral (
            select id, endpoint_id, event_id, status, attempts, due_at, replay_of, created_at, finished_at, last_http_status, last_error
            from deliveries
            where (endpoint_id, status, id) >= (endpoint.id, wanted.status, ${from}::uuid)
              and (endpoint_id, status, id) < (endpoint.id, wanted.status, ${before}::uuid)
            order by endpoint_id desc, status desc, id desc limit ${walk}
          ) as found
          where ${status}::text is null or wanted.status = ${status}
          order by id desc limit ${walk}
        ) as each
        where ${source}::text = 'endpoints' and (endpoint.app_id = ${appId}::uuid or endpoint.id = ${endpointId}::uuid)
        order by each.id desc limit ${walk})
      union all
      (select id, endpoint_id, event_id, status, attempts, due_at, replay_of, created_at, finished_at, last_http_status, last_error
        from deliveries
        where ${source}::text = 'undelivered' and status in ('failed', 'cancelled') and id < ${before}::uuid and id >= ${from}::uuid
        order by id desc limit ${walk})
      union all
      (select id, endpoint_id, event_id, status, attempts, due_at, replay_of, created_at, finished_at, last_http_status, last_error
        from deliveries
        where ${source}::text = 'waiting' and finished_at is null and id < ${before}::uuid and id >= ${from}::uuid
        order by endpoint_id, least(attempts, 1), due_at, id limit ${walk + 1})
    ), matching as (
      select walked.*, endpoint.app_id, endpoint.url, event.type as event_type
      from walked
        cross join lateral (select app_id, url from webhook_endpoints where id = walked.endpoint_id limit 1) as endpoint
        cross join lateral (select type from events where id = walked.event_id limit 1) as event
      where (${status}::text is null or walked.status = ${status})
        and (${endpointId}::uuid is null or walked.endpoint_id = ${endpointId})
        and (${appId}::uuid is null or endpoint.app_id = ${appId})
        and (${type}::text is null or event.type = ${type})
      order by walked.id desc limit ${limit}
    )
    select (select count(*)::int from walked) as walked, (select id from walked order by id limit 1) as walked_to,
      matching.id, matching.endpoint_id as webhook_id, matching.event_id, matching.event_type, matching.status, matching.attempts,
      case when matching.status = 'pending' then matching.due_at end as next_attempt_at, matching.replay_of, matching.created_at, matching.finished_at,
      matching.app_id, app.name as app_name, matching.url, matching.last_http_status as last_status, matching.last_error
    from (select) as always
      left join matching on true
      left join lateral (select name from apps where id = matching.app_id limit 1) as app on true
    order by matching.id desc`;
  const [first] = found;
  return {
    walked: first?.walked ?? 0,
    walkedTo: first?.walkedTo ?? null,
    rows: found.flatMap(({ walked: _walked, walkedTo: _to, ...row }) => ((row.id as string | null) === null ? [] : [row])),
  };
}

export interface WholeDelivery extends LoggedDelivery {
  /** As it was or will be sent, byte for byte. */
  body: string;
  /** As domain/secrets.ts sealed it, for the endpoint's id. */
  secret: Buffer;
  endpointDeletedAt: Date | null;
  merchantWallet: string;
  merchantName: string | null;
}

/** One delivery with all that was sent. */
export async function findWholeDelivery(sql: Queryable, id: string): Promise<WholeDelivery | undefined> {
  const [row] = await sql<WholeDelivery[]>`
    select delivery.id, delivery.endpoint_id as webhook_id, delivery.event_id, event.type as event_type, delivery.status, delivery.attempts,
      case when delivery.status = 'pending' then delivery.due_at end as next_attempt_at, delivery.replay_of, delivery.created_at, delivery.finished_at,
      app.id as app_id, app.name as app_name, endpoint.url, null::int as last_status, null::text as last_error,
      event.body, endpoint.secret, endpoint.deleted_at as endpoint_deleted_at, merchant.wallet as merchant_wallet, merchant.name as merchant_name
    from deliveries delivery
      join events event on event.id = delivery.event_id
      join webhook_endpoints endpoint on endpoint.id = delivery.endpoint_id
      join apps app on app.id = endpoint.app_id
      join merchants merchant on merchant.id = app.merchant_id
    where delivery.id = ${id}`;
  return row;
}

export interface AppName {
  id: string;
  name: string;
}

/** The newest apps of all merchants, by name. */
export function listAppNames(sql: Queryable, limit: number): Promise<AppName[]> {
  return sql<
    AppName[]
  >`select id, name from (select id, name from apps order by id desc limit ${limit}) as newest order by lower(name), id`;
}
