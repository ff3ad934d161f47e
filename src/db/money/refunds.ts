// Refunds. The API creates a refund. A keeper records the refund when its transfer is finalized. If
// the wallet signed the transfer twice and the second one lands too, the keeper adds a refund for
// it (`repeats`).
import { creditedPart, lockPaid } from '../invoices/notes.ts';
import { secondsSince } from '../postgres/clock.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { among, type Key, type Page, pageOf, type Span } from '../postgres/lists.ts';
import { subscriptionsOf, type Whose } from '../subscriptions/customers.ts';
import { hasSponsoredChange } from '../subscriptions/plan-changes.ts';

export interface RefundRow {
  id: string;
  appId: string;
  transactionId: string;
  subscriptionId: string;
  amount: bigint;
  /**
   * A random address among the transfer's accounts, by which the keeper finds the transaction. A
   * refund for a second transfer (`repeats`) has the same reference as the first refund.
   */
  reference: string;
  /**
   * `expired`: the transfer was not on chain after five minutes. A keeper keeps polling for the
   * transfer for a day.
   */
  status: 'pending' | 'succeeded' | 'expired';
  txSignature: string | null;
  /** Block time of the transfer. */
  occurredAt: Date | null;
  /**
   * The part of a landed transfer that exceeds what was left of the payment. Not 0 only if the
   * transfer landed twice, or if two transfers landed because the first had expired.
   */
  excess: bigint;
  createdAt: Date;
}

const columns = (sql: Queryable) => sql`
  id, app_id, payment_id as transaction_id, subscription_id, amount, reference, status,
    tx_signature, occurred_at, excess, created_at`;

/** SQL for the part of the payment `p` that is neither refunded nor credited, in base units. */
const restOf = (sql: Queryable) =>
  sql`(p.amount_net - p.amount_refunded - coalesce(${creditedPart(sql)}, 0))`;

/**
 * Returns the amount of a payment that can still be refunded, in base units. Excludes the amount
 * that a change of plan turned into credit. `isChanging` is true if a sponsored change of plan is
 * under way, which may reduce this amount. Locks the payment (lockPaid).
 */
export async function readRefundable(
  sql: Transaction,
  paymentId: string,
): Promise<{ left: bigint; isChanging: boolean }> {
  await lockPaid(sql, paymentId);
  const [row] = await sql<{ left: bigint; isChanging: boolean }[]>`
    select ${hasSponsoredChange(sql, sql`p.subscriber_wallet`)} as is_changing,
      greatest(0, ${restOf(sql)} - coalesce((
        select sum(amount) from refunds where payment_id = p.id and status = 'pending'
      ), 0))::int8 as left
    from payments p where p.id = ${paymentId}`;
  return row ?? { left: 0n, isChanging: false };
}

/** The lifetime of a transfer's blockhash. All three values come from the same RPC response. */
export interface TransferLifetime {
  blockhash: string;
  lastValidBlockHeight: bigint;
  /** Slot of the RPC response. */
  blockhashSlot: bigint;
}

/**
 * Counts the open refunds of a payment and of all payments of its merchant. A refund is open while
 * its transfer can still land at the block height `blockHeight` and the relay has not accepted it.
 * The relay accepts a refund just before it sends the transfer, so a refund whose simulation fails
 * stays open. Takes an advisory lock on the merchant until the transaction ends.
 */
export async function countOpenRefunds(
  tx: Transaction,
  { appId, paymentId }: { appId: string; paymentId: string },
  blockHeight: bigint,
): Promise<{ ofPayment: number; ofMerchant: number }> {
  await tx`
    select pg_advisory_xact_lock(hashtextextended(merchant_id::text, 4)) from apps
    where id = ${appId}`;
  const [row] = await tx<[{ ofPayment: number; ofMerchant: number }]>`
    select (count(*) filter (where r.payment_id = ${paymentId}))::int as of_payment,
      count(*)::int as of_merchant
    from refunds r
    where r.app_id = any(array(select id from apps
        where merchant_id = (select merchant_id from apps where id = ${appId})))
      and r.id >= first_id_at(now() - interval '10 minutes') and r.status = 'pending'
      and r.last_valid_block_height >= ${blockHeight}
      and not exists (select from offers o
        where o.id = r.offer_id and o.signed_at is not null)`;
  return row;
}

export async function insertRefund(
  sql: Queryable,
  refund: Pick<RefundRow, 'appId' | 'transactionId' | 'subscriptionId' | 'amount' | 'reference'> &
    TransferLifetime & { offerId: string },
): Promise<RefundRow> {
  const { appId, transactionId, subscriptionId, amount, reference, offerId } = refund;
  const { blockhash, lastValidBlockHeight, blockhashSlot } = refund;
  const [row] = await sql<RefundRow[]>`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference, blockhash,
      last_valid_block_height, blockhash_slot, offer_id)
    values (${appId}, ${transactionId}, ${subscriptionId}, ${amount}, ${reference}, ${blockhash},
      ${lastValidBlockHeight}, ${blockhashSlot}, ${offerId})
    returning ${columns(sql)}`;
  if (row === undefined) throw new Error('a refund was not stored');
  return row;
}

