// Refunds: created through the API, recorded by a keeper once the transfer is finalized.
import type { Queryable, Transaction } from './postgres/connect.ts';
import { type Page, pageOf } from './postgres/lists.ts';

export interface RefundRow {
  id: string;
  appId: string;
  transactionId: string;
  subscriptionId: string;
  amount: bigint;
  /** A random address among the transfer's accounts; the keeper finds the transaction by it. */
  reference: string;
  /**
   * expired: the transfer was not on chain after five minutes. A keeper still polls for it for a
   * day.
   */
  status: 'pending' | 'succeeded' | 'expired';
  txSignature: string | null;
  /** Block time of the transfer. */
  occurredAt: Date | null;
  createdAt: Date;
}

type Nullable<T> = { [Key in keyof T]: T[Key] | null };

const columns = (sql: Queryable) => sql`
  id, app_id, payment_id as transaction_id, subscription_id, amount, reference, status,
    tx_signature, occurred_at, created_at`;

/**
 * The amount of a payment without succeeded or pending refunds, in base units. Holds a lock, so
 * that the amount holds until the transaction ends.
 */
export async function readRefundable(sql: Transaction, paymentId: string): Promise<bigint> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${paymentId}, 0))`;
  const [row] = await sql<{ left: bigint }[]>`
    select p.amount_net - p.amount_refunded
      - coalesce((select sum(amount) from refunds where payment_id = p.id and status = 'pending'),
        0)::int8 as left
    from payments p where p.id = ${paymentId}`;
  return row?.left ?? 0n;
}

/** The blockhash of a transfer, and what the response that gave it reported. */
export interface TransferLifetime {
  blockhash: string;
  lastValidBlockHeight: bigint;
  /** Slot of that response. */
  blockhashSlot: bigint;
}

export async function insertRefund(
  sql: Queryable,
  refund: Pick<RefundRow, 'appId' | 'transactionId' | 'subscriptionId' | 'amount' | 'reference'> &
    TransferLifetime,
): Promise<RefundRow> {
  const { appId, transactionId, subscriptionId, amount, reference } = refund;
  const { blockhash, lastValidBlockHeight, blockhashSlot } = refund;
  const [row] = await sql<RefundRow[]>`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference, blockhash,
      last_valid_block_height, blockhash_slot)
    values (${appId}, ${transactionId}, ${subscriptionId}, ${amount}, ${reference}, ${blockhash},
      ${lastValidBlockHeight}, ${blockhashSlot})
    returning ${columns(sql)}`;
  if (row === undefined) throw new Error('a refund was not stored');
  return row;
}

/** The refunds of a payment, newest first. */
export function listRefunds(sql: Queryable, paymentId: string, page: Page): Promise<RefundRow[]> {
  const key = { column: 'payment_id', value: sql`${paymentId}::uuid` };
  return sql<RefundRow[]>`select ${columns(sql)} from refunds where ${pageOf(sql, key, page)}`;
}

/** A refund that a keeper polls for, with the two wallets of its transfer. */
export interface AwaitedRefund {
  id: string;
  amount: bigint;
  reference: string;
  mint: string;
  merchantWallet: string;
  subscriberWallet: string;
  /** Older than five minutes, by which a blockhash has expired. */
  isOverdue: boolean;
  /** Null for a refund of a release that did not store it. */
  lifetime: TransferLifetime | null;
}

/**
 * Claims refunds that are due for a poll and reschedules each by half its age (at least 3 s), so a
 * crashed keeper loses nothing. After a day an expired refund is not polled any more; a pending one
 * is, because its history could not be read so far.
 */
export async function takeAwaitedRefunds(sql: Queryable, limit: number): Promise<AwaitedRefund[]> {
  const rows = await sql<(Omit<AwaitedRefund, 'lifetime'> & Nullable<TransferLifetime>)[]>`
    with due as (
      select id from refunds where look_at <= now() order by look_at, id limit ${limit}
        for update skip locked
    ), taken as (
      update refunds r set
        look_at = case when r.status = 'pending' or r.created_at > now() - interval '1 day'
          then now() + greatest(interval '3 seconds', (now() - r.created_at) / 2) end
      from due where r.id = due.id
      returning r.id, r.amount, r.reference, r.subscription_id, r.blockhash,
        r.last_valid_block_height, r.blockhash_slot,
        r.created_at < now() - interval '5 minutes' as is_overdue
    )
    select t.id, t.amount, t.reference, t.is_overdue, t.blockhash, t.last_valid_block_height,
      t.blockhash_slot, p.mint,
      p.owner as merchant_wallet, s.subscriber_wallet
    from taken t join subscriptions s on s.id = t.subscription_id join plans p on p.id = s.plan_id`;
  return rows.map(({ blockhash, lastValidBlockHeight, blockhashSlot, ...row }) => ({
    ...row,
    lifetime:
      blockhash === null || lastValidBlockHeight === null || blockhashSlot === null
        ? null
        : { blockhash, lastValidBlockHeight, blockhashSlot },
  }));
}

/** Expires a refund whose transfer is not on chain; its amount can be refunded again. */
export async function expireRefund(sql: Queryable, id: string): Promise<void> {
  await sql`update refunds set status = 'expired' where id = ${id} and status = 'pending'`;
}

/** A recorded refund. */
export interface RecordedRefund {
  transactionId: string;
  subscriptionId: string;
  amount: bigint;
}

/**
 * Records a finalized transfer. Undefined when the refund is already recorded, or the refunds would
 * exceed the payment's net amount.
 */
export async function recordRefund(
  sql: Transaction,
  id: string,
  { txSignature, occurredAt }: { txSignature: string; occurredAt: Date },
): Promise<RecordedRefund | undefined> {
  const [row] = await sql<RecordedRefund[]>`
    with open as (
      select r.id, r.payment_id, r.amount from refunds r where r.id = ${id}
        and r.status <> 'succeeded' for update
    ), paid as (
      update payments p set amount_refunded = p.amount_refunded + open.amount from open
      where p.id = open.payment_id and p.amount_refunded + open.amount <= p.amount_net
      returning p.id
    )
    update refunds r set status = 'succeeded', tx_signature = ${txSignature},
      occurred_at = ${occurredAt}, look_at = null
    from paid where r.id = ${id}
    returning r.payment_id as transaction_id, r.subscription_id, r.amount`;
  return row;
}
