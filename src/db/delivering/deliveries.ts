// Reads deliveries for merchants and operators, from the queue table and the log table together.
// delivery-queue.ts writes both tables.
import type { Queryable } from '../postgres/connect.ts';
import { among, type Fragment, type Key, type Page, pageOf, type Span } from '../postgres/lists.ts';
import type { EventType } from './events.ts';

export interface DeliveryRow {
  id: string;
  webhookId: string;
  eventId: string;
  eventType: EventType;
  status: 'pending' | 'delivered' | 'failed' | 'cancelled';
  attempts: number;
  /** Null when the delivery is finished. */
  nextAttemptAt: Date | null;
  replayOf: string | null;
  createdAt: Date;
  finishedAt: Date | null;
}

/**
 * A delivery with the result of its last attempt: lastHttpStatus or lastError. Before the first
 * attempt, both fields are null.
 */
export interface AnsweredDelivery extends DeliveryRow {
  lastHttpStatus: number | null;
  /** The reason why the last attempt got no response. */
  lastError: string | null;
}

export interface DeliveryAttemptRow {
  number: number;
  startedAt: Date;
  durationMs: number;
  httpStatus: number | null;
  error: string | null;
  response: Buffer | null;
  address: string | null;
}

/** The time span applies to createdAt of the delivery. */
export interface DeliveryFilters extends Span {
  status: readonly DeliveryRow['status'][] | null;
  type: readonly string[] | null;
  /** Filters by the last attempt: an HTTP status in this range, or no response (`none`). */
  answer?: { least: number; most: number } | 'none' | null | undefined;
}

/** The columns of a DeliveryRow, selected from the view all_deliveries. */
const columns = (sql: Queryable) => sql`
  id, endpoint_id as webhook_id, event_id, event_type, status, attempts, next_attempt_at, replay_of,
    created_at, finished_at`;

/** Lists the deliveries of an endpoint, newest first. */
export function listDeliveries(
  sql: Queryable,
  endpointId: string,
  filters: DeliveryFilters,
  page: Page,
): Promise<AnsweredDelivery[]> {
  const key = { column: 'endpoint_id', value: sql`${endpointId}::uuid` };
  return sql<AnsweredDelivery[]>`${listed(sql, key, filters, page)}`;
}

/** Lists the deliveries to all endpoints of an app, including deleted endpoints, newest first. */
export function listDeliveriesOfApp(
  sql: Queryable,
  appId: string,
  filters: DeliveryFilters,
  page: Page,
): Promise<AnsweredDelivery[]> {
  const key = { column: 'endpoint_id', value: sql`endpoint.id` };
  return sql<AnsweredDelivery[]>`
    select each.* from (
        select id from webhook_endpoints where app_id = ${appId} and deleted_at is null
        union all
        select id from webhook_endpoints where app_id = ${appId} and deleted_at is not null
      ) as endpoint
      cross join lateral (${listed(sql, key, filters, page)}) as each
    order by each.id desc limit ${page.limit}`;
}

const answeredColumns = (sql: Queryable) => sql`${columns(sql)}, last_http_status, last_error`;

/**
 * SQL of one page. The last response of a delivered delivery is always 2xx. A filter for other
 * responses therefore reads only pending, failed and cancelled deliveries.
 */
function listed(
  sql: Queryable,
  key: Key,
  { status, type, answer = null, ...span }: DeliveryFilters,
  page: Page,
): Fragment {
  const filters = [...filtersOf(sql, { status, type }), ...answeredWith(sql, answer)];
  const select = (more: readonly Fragment[] = []) => sql`
    select ${answeredColumns(sql)} from all_deliveries
    where ${pageOf(sql, key, { ...page, ...span }, [...more, ...filters])}`;
  if (answer === null) return select();
  if (answer !== 'none' && answer.least >= 200 && answer.most < 300)
    return select([hasStatus(sql, 'delivered')]);
  return sql`
    select * from (
      (${select([hasStatus(sql, 'pending')])})
      union all (${select([sql`and status in ('failed', 'cancelled')`])})
    ) as both_tables order by id desc limit ${page.limit}`;
}

function answeredWith(
  sql: Queryable,
  answer: NonNullable<DeliveryFilters['answer']> | null,
): Fragment[] {
  if (answer === null) return [];
  return answer === 'none'
    ? [sql`and last_error is not null`]
    : [sql`and last_http_status between ${answer.least} and ${answer.most}`];
}

