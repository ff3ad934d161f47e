// Payments as merchants and subscribers see them: transactions.
import type { Queryable } from './connect.ts';

export interface TransactionRow {
  id: string;
  appId: string;
  planId: string;
  subscriptionId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  status: 'succeeded' | 'failed';
  amountGross: bigint;
  platformFee: bigint;
  amountNet: bigint;
  txSignature: string | null;
  failureReason: string | null;
  attempt: number;
  periodStart: Date;
  periodEnd: Date;
  occurredAt: Date;
  createdAt: Date;
  planName: string;
}

export interface TransactionFilters {
  status: string | null;
  planId: string | null;
  subscriptionId: string | null;
  /** The payment's time, inclusive. */
  since: Date | null;
  /** The payment's time, exclusive. */
  until: Date | null;
}

export const anyTransaction: TransactionFilters = { status: null, planId: null, subscriptionId: null, since: null, until: null };

/** An app's payments, newest first by the payment's time. One arm for each set of filters, as in registrations.ts. */
export function listTransactions(
  sql: Queryable,
  appId: string,
  { status, planId, subscriptionId, since, until }: TransactionFilters,
  { after, limit }: { after: string | null; limit: number },
): Promise<TransactionRow[]> {
  return sql<TransactionRow[]>`
    with place as materialized (
      select '00000000-0000-0000-0000-000000000000'::uuid as nil, coalesce(${until}::timestamptz, 'infinity') as until,
        case when ${after}::uuid is null then 'infinity' else (select occurred_at from payments where id = ${after}) end as before
    ), asked as materialized (
      select ${appId}::uuid as app_id, ${planId}::uuid as plan_id, ${subscriptionId}::uuid as subscription_id, ${status}::text as status,
        case when ${status}::text is null then array['succeeded', 'failed'] else array[${status}::text] end as statuses,
        coalesce(${since}::timestamptz, '-infinity') as since, nil,
        case when until <= before then until else before end as end_time, case when until <= before then nil else ${after}::uuid end as end_id
      from place
    ), plan as (
      select plans.id from asked join plans on plans.id = asked.plan_id and plans.app_id = asked.app_id limit 1
    ), subscription as (
      select s.id from asked join subscriptions s on s.id = asked.subscription_id and s.app_id = asked.app_id
        and s.plan_id = coalesce(asked.plan_id, s.plan_id) limit 1
    ), found as (
      select p.* from asked, lateral (
        select * from payments
        where (app_id, occurred_at, id) >= (asked.app_id, asked.since, asked.nil)
          and (app_id, occurred_at, id) < (asked.app_id, asked.end_time, asked.end_id)
        order by app_id desc, occurred_at desc, id desc limit ${limit}
      ) as p where asked.status is null and asked.plan_id is null and asked.subscription_id is null
      union all
      select p.* from asked, lateral (
        select * from payments
        where (status, app_id, occurred_at, id) >= (asked.status, asked.app_id, asked.since, asked.nil)
          and (status, app_id, occurred_at, id) < (asked.status, asked.app_id, asked.end_time, asked.end_id)
        order by status desc, app_id desc, occurred_at desc, id desc limit ${limit}
      ) as p where asked.status is not null and asked.plan_id is null and asked.subscription_id is null
      union all
      select p.* from asked, plan, unnest(asked.statuses) as wanted (status), lateral (
        select * from payments
        where (plan_id, status, occurred_at, id) >= (plan.id, wanted.status, asked.since, asked.nil)
          and (plan_id, status, occurred_at, id) < (plan.id, wanted.status, asked.end_time, asked.end_id)
        order by plan_id desc, status desc, occurred_at desc, id desc limit ${limit}
      ) as p where asked.subscription_id is null
      union all
      select p.* from asked, subscription, unnest(asked.statuses) as wanted (status), lateral (
        select * from payments
        where (subscription_id, status, occurred_at, id) >= (subscription.id, wanted.status, asked.since, asked.nil)
          and (subscription_id, status, occurred_at, id) < (subscription.id, wanted.status, asked.end_time, asked.end_id)
        order by subscription_id desc, status desc, occurred_at desc, id desc limit ${limit}
      ) as p
    )
    select p.id, p.app_id, p.plan_id, plan.name as plan_name, p.subscription_id, p.subscription_pda, p.subscriber_wallet, p.status,
      p.amount_gross, p.platform_fee, p.amount_net, p.tx_signature, p.failure_reason, p.attempt, p.period_start, p.period_end, p.occurred_at,
      p.created_at
    from (select * from found order by occurred_at desc, id desc limit ${limit}) as p, lateral (select name from plans where id = p.plan_id limit 1) as plan
    order by p.occurred_at desc, p.id desc`;
}
