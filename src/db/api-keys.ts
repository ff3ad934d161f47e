import type { Queryable } from './connect.ts';
import type { MerchantRow } from './merchants.ts';

export interface ApiKeyRow {
  id: string;
  prefix: string;
  createdAt: Date;
  lastUsedAt: Date | null;
  revokedAt: Date | null;
}

/** The merchant of a live key. `unmarked`: the use of the key was last written more than a minute ago, or never. */
export interface KeyHolder extends MerchantRow {
  keyId: string;
  unmarked: boolean;
}

export async function insertApiKey(
  sql: Queryable,
  merchantId: string,
  { prefix, hash }: { prefix: string; hash: Buffer },
): Promise<string> {
  const [row] = await sql<
    { id: string }[]
  >`insert into api_keys (merchant_id, prefix, hash) values (${merchantId}, ${prefix}, ${hash}) returning id`;
  if (row === undefined) throw new Error('an API key was not stored');
  return row.id;
}

/** A merchant's keys, revoked ones too, newest first. */
export function listApiKeys(
  sql: Queryable,
  merchantId: string,
  { after, limit }: { after: string | null; limit: number },
): Promise<ApiKeyRow[]> {
  return sql<ApiKeyRow[]>`
    select id, prefix, created_at, last_used_at, revoked_at from api_keys
    where merchant_id = ${merchantId} and id < coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by id desc limit ${limit}`;
}

/** The holder of a key that is not revoked, by the key's SHA-256. */
export async function findKeyHolder(sql: Queryable, hash: Buffer): Promise<KeyHolder | undefined> {
  const [row] = await sql<KeyHolder[]>`
    select m.id, m.wallet, m.name, m.email, m.tier, m.created_at, k.id as key_id,
      k.last_used_at is null or k.last_used_at < now() - interval '1 minute' as unmarked
    from api_keys k join merchants m on m.id = k.merchant_id
    where k.hash = ${hash} and k.revoked_at is null`;
  return row;
}

/** Writes down that a key is in use, at most once a minute. */
export async function markKeyUsed(sql: Queryable, id: string): Promise<void> {
  await sql`update api_keys set last_used_at = now() where id = ${id} and (last_used_at is null or last_used_at < now() - interval '1 minute')`;
}

export async function findKeyOwner(sql: Queryable, id: string): Promise<string | undefined> {
  const [row] = await sql<{ merchantId: string }[]>`select merchant_id from api_keys where id = ${id}`;
  return row?.merchantId;
}

/** Revokes for good; a key that is revoked already keeps its time. */
export async function revokeApiKey(sql: Queryable, id: string): Promise<ApiKeyRow | undefined> {
  const [row] = await sql<ApiKeyRow[]>`
    update api_keys set revoked_at = coalesce(revoked_at, now()) where id = ${id}
    returning id, prefix, created_at, last_used_at, revoked_at`;
  return row;
}
