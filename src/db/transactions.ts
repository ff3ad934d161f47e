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

/** An app's payments, newest first by the payment's time. */
export function listTransactionsOfApp(
  sql: Queryable,
  appId: string,
  { status, planId, subscriptionId, since, until }: TransactionFilters,
  { after, limit }: { after: string | null; limit: number },
): Promise<TransactionRow[]> {
  return sql<TransactionRow[]>`
    select id, app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, amount_gross, platform_fee, amount_net,
      tx_signature, failure_reason, attempt, period_start, period_end, occurred_at, created_at
    from payments
    where app_id = ${appId}
      and (${status}::text is null or status = ${status})
      and (${planId}::uuid is null or plan_id = ${planId})
      and (${subscriptionId}::uuid is null or subscription_id = ${subscriptionId})
      and occurred_at >= coalesce(${since}::timestamptz, '-infinity')
      and occurred_at < coalesce(${until}::timestamptz, 'infinity')
      and (occurred_at, id) < (case when ${after}::uuid is null then 'infinity' else (select c.occurred_at from payments c where c.id = ${after}) end,
        coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by occurred_at desc, id desc limit ${limit}`;
}

/** One subscription's payments, newest first by the payment's time. */
export function listTransactionsOfSubscription(
  sql: Queryable,
  subscriptionId: string,
  { after, limit }: { after: string | null; limit: number },
): Promise<TransactionRow[]> {
  return sql<TransactionRow[]>`
    select id, app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, amount_gross, platform_fee, amount_net,
      tx_signature, failure_reason, attempt, period_start, period_end, occurred_at, created_at
    from payments
    where subscription_id = ${subscriptionId}
      and (occurred_at, id) < (case when ${after}::uuid is null then 'infinity' else (select c.occurred_at from payments c where c.id = ${after}) end,
        coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by occurred_at desc, id desc limit ${limit}`;
}

/** The same rows in the same order, with the plan's name: for the export, which reads them page by page. */
export function exportTransactions(
  sql: Queryable,
  appId: string,
  { status, planId, subscriptionId, since, until }: TransactionFilters,
  { after, limit }: { after: string | null; limit: number },
): Promise<(TransactionRow & { planName: string })[]> {
  return sql<(TransactionRow & { planName: string })[]>`
    select p.id, p.app_id, p.plan_id, plans.name as plan_name, p.subscription_id, p.subscription_pda, p.subscriber_wallet, p.status,
      p.amount_gross, p.platform_fee, p.amount_net, p.tx_signature, p.failure_reason, p.attempt, p.period_start, p.period_end, p.occurred_at,
      p.created_at
    from payments p join plans on plans.id = p.plan_id
    where p.app_id = ${appId}
      and (${status}::text is null or p.status = ${status})
      and (${planId}::uuid is null or p.plan_id = ${planId})
      and (${subscriptionId}::uuid is null or p.subscription_id = ${subscriptionId})
      and p.occurred_at >= coalesce(${since}::timestamptz, '-infinity')
      and p.occurred_at < coalesce(${until}::timestamptz, 'infinity')
      and (p.occurred_at, p.id) < (case when ${after}::uuid is null then 'infinity' else (select c.occurred_at from payments c where c.id = ${after}) end,
        coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by p.occurred_at desc, p.id desc limit ${limit}`;
}
