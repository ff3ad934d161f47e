import type { Queryable } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';
import { cancelUnclaimed } from './delivery-queue.ts';
import type { ExtraEventType } from './events.ts';

/**
 * `merchant`: the merchant disabled the endpoint over the API. `failing`: a dispatcher disabled the
 * endpoint, because all requests failed for ENDPOINT_DISABLE_DAYS days.
 */
export type DisabledReason = 'merchant' | 'failing';

export interface EndpointRow {
  id: string;
  appId: string;
  url: string;
  /** Event types that the endpoint receives in addition to the standard types. */
  extraEvents: ExtraEventType[];
  createdAt: Date;
  /**
   * Requests are also signed with the previous secret until this time; null when the previous
   * secret is no longer used.
   */
  previousSecretExpiresAt: Date | null;
  /**
   * From this time on, no event is queued for the endpoint and no request is sent; null while the
   * endpoint is enabled.
   */
  disabledAt: Date | null;
  disabledReason: DisabledReason | null;
  /** Names of the merchant's own headers. Their values are encrypted and not listed. */
  headerNames: string[];
  /** Maximum number of requests per second of all dispatchers together; null means no limit. */
  maxPerSecond: number | null;
  /**
   * Time of the first failed request after the last successful request; null unless the last
   * request failed.
   */
  failingSince: Date | null;
  lastSuccessAt: Date | null;
  lastErrorAt: Date | null;
  /** HTTP status or error code of the last failed request. */
  lastError: string | null;
  /** Share of successful requests within the last 24 hours; null if no request was sent. */
  successRate: number | null;
}

/**
 * An endpoint's current signing secrets, encrypted by domain/accounts/secrets.ts. The endpoint's id
 * is needed to decrypt them.
 */
interface SealedSecrets {
  id: string;
  secret: Buffer;
  /** The secret before the last rotation; null when it is no longer used for signing. */
  previousSecret: Buffer | null;
  /** The merchant's own headers, a sealed JSON object; null if the merchant set no headers. */
  headers: Buffer | null;
}

/** Settings of an endpoint that can be changed. */
export interface EndpointSettings {
  /** The merchant's own headers. `sealed` is null when `names` is empty. */
  headers?: { sealed: Buffer | null; names: readonly string[] } | undefined;
  maxPerSecond?: number | null | undefined;
}

const health = (sql: Queryable, column: string) => sql`
  (select ${sql(column)} from endpoint_health where endpoint_id = webhook_endpoints.id)`;
const fields = (sql: Queryable) => sql`
  id, app_id, url, extra_events, created_at, case when previous_until > now() then previous_until
    end as previous_secret_expires_at, disabled_at, disabled_reason,
  header_names, max_per_second,
  ${health(sql, 'failing_since')} as failing_since,
  ${health(sql, 'last_success_at')} as last_success_at,
  ${health(sql, 'last_failure_at')} as last_error_at, ${health(sql, 'last_error')} as last_error,
  (select sum(succeeded)::float8 / nullif(sum(succeeded + failed), 0) from endpoint_hours
    where endpoint_id = webhook_endpoints.id and hour > now() - interval '24 hours')
    as success_rate`;
const secrets = (sql: Queryable) => sql`
  id, secret, case when previous_until > now() then previous_secret end as previous_secret,
    headers`;

/**
 * Inserts an endpoint. If the app already has a live endpoint, the insert violates the unique
 * constraint one_endpoint_per_app and the error is thrown.
 */
export async function insertEndpoint(
  sql: Queryable,
  {
    id,
    appId,
    url,
    extraEvents,
    secret,
    headers = { sealed: null, names: [] },
    maxPerSecond = null,
  }: EndpointSettings & {
    id: string;
    appId: string;
    url: string;
    extraEvents: readonly ExtraEventType[];
    secret: Buffer;
  },
): Promise<EndpointRow> {
  const [row] = await sql<EndpointRow[]>`
    insert into webhook_endpoints (id, app_id, url, extra_events, secret, headers, header_names,
      max_per_second)
    values (${id}, ${appId}, ${url}, ${[...extraEvents]}::text[], ${secret}, ${headers.sealed},
      ${[...headers.names]}::text[], ${maxPerSecond})
    returning ${fields(sql)}`;
  if (row === undefined) throw new Error('a webhook endpoint was not stored');
  return row;
}

/** Lists the live endpoints of an app. An app has at most one live endpoint. */
export function listEndpoints(sql: Queryable, appId: string): Promise<EndpointRow[]> {
  return sql<EndpointRow[]>`
    select ${fields(sql)} from webhook_endpoints where app_id = ${appId} and deleted_at is null`;
}

export async function findEndpoint(sql: Queryable, id: string): Promise<EndpointRow | undefined> {
  const [row] = await sql<EndpointRow[]>`
    select ${fields(sql)} from webhook_endpoints where id = ${id} and deleted_at is null`;
  return row;
}