/** Lists the refunds of a payment, newest first. */
export function listRefunds(sql: Queryable, paymentId: string, page: Page): Promise<RefundRow[]> {
  const key = { column: 'payment_id', value: sql`${paymentId}::uuid` };
  return sql<RefundRow[]>`select ${columns(sql)} from refunds where ${pageOf(sql, key, page)}`;
}

/** The time span applies to createdAt of the refund. */
export interface RefundFilters extends Span, Whose {
  status: readonly string[] | null;
  subscriptionId: string | null;
}

/**
 * Lists an app's refunds, newest first. With a subscriptionId or a customer, the query reads the
 * index by subscription; otherwise it reads the index by app.
 */
export function listRefundsOfApp(
  sql: Queryable,
  appId: string,
  { status, subscriptionId, subscriberWallet, externalId, ...span }: RefundFilters,
  page: Page,
): Promise<RefundRow[]> {
  const within = (key: Key) =>
    sql`select id, app_id, payment_id, subscription_id, amount, reference, status, tx_signature,
        occurred_at, excess, created_at
      from refunds where ${pageOf(sql, key, { ...page, ...span }, among(sql, 'status', status))}`;
  const ofOne = (value: Key['value']) => within({ column: 'subscription_id', value });
  if (subscriberWallet === null && externalId === null) {
    const found =
      subscriptionId === null
        ? within({ column: 'app_id', value: sql`${appId}::uuid` })
        : ofOne(sql`(select id from subscriptions where id = ${subscriptionId}
            and app_id = ${appId})`);
    return sql<RefundRow[]>`select ${columns(sql)} from (${found}) as found order by id desc`;
  }
  const whose = { subscriberWallet, externalId };
  const only = subscriptionId === null ? sql`` : sql`where theirs.id = ${subscriptionId}`;
  return sql<RefundRow[]>`
    select ${columns(sql)} from (
      select each.* from (${subscriptionsOf(sql, sql`array[${appId}::uuid]`, whose)}) as theirs
        cross join lateral (${ofOne(sql`theirs.id`)}) as each ${only}
      order by each.id desc limit ${page.limit}
    ) as found order by id desc`;
}

/** A refund with the token and the two wallets of its transfer. */
interface RefundParties {
  amount: bigint;
  reference: string;
  mint: string;
  merchantWallet: string;
  subscriberWallet: string;
}

/** Finds the refund whose transfer is offered by this offer. */
export async function findRefundOfOffer(
  sql: Queryable,
  offerId: string,
): Promise<(RefundParties & Pick<RefundRow, 'status' | 'txSignature'>) | undefined> {
  const [row] = await sql<(RefundParties & Pick<RefundRow, 'status' | 'txSignature'>)[]>`
    select r.amount, r.reference, r.status, r.tx_signature, p.mint, p.owner as merchant_wallet,
      s.subscriber_wallet
    from offers o join subscriptions s on s.subscription_pda = o.subscription_pda
      join refunds r on r.subscription_id = s.id and r.offer_id = o.id
      join plans p on p.id = s.plan_id
    where o.id = ${offerId}`;
  return row;
}

/** A refund that a keeper polls for. */
export interface AwaitedRefund extends RefundParties {
  id: string;
  /** True when the refund is older than five minutes. By then its blockhash has expired. */
  isOverdue: boolean;
  /**
   * Expired and succeeded refunds are polled too. The transfer of an expired refund may be found
   * later, and the transfer of a succeeded refund may land again.
   */
  status: RefundRow['status'];
  /** The transfers that are recorded. */
  recorded: string[];
  lifetime: TransferLifetime;
}

/**
 * Returns refunds that are due for a poll, and schedules their next poll. Merchants take turns,
 * each with the refund that has been due for the longest time. The delay is half the refund's age,
 * but at least 3 s. A pending refund is polled at any age, because it stays pending while the
 * history of its transfer cannot be read. Any other refund is polled until it is one day old, or
 * until endSearch().
 */
export async function takeAwaitedRefunds(sql: Queryable, limit: number): Promise<AwaitedRefund[]> {
  const rows = await sql<(Omit<AwaitedRefund, 'lifetime'> & TransferLifetime)[]>`
    with due as (
      select id from refunds where id = any(array(
          select id from (
            select r.id, r.look_at, row_number() over (partition by a.merchant_id
              order by r.look_at, r.id) as turn
            from refunds r join apps a on a.id = r.app_id where r.look_at <= now()
          ) as turns order by turn, look_at, id limit ${limit}))
        and look_at <= now() for update skip locked
    ), taken as (
      update refunds r set
        look_at = case when r.status = 'pending' or r.created_at > now() - interval '1 day'
          then now() + greatest(interval '3 seconds', (now() - r.created_at) / 2) end
      from due where r.id = due.id
      returning r.id, r.amount, r.reference, r.subscription_id, r.blockhash,
        r.last_valid_block_height, r.blockhash_slot, r.status, r.tx_signature,
        r.created_at < now() - interval '5 minutes' as is_overdue
    )
    select t.id, t.amount, t.reference, t.is_overdue, t.status, t.blockhash,
      t.last_valid_block_height, t.blockhash_slot, p.mint,
      p.owner as merchant_wallet, s.subscriber_wallet,
      array_remove(t.tx_signature || array(select tx_signature from refunds where repeats = t.id),
        null) as recorded
    from taken t join subscriptions s on s.id = t.subscription_id join plans p on p.id = s.plan_id`;
  return rows.map(({ blockhash, lastValidBlockHeight, blockhashSlot, ...row }) => ({
    ...row,
    lifetime: { blockhash, lastValidBlockHeight, blockhashSlot },
  }));
}

