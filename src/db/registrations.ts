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
  /** Slot as of which the account was seen on chain: no older state of it is believed. */
  observedSlot: bigint;
}

/**
 * Stores a registration with the plan's terms and returns its id; undefined when the plan takes none any more.
 * Throws a unique violation of one_live_registration_per_pda while the address is registered.
 */
export async function insertRegistration(
  sql: Queryable,
  { planId, subscriptionPda, subscriberWallet, dueAt, observedSlot }: NewRegistration,
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due, due_at,
      observed_slot)
    select app_id, id, ${subscriptionPda}, ${subscriberWallet}, amount, period_hours, ${dueAt}, ${dueAt}, ${observedSlot} from plans
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
    with page as (
      select * from subscriptions
      where (subscriber_wallet, id) >= (${wallet}, '00000000-0000-0000-0000-000000000000') and (subscriber_wallet, id) < (${wallet}, coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
      order by subscriber_wallet desc, id desc limit ${limit}
    )
    select s.id, s.app_id, s.plan_id, s.subscription_pda, s.subscriber_wallet, m.wallet as merchant_wallet, s.status, s.amount, s.period_hours,
      s.paid_through, s.next_payment_due, s.cancel_requested_at, s.cancel_requested_by, s.cancelled_at, s.delegation_revoked_at, s.end_reason,
      s.created_at, s.updated_at
    from page s, lateral (select merchant_id from apps where id = s.app_id limit 1) as a,
      lateral (select wallet from merchants where id = a.merchant_id limit 1) as m
    order by s.id desc`;
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

/**
 * An app's subscriptions, newest first. Which index is read is written down rather than left to statistics, which do not know what is asked for:
 * there is one arm for each set of filters that are equalities (one that is not meant has no row to begin with), and each compares whole rows, which
 * the index of these very columns alone can look up, and have in order. Without a status, those of each status are put together.
 */
export function listSubscriptionsOfApp(
  sql: Queryable,
  appId: string,
  { status, planId, subscriberWallet, since, until }: SubscriptionFilters,
  { after, limit }: { after: string | null; limit: number },
): Promise<SubscriptionRow[]> {
  return sql<SubscriptionRow[]>`
    with place as materialized (
      select '00000000-0000-0000-0000-000000000000'::uuid as nil, coalesce(${until}::timestamptz, 'infinity') as until,
        case when ${after}::uuid is null then 'infinity' else (select created_at from subscriptions where id = ${after}) end as before
    ), asked as materialized (
      select a.id as app_id, m.wallet as merchant_wallet, ${planId}::uuid as plan_id, ${subscriberWallet}::text as wallet, ${status}::text as status,
        case when ${status}::text is null then array['active', 'past_due', 'cancelled', 'expired'] else array[${status}::text] end as statuses,
        coalesce(${since}::timestamptz, '-infinity') as since, nil,
        case when until <= before then until else before end as end_time, case when until <= before then nil else ${after}::uuid end as end_id
      from place,
        lateral (select id, merchant_id from apps where id = ${appId} limit 1) as a,
        lateral (select wallet from merchants where id = a.merchant_id limit 1) as m
    ), plan as (
      select plans.id from asked join plans on plans.id = asked.plan_id and plans.app_id = asked.app_id limit 1
    ), found as (
      select s.* from asked, lateral (
        select * from subscriptions
        where (app_id, created_at, id) >= (asked.app_id, asked.since, asked.nil)
          and (app_id, created_at, id) < (asked.app_id, asked.end_time, asked.end_id)
        order by app_id desc, created_at desc, id desc limit ${limit}
      ) as s where asked.status is null and asked.plan_id is null and asked.wallet is null
      union all
      select s.* from asked, lateral (
        select * from subscriptions
        where (status, app_id, created_at, id) >= (asked.status, asked.app_id, asked.since, asked.nil)
          and (status, app_id, created_at, id) < (asked.status, asked.app_id, asked.end_time, asked.end_id)
        order by status desc, app_id desc, created_at desc, id desc limit ${limit}
      ) as s where asked.status is not null and asked.plan_id is null and asked.wallet is null
      union all
      select s.* from asked, plan, unnest(asked.statuses) as wanted (status), lateral (
        select * from subscriptions
        where (plan_id, status, created_at, id) >= (plan.id, wanted.status, asked.since, asked.nil)
          and (plan_id, status, created_at, id) < (plan.id, wanted.status, asked.end_time, asked.end_id)
        order by plan_id desc, status desc, created_at desc, id desc limit ${limit}
      ) as s where asked.wallet is null
      union all
      select s.* from asked, unnest(asked.statuses) as wanted (status), lateral (
        select * from subscriptions
        where (subscriber_wallet collate "C", app_id, status, created_at, id) >= (asked.wallet, asked.app_id, wanted.status, asked.since, asked.nil)
          and (subscriber_wallet collate "C", app_id, status, created_at, id) < (asked.wallet, asked.app_id, wanted.status, asked.end_time, asked.end_id)
        order by subscriber_wallet collate "C" desc, app_id desc, status desc, created_at desc, id desc limit ${limit}
      ) as s where asked.wallet is not null and asked.plan_id is null
      union all
      select s.* from asked, plan, unnest(asked.statuses) as wanted (status), lateral (
        select * from subscriptions
        where (subscriber_wallet collate "POSIX", plan_id, status, created_at, id) >= (asked.wallet, plan.id, wanted.status, asked.since, asked.nil)
          and (subscriber_wallet collate "POSIX", plan_id, status, created_at, id) < (asked.wallet, plan.id, wanted.status, asked.end_time, asked.end_id)
        order by subscriber_wallet collate "POSIX" desc, plan_id desc, status desc, created_at desc, id desc limit ${limit}
      ) as s where asked.wallet is not null
    )
    select s.id, s.app_id, s.plan_id, s.subscription_pda, s.subscriber_wallet, asked.merchant_wallet as merchant_wallet, s.status, s.amount, s.period_hours,
      s.paid_through, s.next_payment_due, s.cancel_requested_at, s.cancel_requested_by, s.cancelled_at, s.delegation_revoked_at, s.end_reason,
      s.created_at, s.updated_at
    from asked, found s order by s.created_at desc, s.id desc limit ${limit}`;
}
