// API keys as operators see them: of every merchant.
import type { ApiKeyRow } from './api-keys.ts';
import type { Queryable } from './connect.ts';

export interface ApiKeyAdminRow extends ApiKeyRow {
  merchantId: string;
  wallet: string;
}

/** Keys of one merchant, or of all, newest first, in pages by id. */
export function listKeysAdmin(
  sql: Queryable,
  { merchantId, after, limit }: { merchantId: string | null; after: string | null; limit: number },
): Promise<ApiKeyAdminRow[]> {
  return sql<ApiKeyAdminRow[]>`
    select k.id, k.prefix, k.created_at, k.last_used_at, k.revoked_at, k.merchant_id, m.wallet
    from api_keys k join merchants m on m.id = k.merchant_id
    where k.id < coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') and (${merchantId}::uuid is null or k.merchant_id = ${merchantId})
    order by k.id desc limit ${limit}`;
}

/** Revokes a key that is live. `already`: it was revoked before, at the time that it has. undefined: there is no such key. */
export async function revokeLiveKey(sql: Queryable, id: string): Promise<{ key: ApiKeyAdminRow; already: boolean } | undefined> {
  const [row] = await sql<(ApiKeyAdminRow & { already: boolean })[]>`
    with old as (select id, revoked_at from api_keys where id = ${id} for update)
    update api_keys k set revoked_at = coalesce(old.revoked_at, now()) from old, merchants m
    where k.id = old.id and m.id = k.merchant_id
    returning k.id, k.prefix, k.created_at, k.last_used_at, k.revoked_at, k.merchant_id, m.wallet, old.revoked_at is not null as already`;
  if (row === undefined) return undefined;
  const { already, ...key } = row;
  return { key, already };
}
