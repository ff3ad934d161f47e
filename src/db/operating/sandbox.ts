// Statements used only by the sandbox: progress reports, and updates that simulate the passing of
// time.
import type { EventType } from '../delivering/events.ts';
import type { Queryable, Sql } from '../postgres/connect.ts';

export interface WorkLeft {
  /** Number of subscriptions due by the given chain time or leased by a keeper. */
  subscriptions: number;
  openAttempts: number;
  /** Number of due deliveries, claimed or not. */
  deliveries: number;
  /** Chain time at which the next subscription becomes due. */
  nextDue: Date | null;
}

/** Reads the work left for keeper and dispatcher at this chain time. */
export async function readWorkLeft(sql: Sql, chainNow: Date): Promise<WorkLeft> {
  const [row] = await sql<WorkLeft[]>`
    select
      (select count(*)::int from subscription_work
        where due_at <= ${chainNow} or lease_until > now())
        as subscriptions,
      (select count(*)::int from payment_attempts where state = 'open') as open_attempts,
      (select count(*)::int from delivery_queue where due_at <= now()) as deliveries,
      (select min(due_at) from subscription_work where due_at > ${chainNow}) as next_due`;
  return row as WorkLeft;
}

/** Expires all subscription leases. Call it only when the keeper that holds them is dead. */
export async function expireKeeperLeases(sql: Sql): Promise<void> {
  // Locks the rows in id order, as every other statement does, to avoid deadlocks.
  await sql`
    with leased as (
      select subscription_id from subscription_work where lease_until > now()
      order by subscription_id for update
    )
    update subscription_work w set lease_until = now() from leased
    where w.subscription_id = leased.subscription_id`;
}

/** Expires all delivery claims. Call it only when the dispatcher that holds them is dead. */
export async function expireDispatchClaims(sql: Sql): Promise<void> {
  await sql`update delivery_queue set claimed_until = now() where claimed_until > now()`;
}

/** Makes every scheduled retry due now and returns the number of retries. */
export async function bringRetriesForward(sql: Sql): Promise<number> {
  const rows = await sql`update delivery_queue set due_at = now() where due_at > now() returning 1`;
  return rows.length;
}

/**
 * Corrects created_at and ended_at of subscriptions with simulated payments. The payments have past
 * dates, but created_at and ended_at were set by today's clock. created_at becomes the time of the
 * first payment if that is earlier. An ended_at more than 30 days after the last payment becomes 15
 * days after it.
 */
export async function datePlay(sql: Sql): Promise<void> {
  await sql`
    update subscriptions s set
      created_at = least(s.created_at, paid.first),
      ended_at = case when s.ended_at > paid.last + interval '30 days' then paid.last + interval
        '15 days' else s.ended_at end
    from (
      select subscription_id, min(occurred_at) as first, max(occurred_at) as last
      from payments group by 1
    ) as paid
    where paid.subscription_id = s.id`;
}

export interface PaymentRecord {
  subscriptionId: string;
  subscriptionPda: string;
  merchantWallet: string;
  status: 'succeeded' | 'failed';
  /** `credit`: credit paid the whole period, and nothing was pulled. */
  source: 'keeper' | 'foreign' | 'credit';
  periodStart: Date;
  amountGross: bigint;
  platformFee: bigint;
  amountNet: bigint;
  txSignature: string | null;
  occurredAt: Date;
  /** True for a pull that pays for no period. It has no event. */
  further: boolean;
}

export function readPayments(sql: Sql, appIds: string[]): Promise<PaymentRecord[]> {
  return sql<PaymentRecord[]>`
    select p.subscription_id, p.subscription_pda, m.wallet as merchant_wallet, p.status, p.source,
      p.period_start, p.amount_gross, p.platform_fee,
      p.amount_net, p.tx_signature, p.occurred_at, p.further
    from payments p join apps a on a.id = p.app_id join merchants m on m.id = a.merchant_id
    where p.app_id = any(${appIds}::uuid[])`;
}

export interface EventRecord {
  id: string;
  /** Null for an event of a customer. It has no sequence. */
  subscriptionId: string | null;
  sequence: bigint | null;
  type: EventType;
  body: string;
}

export function readEvents(sql: Sql, appIds: string[]): Promise<EventRecord[]> {
  return sql<EventRecord[]>`
    select id, subscription_id, sequence, type, body from events
      where app_id = any(${appIds}::uuid[]) order by subscription_id, sequence`;
}