/**
 * Finds the app's previous endpoint: the most recently created of the deleted endpoints that were
 * created before the endpoint `id`. Returns undefined if the previous endpoint was deleted more
 * than seven days ago. `endedAt` is the time at which the previous endpoint was disabled or
 * deleted, whichever came first.
 */
export async function findReplaced(
  sql: Queryable,
  { id, appId }: { id: string; appId: string },
): Promise<{ id: string; endedAt: Date } | undefined> {
  const [row] = await sql<{ id: string; endedAt: Date; isRecent: boolean }[]>`
    select id, deleted_at > now() - interval '7 days' as is_recent,
      least(disabled_at, deleted_at) as ended_at
    from webhook_endpoints
    where app_id = ${appId} and deleted_at is not null and id < ${id} order by id desc limit 1`;
  return row?.isRecent === true ? row : undefined;
}

/** Updates the given settings of a live endpoint. Dispatchers detect the change by settings_at. */
export async function updateEndpoint(
  sql: Queryable,
  id: string,
  { headers, maxPerSecond }: EndpointSettings,
): Promise<void> {
  await sql`
    update webhook_endpoints set settings_at = clock_timestamp(),
      headers = case when ${headers !== undefined} then ${headers?.sealed ?? null} else headers end,
      header_names = case when ${headers !== undefined} then ${[...(headers?.names ?? [])]}::text[]
        else header_names end,
      max_per_second = case when ${maxPerSecond !== undefined} then ${maxPerSecond ?? null}::int
        else max_per_second end
    where id = ${id} and deleted_at is null`;
}

/**
 * Disables a live endpoint, stores the event `endpoint_disabled` and cancels the endpoint's
 * unclaimed deliveries. FOR UPDATE waits for transactions that insert deliveries for the endpoint
 * (see deleteEndpoint). Returns false when the endpoint is already disabled or deleted.
 */
export async function disableEndpoint(
  sql: Queryable,
  id: string,
  reason: DisabledReason,
): Promise<boolean> {
  const { count } = await sql`
    with disabled as (
      update webhook_endpoints set disabled_at = clock_timestamp(), disabled_reason = ${reason}
      where id = (select id from webhook_endpoints where id = ${id} and deleted_at is null
        and disabled_at is null for update)
      returning id, app_id, url, disabled_at
    )
    insert into events (id, app_id, type, body, created_at)
    select event_id, app_id, 'endpoint_disabled', json_build_object('id', event_id,
        'type', 'endpoint_disabled', 'createdAt', ${isoTime(sql, sql`made_at(event_id)`)},
        'data', json_build_object('appId', app_id, 'webhookId', disabled.id, 'url', url,
          'disabledReason', ${reason}::text, 'failingSince', ${isoTime(sql, sql`h.failing_since`)},
          'lastError', h.last_error))::text,
      date_trunc('milliseconds', made_at(event_id))
    from uuid_v7() as event_id, disabled
      left join endpoint_health h on h.endpoint_id = disabled.id`;
  if (count === 0) return false;
  await cancelUnclaimed(sql, id);
  return true;
}

/** SQL for a time in the format of JavaScript's JSON (ISO 8601 with milliseconds and Z). */
const isoTime = (sql: Queryable, time: Fragment) => sql`
  to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/**
 * Enables an endpoint. Returns the time at which the endpoint was disabled; undefined when the
 * endpoint was not disabled.
 */
export async function enableEndpoint(sql: Queryable, id: string): Promise<Date | undefined> {
  const [row] = await sql<{ disabledAt: Date }[]>`
    with old as (
      select id, disabled_at from webhook_endpoints
      where id = ${id} and deleted_at is null and disabled_at is not null for update
    )
    update webhook_endpoints e
      set disabled_at = null, disabled_reason = null, enabled_at = clock_timestamp()
    from old where e.id = old.id returning old.disabled_at`;
  return row?.disabledAt;
}

/**
 * Lists up to 1,000 enabled endpoints whose requests have all failed for at least `days` days. The
 * time is measured from the first failure (or the last enabling, if later) to the last failure, so
 * it does not grow while an endpoint gets no requests.
 */
export async function listFailing(sql: Queryable, days: number): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select e.id from endpoint_health h join webhook_endpoints e on e.id = h.endpoint_id
    where h.failing_since is not null and e.deleted_at is null and e.disabled_at is null
      and h.last_failure_at >= greatest(h.failing_since, e.enabled_at) + ${days} * interval '1 day'
    limit 1000`;
  return rows.map(({ id }) => id);
}

/**
 * Replaces the secret of a live endpoint. Requests are also signed with the previous secret for
 * `overlapHours`. Dispatchers detect a rotation by rotated_at. Returns undefined when the endpoint
 * is deleted.
 */
