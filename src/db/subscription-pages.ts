// The list that back ends poll most, in one statement: it checks the key, whose app it is, and builds the page's JSON (measured.md: nearly twice
// as fast as a statement for each, and a revoked key gets nothing out of it).
import type { Queryable } from './connect.ts';
import type { Tier } from './merchants.ts';

export interface SubscriptionPage {
  id: string;
  wallet: string;
  name: string | null;
  email: string | null;
  tier: Tier;
  createdAt: Date;
  /** null for a JWT. */
  keyId: string | null;
  unmarked: boolean;
  /** Whose app it is; null when there is none. */
  appOwner: string | null;
  /** The rows as a JSON array; null when there are none, or the app is another merchant's. */
  rows: string | null;
  /** Id of the last row, when there are more after it. */
  last: string | null;
}

/** The first `limit` - 1 of an app's subscriptions, newest first. Undefined when nobody has this key hash (or, when that is null, this wallet). */
export async function subscriptionPage(
  sql: Queryable,
  { hash, wallet }: { hash: Buffer | null; wallet: string | null },
  appId: string,
  limit: number,
): Promise<SubscriptionPage | undefined> {
  const [page] = await sql<SubscriptionPage[]>`
    with caller as (
      select m.id, m.wallet, m.name, m.email, m.tier, m.created_at, k.id as key_id,
        k.last_used_at is null or k.last_used_at < now() - interval '1 minute' as unmarked
      from api_keys k join merchants m on m.id = k.merchant_id
      where k.hash = ${hash} and k.revoked_at is null
      union all
      select m.id, m.wallet, m.name, m.email, m.tier, m.created_at, null, false from merchants m where m.wallet = ${wallet}
    )
    select caller.*, a.merchant_id as app_owner, page.rows, page.last
    from caller
      left join apps a on a.id = ${appId}
      left join lateral (
        select string_agg(row_to_json(shown)::text, ',' order by found.n) filter (where found.n < ${limit}) as rows,
          max(found.id::text) filter (where found.n = ${limit} - 1 and found.more) as last
        from (
          select s.*, row_number() over newest as n, lead(true, 1, false) over newest as more
          from subscriptions s
          where s.app_id = a.id
          window newest as (order by s.created_at desc, s.id desc)
          order by s.created_at desc, s.id desc
          limit ${limit}
        ) as found cross join lateral (
          select found.id, found.app_id as "appId", found.plan_id as "planId", found.subscription_pda as "subscriptionPda",
            found.subscriber_wallet as "subscriberWallet", caller.wallet as "merchantWallet", found.status, found.amount::text as amount,
            found.period_hours as "periodHours", iso(found.paid_through) as "paidThrough", iso(found.next_payment_due) as "nextPaymentDue",
            iso(found.cancel_requested_at) as "cancelRequestedAt", found.cancel_requested_by as "cancelRequestedBy",
            iso(found.cancelled_at) as "cancelledAt", iso(found.delegation_revoked_at) as "delegationRevokedAt",
            found.end_reason as "endReason", iso(found.created_at) as "createdAt", iso(found.updated_at) as "updatedAt"
        ) as shown
      ) as page on a.merchant_id = caller.id`;
  return page;
}