/** Returns for how many seconds the oldest refund has been due for a poll; 0 if none is. */
export async function readOldestRefund(sql: Queryable): Promise<number> {
  const [row] = await sql<{ seconds: number }[]>`
    select ${secondsSince(sql, sql`min(look_at)`)} as seconds from refunds where look_at <= now()`;
  return row?.seconds ?? 0;
}

/** Expires a refund whose transfer is not on chain. Its amount can be refunded again. */
export async function expireRefund(sql: Queryable, id: string): Promise<void> {
  await sql`update refunds set status = 'expired' where id = ${id} and status = 'pending'`;
}

/** Ends the polls for a refund whose transfer is recorded and cannot land again. */
export async function endSearch(sql: Queryable, id: string): Promise<void> {
  await sql`update refunds set look_at = null where id = ${id} and status = 'succeeded'`;
}

export interface RecordedRefund {
  id: string;
  transactionId: string;
  subscriptionId: string;
  amount: bigint;
  excess: bigint;
}

interface FinalTransfer {
  txSignature: string;
  /** Block time of the transfer. */
  occurredAt: Date;
}

/** Locks the subscription and the payment of a refund until the transaction ends. */
export async function lockRefunded(sql: Transaction, id: string): Promise<void> {
  const [refund] = await sql<{ paymentId: string }[]>`
    select r.payment_id from refunds r join subscriptions o on o.id = r.subscription_id
      join subscriptions s on s.subscription_pda = o.subscription_pda
    where r.id = ${id} order by s.id desc for no key update of s`;
  if (refund !== undefined) await lockPaid(sql, refund.paymentId);
}

/**
 * Records the finalized transfer of a refund. The amount beyond the rest of the payment is stored
 * as `excess` and not added to the payment's amount_refunded. Returns undefined when the refund is
 * already recorded. Polling continues, because the wallet may have signed the transfer twice.
 */
export async function recordRefund(
  sql: Transaction,
  id: string,
  { txSignature, occurredAt }: FinalTransfer,
): Promise<RecordedRefund | undefined> {
  const [row] = await sql<RecordedRefund[]>`
    with open as (
      select r.id, r.payment_id, r.amount from refunds r where r.id = ${id}
        and r.status <> 'succeeded' for update
    ), paid as (
      select p.id, least(open.amount, greatest(0,
        ${restOf(sql)})) as fits
      from open join payments p on p.id = open.payment_id for no key update of p
    ), raised as (
      update payments p set amount_refunded = p.amount_refunded + paid.fits from paid
      where p.id = paid.id and paid.fits > 0
    )
    update refunds r set status = 'succeeded', tx_signature = ${txSignature},
      occurred_at = ${occurredAt}, recorded_at = now(), excess = r.amount - paid.fits
    from paid where r.id = ${id}
    returning r.id, r.payment_id as transaction_id, r.subscription_id, r.amount, r.excess`;
  return row;
}

/**
 * Adds a refund for a further finalized transfer of the succeeded refund `id`. The amount beyond
 * the rest of the payment is stored as `excess`, as in recordRefund(). Returns undefined when this
 * transfer is already recorded.
 */
export async function recordRepeat(
  sql: Transaction,
  id: string,
  { txSignature, occurredAt }: FinalTransfer,
): Promise<RecordedRefund | undefined> {
  const [row] = await sql<RecordedRefund[]>`
    with paid as (
      select p.id, least(r.amount, greatest(0,
        ${restOf(sql)})) as fits
      from refunds r join payments p on p.id = r.payment_id
      where r.id = ${id} and r.status = 'succeeded' and r.tx_signature <> ${txSignature}
      for no key update of p
    ), added as (
      insert into refunds (app_id, payment_id, subscription_id, amount, reference, status,
        tx_signature, occurred_at, excess, look_at, repeats)
      select r.app_id, r.payment_id, r.subscription_id, r.amount, r.reference, 'succeeded',
        ${txSignature}, ${occurredAt}, r.amount - paid.fits, null, r.id
      from paid join refunds r on r.id = ${id}
      on conflict (repeats, tx_signature) where repeats is not null do nothing
      returning id, payment_id, subscription_id, amount, excess
    ), raised as (
      update payments p set amount_refunded = p.amount_refunded + added.amount - added.excess
      from added where p.id = added.payment_id and added.amount > added.excess
    )
    select id, payment_id as transaction_id, subscription_id, amount, excess from added`;
  return row;
}