export async function findAppOfDelivery(sql: Queryable, id: string): Promise<string | undefined> {
  const [row] = await sql<{ appId: string }[]>`
    select app_id from all_deliveries delivery join webhook_endpoints endpoint
      on endpoint.id = delivery.endpoint_id
    where delivery.id = ${id}`;
  return row?.appId;
}

function filtersOf(
  sql: Queryable,
  { status, type }: Pick<DeliveryFilters, 'status' | 'type'>,
): Fragment[] {
  const [only, ...others] = status ?? [];
  return [
    ...(only !== undefined && others.length === 0
      ? [hasStatus(sql, only)]
      : among(sql, 'status', status)),
    ...among(sql, 'event_type', type),
  ];
}

/**
 * A status filter that names the status as a constant, because Postgres uses a partial index only
 * for a constant condition.
 */
function hasStatus(sql: Queryable, status: DeliveryRow['status']) {
  return {
    pending: sql`and status = 'pending'`,
    delivered: sql`and status = 'delivered'`,
    failed: sql`and status = 'failed'`,
    cancelled: sql`and status = 'cancelled'`,
  }[status];
}

export async function findDelivery(
  sql: Queryable,
  id: string,
): Promise<AnsweredDelivery | undefined> {
  const [row] = await sql<AnsweredDelivery[]>`
    select ${answeredColumns(sql)} from all_deliveries where id = ${id}`;
  return row;
}

/** Lists the attempts of a delivery in order. A delivery has at most six attempts. */
export function listAttempts(sql: Queryable, deliveryId: string): Promise<DeliveryAttemptRow[]> {
  return sql<DeliveryAttemptRow[]>`
    select number, started_at, duration_ms, http_status, error, response, address
      from delivery_attempts
    where delivery_id = ${deliveryId} order by number`;
}

// Deliveries of all apps, for operators. Each statement reads a limited number of rows, including
// rows that do not match the filter. If few rows match, several statements are needed. Each
// statement continues at the last row that the previous statement read.

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
  /**
   * lastStatus is the HTTP status of the last attempt. lastError is the reason why the last attempt
   * got no response. Both fields are null before the first attempt.
   */
  lastStatus: number | null;
  lastError: string | null;
}

/**
 * The deliveries that walkDeliveries() reads. `all`: every delivery. `endpoints`: deliveries of the
 * given app or endpoint. `undelivered`: failed and cancelled deliveries. `waiting`: unfinished
 * deliveries.
 */
export type DeliveryScope = 'all' | 'endpoints' | 'undelivered' | 'waiting';

export interface Walk {
  scope: DeliveryScope;
  /** Only deliveries with an id below this id are read. */
  before: string;
  /** Only deliveries with at least this id are read. */
  from: string;
  /** Maximum number of rows read. */
  walk: number;
  /** Maximum number of rows returned. */
  limit: number;
}

export interface Walked {
  rows: LoggedDelivery[];
  /** Number of rows read. A number below `walk` means that the scope has no more rows. */
  walked: number;
  /** Id of the oldest row read. */
  walkedTo: string | null;
}

/**
 * Reads the next `walk` rows of the scope. Returns the rows that match the filters, newest first.
 */
