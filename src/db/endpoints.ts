import { cancelUnclaimed } from './delivery-queue.ts';
import type { ExtraEventType } from './events.ts';
import type { Queryable } from './postgres/connect.ts';

export interface EndpointRow {
  id: string;
  appId: string;
  url: string;
  /** Event types that the endpoint receives in addition to the standard types. */
  extraEvents: ExtraEventType[];
  createdAt: Date;
  /** The previous secret signs until this time; null when the previous secret no longer signs. */
  previousSecretExpiresAt: Date | null;
  /** The first failed request after the last successful one; null unless the last one failed. */
  failingSince: Date | null;
  lastSuccessAt: Date | null;
  lastErrorAt: Date | null;
  /** HTTP status or error code of the last failed request. */
  lastError: string | null;
  /** Share of successful requests within the last 24 hours; null without a request. */
  successRate: number | null;
}

/** An endpoint's current signing secrets, sealed by domain/secrets.ts under the endpoint's id. */
interface SealedSecrets {
  id: string;
  secret: Buffer;
  /** The secret before the last rotation; null when it no longer signs. */
  previousSecret: Buffer | null;
}

const health = (sql: Queryable, column: string) => sql`
  (select ${sql(column)} from endpoint_health where endpoint_id = webhook_endpoints.id)`;
const fields = (sql: Queryable) => sql`
  id, app_id, url, extra_events, created_at, case when previous_until > now() then previous_until
    end as previous_secret_expires_at,
  ${health(sql, 'failing_since')} as failing_since,
  ${health(sql, 'last_success_at')} as last_success_at,
  ${health(sql, 'last_failure_at')} as last_error_at, ${health(sql, 'last_error')} as last_error,
  (select sum(succeeded)::float8 / nullif(sum(succeeded + failed), 0) from endpoint_hours
    where endpoint_id = webhook_endpoints.id and hour > now() - interval '24 hours')
    as success_rate`;
const secrets = (sql: Queryable) => sql`
  id, secret, case when previous_until > now() then previous_secret end as previous_secret`;

/**
 * Generates an endpoint's id before its row is inserted, because the secret is sealed under the id.
 */
export async function newEndpointId(sql: Queryable): Promise<string> {
  const [row] = await sql<{ id: string }[]>`select uuid_v7() as id`;
  if (row === undefined) throw new Error('no id');
  return row.id;
}

/**
 * Throws a violation of the constraint one_endpoint_per_app when the app already has a live
 * endpoint.
 */
export async function insertEndpoint(
  sql: Queryable,
  {
    id,
    appId,
    url,
    extraEvents,
    secret,
  }: {
    id: string;
    appId: string;
    url: string;
    extraEvents: readonly ExtraEventType[];
    secret: Buffer;
  },
): Promise<EndpointRow> {
  const [row] = await sql<EndpointRow[]>`
    insert into webhook_endpoints (id, app_id, url, extra_events, secret)
    values (${id}, ${appId}, ${url}, ${[...extraEvents]}::text[], ${secret})
    returning ${fields(sql)}`;
  if (row === undefined) throw new Error('a webhook endpoint was not stored');
  return row;
}

/** Lists the live endpoints of an app: one or none. */
export function listEndpoints(sql: Queryable, appId: string): Promise<EndpointRow[]> {
  return sql<EndpointRow[]>`
    select ${fields(sql)} from webhook_endpoints where app_id = ${appId} and deleted_at is null`;
}

export async function findEndpoint(sql: Queryable, id: string): Promise<EndpointRow | undefined> {
  const [row] = await sql<EndpointRow[]>`
    select ${fields(sql)} from webhook_endpoints where id = ${id} and deleted_at is null`;
  return row;
}

/** Finds the app's previous endpoint if it was deleted within the last seven days. */
export async function findReplaced(
  sql: Queryable,
  { id, appId }: { id: string; appId: string },
): Promise<string | undefined> {
  const [row] = await sql<{ id: string; isRecent: boolean }[]>`
    select id, deleted_at > now() - interval '7 days' as is_recent from webhook_endpoints
    where app_id = ${appId} and deleted_at is not null and id < ${id} order by id desc limit 1`;
  return row?.isRecent === true ? row.id : undefined;
}

/**
 * Replaces the secret of a live endpoint. The previous secret also signs for `overlapHours`.
 * Dispatchers detect a rotation by rotated_at. Returns undefined when the endpoint is deleted.
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
 * Deletes an endpoint and cancels its unclaimed deliveries. FOR UPDATE waits for uncommitted
 * inserts into the queue, whose foreign key check holds KEY SHARE. Dispatchers cancel claimed
 * deliveries unless their request succeeds. If a crash leaves deliveries queued, dispatchers cancel
 * them when they are due.
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
 * The endpoint data that a dispatcher caches. The URL never changes; a secret changes only by
 * rotation.
 */
export interface SealedEndpoint extends SealedSecrets {
  url: string;
  /** Times in Unix ms of the database's clock; null before the first rotation. */
  rotatedAt: number | null;
  previousUntil: number | null;
}

/** Reads the endpoints with these ids, including deleted endpoints. */
export function readEndpoints(sql: Queryable, ids: readonly string[]): Promise<SealedEndpoint[]> {
  return sql<SealedEndpoint[]>`
    select ${secrets(sql)}, url, (extract(epoch from rotated_at) * 1000)::float8 as rotated_at,
      (extract(epoch from previous_until) * 1000)::float8 as previous_until
    from webhook_endpoints
    where id in (select jsonb_array_elements_text(${JSON.stringify(ids)}::text::jsonb)::uuid)`;
}

/**
 * Counts the live endpoints (up to 10,000) with a secret that was sealed under an unknown key.
 * `fingerprints` identify the known encryption keys.
 */
export async function countForeignSecrets(
  sql: Queryable,
  fingerprints: readonly Buffer[],
): Promise<number> {
  const known = fingerprints.map((fingerprint) => fingerprint.toString('hex'));
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from (
      select 1 from webhook_endpoints
      where deleted_at is null and (encode(substring(secret from 2 for 4), 'hex') <> all
        (${known}::text[])
        or previous_until > now() and encode(substring(previous_secret from 2 for 4), 'hex') <> all
          (${known}::text[])) limit 10000
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
 * Replaces the sealed secret `before` with `secret`. Returns false when the endpoint no longer has
 * the secret `before`.
 */
export async function replaceSealedSecret(
  sql: Queryable,
  { id, before, secret }: { id: string; before: Buffer; secret: Buffer },
): Promise<boolean> {
  const { count } = await sql`
      update webhook_endpoints set secret = case secret when ${before} then ${secret} else secret
        end,
        previous_secret = case previous_secret when ${before} then ${secret} else previous_secret
          end
      where id = ${id}::uuid and ${before} in (secret, previous_secret)`;
  return count === 1;
}
