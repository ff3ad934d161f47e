import type { Queryable } from './connect.ts';
import { firstId } from './ids.ts';

const batchRows = 1000;

export interface EndpointRow {
  id: string;
  appId: string;
  url: string;
  createdAt: Date;
}

/** The secret is sealed under the endpoint's id, so the id is made first. */
export async function newEndpointId(sql: Queryable): Promise<string> {
  const [row] = await sql<{ id: string }[]>`select uuid_v7() as id`;
  if (row === undefined) throw new Error('no id');
  return row.id;
}

/** Throws a unique violation of one_endpoint_per_app while the app has a live endpoint. */
export async function insertEndpoint(
  sql: Queryable,
  { id, appId, url, secret }: { id: string; appId: string; url: string; secret: Buffer },
): Promise<EndpointRow> {
  const [row] = await sql<EndpointRow[]>`
    insert into webhook_endpoints (id, app_id, url, secret) values (${id}, ${appId}, ${url}, ${secret})
    returning id, app_id, url, created_at`;
  if (row === undefined) throw new Error('a webhook endpoint was not stored');
  return row;
}

/** The live endpoint of an app: a list of one or none. */
export function listEndpoints(sql: Queryable, appId: string): Promise<EndpointRow[]> {
  return sql<EndpointRow[]>`select id, app_id, url, created_at from webhook_endpoints where app_id = ${appId} and deleted_at is null`;
}

export async function findEndpoint(sql: Queryable, id: string): Promise<EndpointRow | undefined> {
  const [row] = await sql<EndpointRow[]>`select id, app_id, url, created_at from webhook_endpoints where id = ${id} and deleted_at is null`;
  return row;
}

/**
 * Deletes an endpoint and cancels what was still to be sent to it, in batches: dispatchers wait for each. What is left after a crash in between they
 * cancel when it is due. What a request under way comes to is still written (recordOutcomes).
 */
export async function deleteEndpoint(sql: Queryable, id: string): Promise<void> {
  await sql`update webhook_endpoints set deleted_at = now() where id = ${id} and deleted_at is null`;
  let last: string | undefined = firstId;
  while (last !== undefined) last = await cancelPending(sql, id, last);
}

/**
 * Cancels the next pending deliveries of an endpoint and returns the last one's id; undefined when there were none. The lease is locked first, as it is
 * for outcomes: both write many rows, each in an order of its own, and would wait for each other.
 */
async function cancelPending(sql: Queryable, endpointId: string, after: string): Promise<string | undefined> {
  const [last] = await sql<{ id: string }[]>`
    with lease as (
      insert into delivery_leases as held (endpoint_id, claim_id, lease_until) values (${endpointId}, uuid_v7(), '-infinity')
      on conflict (endpoint_id) do update set lease_until = held.lease_until
      returning endpoint_id
    ), pending as (
      select id from deliveries
      where (endpoint_id, status, id) > (${endpointId}::uuid, 'pending', ${after}::uuid)
        and (endpoint_id, status) <= (${endpointId}::uuid, 'pending')
      order by endpoint_id, status, id limit ${batchRows}
    ), cancelled as (
      update deliveries set status = 'cancelled', finished_at = now() from lease
      where id = any(array(select id from pending)) and status = 'pending'
    )
    select id from pending order by id desc limit 1`;
  return last?.id;
}

/** The sealed signing secret of a live endpoint. */
export async function findEndpointSecret(sql: Queryable, id: string): Promise<Buffer | undefined> {
  const [row] = await sql<{ secret: Buffer }[]>`select secret from webhook_endpoints where id = ${id} and deleted_at is null`;
  return row?.secret;
}
