// Counts a merchant's API keys and checkout sessions, for their quotas (domain/accounts/quotas.ts).
import type { Queryable, Transaction } from '../postgres/connect.ts';

/** Locks the merchant's row, so that a count stays valid until the transaction ends. */
export async function lockMerchant(tx: Transaction, merchantId: string): Promise<void> {
  await tx`select 1 from merchants where id = ${merchantId} for no key update`;
}

export async function countApps(sql: Queryable, merchantId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from apps where merchant_id = ${merchantId}`;
  return row?.count ?? 0;
}

/** Counts the keys that are not revoked. */
export async function countLiveKeys(sql: Queryable, merchantId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from api_keys
      where merchant_id = ${merchantId} and revoked_at is null`;
  return row?.count ?? 0;
}

/** Counts the open checkout sessions of all apps of a merchant, up to `limit`. */
export async function countOpenSessions(
  sql: Queryable,
  merchantId: string,
  limit: number,
): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from (
      select from apps a cross join lateral (
        select from checkout_sessions where app_id = a.id and subscription_id is null
          and expires_at > now() limit ${limit}
      ) as open
      where a.merchant_id = ${merchantId} limit ${limit}
    ) as counted`;
  return row?.count ?? 0;
}
