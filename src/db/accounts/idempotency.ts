import type { Queryable } from '../postgres/connect.ts';

export interface StoredResponse {
  fingerprint: Buffer;
  status: number;
  /** The response body, encrypted by domain/accounts/secrets.ts. */
  body: Buffer;
}

/** Finds the response stored under a key within the last 24 hours. */
export async function findResponse(
  sql: Queryable,
  scope: string,
  key: string,
): Promise<StoredResponse | undefined> {
  const [row] = await sql<StoredResponse[]>`
    select fingerprint, status, body from idempotency_keys
    where scope = ${scope} and key = ${key} and created_at > now() - interval '24 hours'`;
  return row;
}

/**
 * Inserts a key in the caller's transaction. Returns false when the key exists. Blocks while
 * another transaction holds the key, so two concurrent requests have one effect. Replaces a key
 * older than 24 hours.
 */
export async function takeKey(
  sql: Queryable,
  { scope, key, fingerprint }: { scope: string; key: string; fingerprint: Buffer },
): Promise<boolean> {
  const rows = await sql`
    insert into idempotency_keys as k (scope, key, fingerprint, status, body)
      values (${scope}, ${key}, ${fingerprint}, 0, '\\x')
    on conflict (scope, key) do update set fingerprint = excluded.fingerprint, status = 0,
      body = '\\x', created_at = now()
      where k.created_at <= now() - interval '24 hours'
    returning 1`;
  return rows.length === 1;
}

/** Stores the response for a key that the caller's transaction has inserted. */
export async function storeResponse(
  sql: Queryable,
  { scope, key, status, body }: { scope: string; key: string; status: number; body: Buffer },
): Promise<void> {
  await sql`update idempotency_keys set status = ${status}, body = ${body} where scope = ${scope}
    and key = ${key}`;
}

/**
 * Deletes up to 1,000 keys older than 24 hours and returns the number deleted. The age condition is
 * repeated outside the subquery. If the statement waits for a transaction that replaces a key,
 * Postgres re-checks only this outer condition on the new row.
 */
export async function deleteOldKeys(sql: Queryable): Promise<number> {
  const { count } = await sql`
    delete from idempotency_keys where (scope, key) in (
      select scope, key from idempotency_keys where created_at <= now() - interval '24 hours'
        order by created_at limit 1000
    ) and created_at <= now() - interval '24 hours'`;
  return count;
}