export async function rotateSecret(
  sql: Queryable,
  { id, secret, overlapHours }: { id: string; secret: Buffer; overlapHours: number },
): Promise<EndpointRow | undefined> {
  const [row] = await sql<EndpointRow[]>`
    update webhook_endpoints set secret = ${secret}, previous_secret = secret,
      previous_since = rotated_at, rotated_at = now(),
      previous_until = now() + ${overlapHours} * interval '1 hour'
    where id = ${id} and deleted_at is null
    returning ${fields(sql)}`;
  return row;
}

/**
 * Deletes an endpoint and cancels its unclaimed deliveries. FOR UPDATE waits for transactions that
 * insert deliveries for the endpoint, because each of them holds a KEY SHARE lock on the endpoint.
 * A delivery that is claimed now is cancelled by its dispatcher after the current attempt. If this
 * process crashes midway, dispatchers claim and cancel the remaining deliveries.
 */
export async function deleteEndpoint(sql: Queryable, id: string): Promise<void> {
  await sql`
    update webhook_endpoints set deleted_at = clock_timestamp()
    where id = (select id from webhook_endpoints where id = ${id} and deleted_at is null
      for update)`;
  await cancelUnclaimed(sql, id);
}

/** Finds the sealed signing secrets of a live endpoint. */
export async function findEndpointSecrets(
  sql: Queryable,
  id: string,
): Promise<SealedSecrets | undefined> {
  const [row] = await sql<SealedSecrets[]>`
    select ${secrets(sql)} from webhook_endpoints where id = ${id} and deleted_at is null`;
  return row;
}

/**
 * The endpoint data that a dispatcher caches. `url` never changes. rotateSecret() changes the
 * secrets and updateEndpoint() changes the settings. Each of these changes also updates
 * `changedAt`.
 */
export interface SealedEndpoint extends SealedSecrets {
  url: string;
  maxPerSecond: number | null;
  /**
   * Time of the last change of the secret or the settings, in Unix ms of the database's clock; null
   * when nothing was changed.
   */
  changedAt: number | null;
  previousUntil: number | null;
}

/** Reads the endpoints with these ids, including deleted endpoints. */
export function readEndpoints(sql: Queryable, ids: readonly string[]): Promise<SealedEndpoint[]> {
  return sql<SealedEndpoint[]>`
    select ${secrets(sql)}, url, max_per_second,
      (extract(epoch from greatest(rotated_at, settings_at)) * 1000)::float8 as changed_at,
      (extract(epoch from previous_until) * 1000)::float8 as previous_until
    from webhook_endpoints
    where id in (select jsonb_array_elements_text(${JSON.stringify(ids)}::text::jsonb)::uuid)`;
}

/**
 * Counts the live endpoints (up to 10,000) with a secret or headers that were encrypted under an
 * unknown key. `fingerprints` identify the known encryption keys.
 */
export async function countForeignSecrets(
  sql: Queryable,
  fingerprints: readonly Buffer[],
): Promise<number> {
  const hexFingerprints = fingerprints.map((fingerprint) => fingerprint.toString('hex'));
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from (
      select 1 from webhook_endpoints
      where deleted_at is null and (encode(substring(secret from 2 for 4), 'hex') <> all
        (${hexFingerprints}::text[])
        or encode(substring(headers from 2 for 4), 'hex') <> all (${hexFingerprints}::text[])
        or previous_until > now() and encode(substring(previous_secret from 2 for 4), 'hex') <> all
          (${hexFingerprints}::text[])) limit 10000
    ) as foreign_secrets`;
  return row?.count ?? 0;
}

/** Lists the sealed secrets of live endpoints in id order, starting after the id `after`. */
export function listSealedSecrets(
  sql: Queryable,
  { after, limit }: { after: string; limit: number },
): Promise<SealedSecrets[]> {
  return sql<SealedSecrets[]>`
    select ${secrets(sql)} from webhook_endpoints where id > ${after}::uuid and deleted_at is null
      order by id limit ${limit}`;
}

/**
 * Replaces a sealed value of an endpoint by another sealed value: the secret, the previous secret
 * or the headers. `before` is the old value, `secret` the new one. Returns false when the endpoint
 * no longer has the value `before`.
 */
export async function replaceSealedSecret(
  sql: Queryable,
  { id, before, secret }: { id: string; before: Buffer; secret: Buffer },
): Promise<boolean> {
  const { count } = await sql`
      update webhook_endpoints set secret = case secret when ${before} then ${secret} else secret
        end,
        previous_secret = case previous_secret when ${before} then ${secret} else previous_secret
          end,
        headers = case headers when ${before} then ${secret} else headers end
      where id = ${id}::uuid and ${before} in (secret, previous_secret, headers)`;
  return count === 1;
}
