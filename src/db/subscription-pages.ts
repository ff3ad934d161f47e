// The list that back ends poll most, in one statement that checks the key, whose app it is, and reads the rows (measured.md: nearly twice as fast
// as a statement for each, and a revoked key gets nothing out of it). The rows come as one text, tab-separated: measured, that takes Postgres
// and postgres.js together 136 us for 20 rows, as JSON 200 us, as rows 150 us before anybody has made JSON of them.
import type { Queryable } from './connect.ts';
import type { Tier } from './merchants.ts';

export interface SubscriptionPage {
  /** The caller's merchant. */
  id: string;
  wallet: string;
  tier: Tier;
  /** null for a JWT. */
  keyId: string | null;
  unmarked: boolean;
  /** Whose app it is; null when there is none. */
  appOwner: string | null;
  /** One line per subscription, its fields in the order of `subscriptionFields`; null when there are none, or the app is another merchant's. */
  lines: string | null;
}

/** Times are as Postgres writes them; what is absent is empty. `endReason` is a JSON string: no field holds a tab or a line break. */
export const subscriptionFields = [
  'id',
  'planId',
  'subscriptionPda',
  'subscriberWallet',
  'status',
  'amount',
  'periodHours',
  'paidThrough',
  'nextPaymentDue',
  'cancelRequestedAt',
  'cancelRequestedBy',
  'cancelledAt',
  'delegationRevokedAt',
  'endReason',
  'createdAt',
  'updatedAt',
] as const;

/** An app's first `limit` subscriptions, newest first. Undefined when nobody has this key hash (or, when that is null, this wallet). */
export async function subscriptionPage(
  sql: Queryable,
  { hash, wallet }: { hash: Buffer | null; wallet: string | null },
  appId: string,
  limit: number,
): Promise<SubscriptionPage | undefined> {
  const [page] = await sql<SubscriptionPage[]>`
    with caller as (
      select m.id, m.wallet, m.tier, k.id as key_id, k.last_used_at is null or k.last_used_at < now() - interval '1 minute' as unmarked
      from api_keys k join merchants m on m.id = k.merchant_id
      where k.hash = ${hash} and k.revoked_at is null
      union all
      select m.id, m.wallet, m.tier, null, false from merchants m where m.wallet = ${wallet}
    )
    select caller.*, a.merchant_id as app_owner, case when a.merchant_id = caller.id then (
      select string_agg(line, e'\n') from (
        select concat_ws(e'\t', s.id, s.plan_id, s.subscription_pda, s.subscriber_wallet, s.status, s.amount, s.period_hours,
          coalesce(s.paid_through::text, ''), coalesce(s.next_payment_due::text, ''), coalesce(s.cancel_requested_at::text, ''),
          coalesce(s.cancel_requested_by, ''), coalesce(s.cancelled_at::text, ''), coalesce(s.delegation_revoked_at::text, ''),
          coalesce(to_json(s.end_reason)::text, ''), s.created_at, s.updated_at) as line
        from subscriptions s
        where s.app_id = ${appId}
        order by s.created_at desc, s.id desc
        limit ${limit}
      ) as shown
    ) end as lines
    from caller left join apps a on a.id = ${appId}`;
  return page;
}
