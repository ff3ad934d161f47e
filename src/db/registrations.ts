// Subscriptions as the API sees them; what the keeper does with them is in its own files.
import type { Queryable } from './connect.ts';

export type SubscriptionStatus = 'active' | 'past_due' | 'cancelled' | 'expired';

export interface SubscriptionRow {
  id: string;
  appId: string;
  planId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  merchantWallet: string;
  status: SubscriptionStatus;
  amount: bigint;
  periodHours: number;
  paidThrough: Date | null;
  nextPaymentDue: Date | null;
  cancelRequestedAt: Date | null;
  cancelRequestedBy: 'subscriber' | 'merchant' | null;
  cancelledAt: Date | null;
  delegationRevokedAt: Date | null;
  endReason: string | null;
  createdAt: Date;
  updatedAt: Date;
}

export interface NewRegistration {
  planId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  /** Chain time from which the first payment is due. */
  dueAt: Date;
}

/**
 * Stores a registration with the plan's terms and returns its id; undefined when the plan takes none any more.
 * Throws a unique violation of one_live_registration_per_pda while the address is registered.
 */
export async function insertRegistration(
  sql: Queryable,
  { planId, subscriptionPda, subscriberWallet, dueAt }: NewRegistration,
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due, due_at)
    select app_id, id, ${subscriptionPda}, ${subscriberWallet}, amount, period_hours, ${dueAt}, ${dueAt} from plans
    where id = ${planId} and status = 'active'
    returning id`;
  return row?.id;
}

export async function findSubscription(sql: Queryable, id: string): Promise<SubscriptionRow | undefined> {
  const [row] = await sql<SubscriptionRow[]>`
    select s.id, s.app_id, s.plan_id, s.subscription_pda, s.subscriber_wallet, m.wallet as merchant_wallet, s.status, s.amount, s.period_hours,
      s.paid_through, s.next_payment_due, s.cancel_requested_at, s.cancel_requested_by, s.cancelled_at, s.delegation_revoked_at, s.end_reason,
      s.created_at, s.updated_at
    from subscriptions s join apps a on a.id = s.app_id join merchants m on m.id = a.merchant_id
    where s.id = ${id}`;
  return row;
}

/** A wallet's subscriptions, newest first. */
export function listSubscriptionsOfWallet(
  sql: Queryable,
  wallet: string,
  { after, limit }: { after: string | null; limit: number },
): Promise<SubscriptionRow[]> {
  return sql<SubscriptionRow[]>`
    select s.id, s.app_id, s.plan_id, s.subscription_pda, s.subscriber_wallet, m.wallet as merchant_wallet, s.status, s.amount, s.period_hours,
      s.paid_through, s.next_payment_due, s.cancel_requested_at, s.cancel_requested_by, s.cancelled_at, s.delegation_revoked_at, s.end_reason,
      s.created_at, s.updated_at
    from subscriptions s join apps a on a.id = s.app_id join merchants m on m.id = a.merchant_id
    where s.subscriber_wallet = ${wallet} and s.id < coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by s.id desc limit ${limit}`;
}

export interface SubscriptionFilters {
  status: string | null;
  planId: string | null;
  subscriberWallet: string | null;
  /** Creation time, inclusive. */
  since: Date | null;
  /** Creation time, exclusive. */
  until: Date | null;
}

/** An app's subscriptions, newest first. */
export function listSubscriptionsOfApp(
  sql: Queryable,
  appId: string,
  { status, planId, subscriberWallet, since, until }: SubscriptionFilters,
  { after, limit }: { after: string | null; limit: number },
): Promise<SubscriptionRow[]> {
  return sql<SubscriptionRow[]>`
    select s.id, s.app_id, s.plan_id, s.subscription_pda, s.subscriber_wallet, m.wallet as merchant_wallet, s.status, s.amount, s.period_hours,
      s.paid_through, s.next_payment_due, s.cancel_requested_at, s.cancel_requested_by, s.cancelled_at, s.delegation_revoked_at, s.end_reason,
      s.created_at, s.updated_at
    from subscriptions s join apps a on a.id = s.app_id join merchants m on m.id = a.merchant_id
    where s.app_id = ${appId}
      and (${status}::text is null or s.status = ${status})
      and (${planId}::uuid is null or s.plan_id = ${planId})
      and (${subscriberWallet}::text is null or s.subscriber_wallet = ${subscriberWallet})
      and s.created_at >= coalesce(${since}::timestamptz, '-infinity')
      and s.created_at < coalesce(${until}::timestamptz, 'infinity')
      and (s.created_at, s.id) < (case when ${after}::uuid is null then 'infinity' else (select c.created_at from subscriptions c where c.id = ${after}) end,
        coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by s.created_at desc, s.id desc limit ${limit}`;
}