export interface SubscriptionRecord {
  id: string;
  status: 'active' | 'past_due' | 'cancelled' | 'expired';
}

export function readSubscriptionStatuses(
  sql: Sql,
  appIds: string[],
): Promise<SubscriptionRecord[]> {
  return sql<
    SubscriptionRecord[]
  >`select id, status from subscriptions where app_id = any(${appIds}::uuid[])`;
}

export async function readDeliveryTotals(
  sql: Sql,
  appIds: string[],
): Promise<{ delivered: number; failed: number; pending: number; attempts: number }> {
  const [row] = await sql<
    { delivered: number; failed: number; pending: number; attempts: number }[]
  >`
    select count(*) filter (where d.status = 'delivered')::int as delivered, count(*)
      filter (where d.status = 'failed')::int as failed,
      count(*) filter (where d.status = 'pending')::int as pending,
        coalesce(sum(d.attempts), 0)::int as attempts
    from all_deliveries d join webhook_endpoints e on e.id = d.endpoint_id
      where e.app_id = any(${appIds}::uuid[])`;
  return row ?? { delivered: 0, failed: 0, pending: 0, attempts: 0 };
}

export interface FlowTotals {
  active: number;
  pastDue: number;
  cancelled: number;
  expired: number;
  succeeded: number;
  refused: number;
  /**
   * Sums of the collected payments in base units: `gross` in total, `fees` for the platform, `net`
   * for the merchants.
   */
  gross: bigint;
  fees: bigint;
  net: bigint;
  taken: number;
  waiting: number;
  givenUp: number;
  attempts: number;
}

/**
 * Computes totals over all apps. The statement scans whole tables, which is acceptable only in a
 * sandbox.
 */
export async function readFlowTotals(sql: Queryable): Promise<FlowTotals> {
  const [row] = await sql<FlowTotals[]>`
    select subscription.*, payment.*, delivery.*
    from
      (select count(*) filter (where status = 'active')::int as active, count(*)
        filter (where status = 'past_due')::int as past_due,
        count(*) filter (where status = 'cancelled')::int as cancelled, count(*)
          filter (where status = 'expired')::int as expired
        from subscriptions) as subscription,
      (select count(*) filter (where status = 'succeeded')::int as succeeded, count(*)
        filter (where status = 'failed')::int as refused,
        coalesce(sum(amount_gross) filter (where status = 'succeeded'), 0)::int8 as gross,
        coalesce(sum(platform_fee) filter (where status = 'succeeded'), 0)::int8 as fees,
        coalesce(sum(amount_net) filter (where status = 'succeeded'), 0)::int8 as net
        from payments) as payment,
      (select count(*) filter (where status = 'delivered')::int as taken, count(*)
        filter (where status = 'pending')::int as waiting,
        count(*) filter (where status = 'failed')::int as given_up, coalesce(sum(attempts), 0)::int
          as attempts
        from all_deliveries) as delivery`;
  return row as FlowTotals;
}

export interface FlowPayment {
  id: string;
  /** Time of the payment by the chain's clock. */
  occurredAt: Date;
  subscriberWallet: string;
  appName: string;
  gross: bigint;
  fee: bigint;
  net: bigint;
  /** Null when the payment succeeded. */
  failureReason: string | null;
}

/** Lists the newest payments, including failed payments. */
export function listFlowPayments(sql: Queryable, limit: number): Promise<FlowPayment[]> {
  return sql<FlowPayment[]>`
    select p.id, p.occurred_at, p.subscriber_wallet, app.name as app_name, p.amount_gross as gross,
      p.platform_fee as fee, p.amount_net as net,
      p.failure_reason
    from payments p join apps app on app.id = p.app_id order by p.id desc limit ${limit}`;
}

export interface FlowWebhook {
  deliveryId: string;
  number: number;
  startedAt: Date;
  durationMs: number;
  httpStatus: number | null;
  error: string | null;
  eventType: EventType;
  appName: string;
}

export function listFlowWebhooks(sql: Queryable, limit: number): Promise<FlowWebhook[]> {
  return sql<FlowWebhook[]>`
    select a.delivery_id, a.number, a.started_at, a.duration_ms, a.http_status, a.error,
      event.type as event_type, app.name as app_name
    from delivery_attempts a
      join all_deliveries d on d.id = a.delivery_id
      join events event on event.id = d.event_id
      join apps app on app.id = event.app_id
    order by a.started_at desc, a.delivery_id desc limit ${limit}`;
}