export async function walkDeliveries(
  sql: Queryable,
  { status, appId, endpointId, type }: LogFilters,
  { scope, before, from, walk, limit }: Walk,
): Promise<Walked> {
  const range = sql`id < ${before}::uuid and id >= ${from}::uuid order by id desc limit ${walk}`;
  const read = sql`id, endpoint_id, event_id, event_type, status, attempts, next_attempt_at,
    replay_of, created_at, finished_at`;
  const walked = {
    all: sql`select ${read} from all_deliveries where ${range}`,
    undelivered: sql`select ${read} from all_deliveries
      where status in ('failed', 'cancelled') and ${range}`,
    waiting: sql`select ${read} from all_deliveries where status = 'pending' and ${range}`,
    endpoints: sql`
      select each.* from webhook_endpoints endpoint
        cross join lateral (select ${read} from all_deliveries where endpoint_id = endpoint.id
          and ${range}) as each
      where endpoint.app_id = ${appId}::uuid or endpoint.id = ${endpointId}::uuid
      order by each.id desc limit ${walk}`,
  }[scope];
  const found = await sql<(Walked & LoggedDelivery)[]>`
    with walked as materialized (${walked}), matching as (
      select walked.*, endpoint.app_id, endpoint.url
      from walked cross join lateral (select app_id, url from webhook_endpoints
        where id = walked.endpoint_id limit 1) as endpoint
      where true ${status === null ? sql`` : hasStatus(sql, status)}
        ${endpointId === null ? sql`` : sql`and endpoint_id = ${endpointId}`}
        ${appId === null ? sql`` : sql`and app_id = ${appId}`}
        ${type === null ? sql`` : sql`and event_type = ${type}`}
      order by walked.id desc limit ${limit}
    )
    select (select count(*)::int from walked) as walked, (select id from walked order by id
      limit 1) as walked_to,
      ${columns(sql)}, matching.app_id, app.name as app_name, matching.url,
        last.http_status as last_status, last.error as last_error
    from (select) as always
      left join matching on true
      left join lateral (select name from apps where id = matching.app_id limit 1) as app on true
      left join lateral (
        select http_status, error from delivery_attempts where delivery_id = matching.id
          order by number desc limit 1
      ) as last on true
    order by matching.id desc`;
  const [first] = found;
  return {
    walked: first?.walked ?? 0,
    walkedTo: first?.walkedTo ?? null,
    rows: found.flatMap(({ walked: _walked, walkedTo: _to, ...row }) =>
      (row.id as string | null) === null ? [] : [row],
    ),
  };
}

export interface WholeDelivery extends LoggedDelivery {
  /** The request body, byte for byte. */
  body: string;
  /**
   * The endpoint's current secret, encrypted by domain/accounts/secrets.ts. The endpoint's id is
   * needed to decrypt the secret.
   */
  secret: Buffer;
  /**
   * The secret before the last rotation. This secret was current from previousSince to rotatedAt,
   * and requests are also signed with it until previousUntil.
   */
  previousSecret: Buffer | null;
  previousSince: Date | null;
  rotatedAt: Date | null;
  previousUntil: Date | null;
  endpointDeletedAt: Date | null;
  merchantWallet: string;
  merchantName: string | null;
}

/** Finds one delivery with its event body, endpoint and merchant. */
export async function findWholeDelivery(
  sql: Queryable,
  id: string,
): Promise<WholeDelivery | undefined> {
  const [row] = await sql<WholeDelivery[]>`
    select delivery.*, app.id as app_id, app.name as app_name, endpoint.url,
      null::int as last_status, null::text as last_error,
      event.body, endpoint.secret, endpoint.previous_secret, endpoint.previous_since,
        endpoint.rotated_at, endpoint.previous_until,
      endpoint.deleted_at as endpoint_deleted_at, merchant.wallet as merchant_wallet,
        merchant.name as merchant_name
    from (select ${columns(sql)} from all_deliveries where id = ${id}) as delivery
      join events event on event.id = delivery.event_id
      join webhook_endpoints endpoint on endpoint.id = delivery.webhook_id
      join apps app on app.id = endpoint.app_id
      join merchants merchant on merchant.id = app.merchant_id`;
  return row;
}

export interface AppRef {
  id: string;
  name: string;
}

/** Reads the newest `limit` apps of all merchants, and sorts these apps by name. */
export function listAppNames(sql: Queryable, limit: number): Promise<AppRef[]> {
  return sql<
    AppRef[]
  >`select id, name from (select id, name from apps order by id desc limit ${limit}) as newest
    order by lower(name), id`;
}

/**
 * Returns the ids of the deliveries that replay one of `ids`, newest first. Only replays queued at
 * or after `since` (a timestamp as text) are returned.
 */
export async function listReplaysOf(
  sql: Queryable,
  ids: readonly string[],
  since: string,
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from all_deliveries
    where id >= first_id_at(${since}::timestamptz) and replay_of = any(${ids}::uuid[])
      order by id desc`;
  return rows.map(({ id }) => id);
}

export function countByStatus(
  sql: Queryable,
  ids: readonly string[],
): Promise<{ status: DeliveryRow['status']; count: number }[]> {
  return sql<{ status: DeliveryRow['status']; count: number }[]>`
    select status, count(*)::int as count from all_deliveries where id = any(${ids}::uuid[])
    group by status order by status`;
}
