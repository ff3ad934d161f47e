// What merchants give back of payments: asked for over the API, recorded by a keeper once the transfer is final.
import type { Queryable, Transaction } from './connect.ts';
import { type Page, pageOf } from './lists.ts';

export interface RefundRow {
  id: string;
  appId: string;
  transactionId: string;
  subscriptionId: string;
  amount: bigint;
  /** A random address in the transfer's accounts, by which the transaction is found. */
  reference: string;
  /** expired: its transfer was not on chain five minutes later; a keeper looks for it for a day nevertheless. */
  status: 'pending' | 'succeeded' | 'expired';
  txSignature: string | null;
  /** Block time of the transfer. */
  occurredAt: Date | null;
  createdAt: Date;
}

const columns = (sql: Queryable) => sql`
  id, app_id, payment_id as transaction_id, subscription_id, amount, reference, status, tx_signature, occurred_at, created_at`;

/** What of a payment is neither refunded nor asked to be, in base units. Refunds of it wait for this transaction's end, so that the answer holds. */
export async function readRefundable(sql: Transaction, paymentId: string): Promise<bigint> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${paymentId}, 0))`;
  const [row] = await sql<{ left: bigint }[]>`
    select p.amount_net - p.amount_refunded
      - coalesce((select sum(amount) from refunds where payment_id = p.id and status = 'pending'), 0)::int8 as left
    from payments p where p.id = ${paymentId}`;
  return row?.left ?? 0n;
}

export async function insertRefund(
  sql: Queryable,
  refund: Pick<RefundRow, 'appId' | 'transactionId' | 'subscriptionId' | 'amount' | 'reference'>,
): Promise<RefundRow> {
  const { appId, transactionId, subscriptionId, amount, reference } = refund;
  const [row] = await sql<RefundRow[]>`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference)
    values (${appId}, ${transactionId}, ${subscriptionId}, ${amount}, ${reference}) returning ${columns(sql)}`;
  if (row === undefined) throw new Error('a refund was not stored');
  return row;
}

/** The refunds of a payment, newest first. */
export function listRefunds(sql: Queryable, paymentId: string, page: Page): Promise<RefundRow[]> {
  const key = { column: 'payment_id', value: sql`${paymentId}::uuid` };
  return sql<RefundRow[]>`select ${columns(sql)} from refunds where ${pageOf(sql, key, page)}`;
}

/** A refund that a keeper looks for, and between whom the transfer is. */
export interface AwaitedRefund {
  id: string;
  amount: bigint;
  reference: string;
  mint: string;
  merchantWallet: string;
  subscriberWallet: string;
  /** Older than five minutes: no blockhash lives so long, so a transfer that is not on chain by now never will be. */
  isOverdue: boolean;
}

/**
 * Takes refunds whose transfer is to be looked for, and puts each off by half its age (3 s at least): a keeper that dies loses nothing. After a day an
 * expired one is looked for no more; a pending one is, since its history could not be read so far.
 */
export function takeAwaitedRefunds(sql: Queryable, limit: number): Promise<AwaitedRefund[]> {
  return sql<AwaitedRefund[]>`
    with due as (
      select id from refunds where look_at <= now() order by look_at, id limit ${limit} for update skip locked
    ), taken as (
      update refunds r set
        look_at = case when r.status = 'pending' or r.created_at > now() - interval '1 day'
          then now() + greatest(interval '3 seconds', (now() - r.created_at) / 2) end
      from due where r.id = due.id
      returning r.id, r.amount, r.reference, r.subscription_id, r.created_at < now() - interval '5 minutes' as is_overdue
    )
    select t.id, t.amount, t.reference, t.is_overdue, p.mint, p.owner as merchant_wallet, s.subscriber_wallet
    from taken t join subscriptions s on s.id = t.subscription_id join plans p on p.id = s.plan_id`;
}

/** Gives up a refund whose transfer is not on chain: its amount can be asked for again. */
export async function expireRefund(sql: Queryable, id: string): Promise<void> {
  await sql`update refunds set status = 'expired' where id = ${id} and status = 'pending'`;
}

/** A refund that was recorded. */
export interface RecordedRefund {
  transactionId: string;
  subscriptionId: string;
  amount: bigint;
}

/** Records that the transfer of a refund is final. Undefined when it was recorded before, or more than the payment's net would be refunded. */
export async function recordRefund(
  sql: Transaction,
  id: string,
  { txSignature, occurredAt }: { txSignature: string; occurredAt: Date },
): Promise<RecordedRefund | undefined> {
  const [row] = await sql<RecordedRefund[]>`
    with open as (
      select r.id, r.payment_id, r.amount from refunds r where r.id = ${id} and r.status <> 'succeeded' for update
    ), paid as (
      update payments p set amount_refunded = p.amount_refunded + open.amount from open
      where p.id = open.payment_id and p.amount_refunded + open.amount <= p.amount_net
      returning p.id
    )
    update refunds r set status = 'succeeded', tx_signature = ${txSignature}, occurred_at = ${occurredAt}, look_at = null
    from paid where r.id = ${id}
    returning r.payment_id as transaction_id, r.subscription_id, r.amount`;
  return row;
}
