import type { Queryable } from '../postgres/connect.ts';
import { LAST_ID } from '../postgres/ids.ts';
import { type Page, pageOf } from '../postgres/lists.ts';
import { merchantColumns, type MerchantRow } from './merchants.ts';

export interface ApiKeyRow {
  id: string;
  prefix: string;
  createdAt: Date;
  lastUsedAt: Date | null;
  revokedAt: Date | null;
}

/**
 * The merchant of a live key. `unmarked` is true when last_used_at is null or older than a minute.
 */
export interface KeyHolder extends MerchantRow {
  /** SHA-256 of the key, in hex. */
  hash: string;
  keyId: string;
  prefix: string;
  unmarked: boolean;
}

export async function insertApiKey(
  sql: Queryable,
  merchantId: string,
  { prefix, hash }: { prefix: string; hash: Buffer },
): Promise<string> {
  const [row] = await sql<
    { id: string }[]
  >`insert into api_keys (merchant_id, prefix, hash) values (${merchantId}, ${prefix}, ${hash})
    returning id`;
  if (row === undefined) throw new Error('an API key was not stored');
  return row.id;
}

/** Lists a merchant's keys, including revoked keys, newest first. */
export function listApiKeys(sql: Queryable, merchantId: string, page: Page): Promise<ApiKeyRow[]> {
  const key = { column: 'merchant_id', value: sql`${merchantId}::uuid` };
  return sql<ApiKeyRow[]>`select id, prefix, created_at, last_used_at, revoked_at from api_keys
    where ${pageOf(sql, key, page)}`;
}

/**
 * Finds the merchants of the live keys with these hashes (SHA-256 in hex). The result has no order.
 */
export function findKeyHolders(sql: Queryable, hashes: readonly string[]): Promise<KeyHolder[]> {
  // With the LIMIT, Postgres uses one index look-up per key, even if the planner misjudges the
  // length of the array.
  return sql<KeyHolder[]>`
    select wanted.hash, m.*, k.id as key_id, k.prefix,
      k.last_used_at is null or k.last_used_at < now() - interval '1 minute' as unmarked
    from unnest(${hashes}::text[]) as wanted (hash),
      lateral (select id, merchant_id, prefix, last_used_at from api_keys
        where hash = decode(wanted.hash, 'hex') and revoked_at is null limit 1) as k,
      lateral (select ${merchantColumns(sql)} from merchants m where m.id = k.merchant_id
        limit 1) as m`;
}

/** Sets a key's last_used_at, at most once a minute. */
export async function markKeyUsed(sql: Queryable, id: string): Promise<void> {
  await sql`update api_keys set last_used_at = now() where id = ${id}
    and (last_used_at is null or last_used_at < now() - interval '1 minute')`;
}

export async function findKeyOwner(sql: Queryable, id: string): Promise<string | undefined> {
  const [row] = await sql<
    { merchantId: string }[]
  >`select merchant_id from api_keys where id = ${id}`;
  return row?.merchantId;
}

/** Revokes a key permanently; a key that is already revoked keeps its revoked_at. */
export async function revokeApiKey(sql: Queryable, id: string): Promise<ApiKeyRow | undefined> {
  const [row] = await sql<ApiKeyRow[]>`
    update api_keys set revoked_at = coalesce(revoked_at, now()) where id = ${id}
    returning id, prefix, created_at, last_used_at, revoked_at`;
  return row;
}

export interface ApiKeyAdminRow extends ApiKeyRow {
  merchantId: string;
  wallet: string;
}

/** Lists keys of one merchant, or of all merchants when merchantId is null, newest first. */
export function listKeysAdmin(
  sql: Queryable,
  { merchantId, after, limit }: Page & { merchantId: string | null },
): Promise<ApiKeyAdminRow[]> {
  return sql<ApiKeyAdminRow[]>`
    select k.id, k.prefix, k.created_at, k.last_used_at, k.revoked_at, k.merchant_id, m.wallet
    from api_keys k join merchants m on m.id = k.merchant_id
    where k.id < ${after ?? LAST_ID} ${
      merchantId === null
        ? sql``
        : sql`and k.merchant_id =
      ${merchantId}`
    }
    order by k.id desc limit ${limit}`;
}

/**
 * Revokes a key. If the key was revoked before, `already` is true and the key keeps its old
 * revoked_at. Returns undefined when the key does not exist.
 */
export async function revokeLiveKey(
  sql: Queryable,
  id: string,
): Promise<{ key: ApiKeyAdminRow; already: boolean } | undefined> {
  const [row] = await sql<(ApiKeyAdminRow & { already: boolean })[]>`
    with old as (select id, revoked_at from api_keys where id = ${id} for update)
    update api_keys k set revoked_at = coalesce(old.revoked_at, now()) from old, merchants m
    where k.id = old.id and m.id = k.merchant_id
    returning k.id, k.prefix, k.created_at, k.last_used_at, k.revoked_at, k.merchant_id, m.wallet,
      old.revoked_at is not null as already`;
  if (row === undefined) return undefined;
  const { already, ...key } = row;
  return { key, already };
}
