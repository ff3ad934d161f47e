import type { Queryable } from './connect.ts';

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

/** Deletes an endpoint and cancels what was still to be sent to it. What a request under way comes to is still written (recordOutcomes). */
export async function deleteEndpoint(sql: Queryable, id: string): Promise<void> {
  await sql`
    with gone as (
      update webhook_endpoints set deleted_at = now() where id = ${id} and deleted_at is null returning id
    )
    update deliveries set status = 'cancelled', finished_at = now()
    from gone where deliveries.endpoint_id = gone.id and deliveries.finished_at is null`;
}

/** The sealed signing secret of a live endpoint. */
export async function findEndpointSecret(sql: Queryable, id: string): Promise<Buffer | undefined> {
  const [row] = await sql<{ secret: Buffer }[]>`select secret from webhook_endpoints where id = ${id} and deleted_at is null`;
  return row?.secret;
}
