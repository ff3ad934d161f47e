// Receipts of payments: the key and the base URL for links to receipts, the content of a receipt,
// and the details that buyers enter on receipts.
import type { Queryable } from '../postgres/connect.ts';

export interface ReceiptLinksRow {
  key: Uint8Array;
  /** PUBLIC_URL of the API (`serve`); null before the API has started for the first time. */
  publicUrl: string | null;
}

export async function readReceiptLinks(sql: Queryable): Promise<ReceiptLinksRow> {
  const [row] = await sql<ReceiptLinksRow[]>`select key, public_url from receipt_links`;
  if (row === undefined) throw new Error('receipt_links is empty: its row was deleted');
  return row;
}

/** Stores PUBLIC_URL. The receipt URLs in events begin with it. */
export async function recordPublicUrl(sql: Queryable, publicUrl: string): Promise<void> {
  await sql`
    update receipt_links set public_url = ${publicUrl}
    where public_url is distinct from ${publicUrl}`;
}

/** Details that a buyer entered on a receipt. A null field is blank. */
export interface BuyerDetails {
  name: string | null;
  address: string | null;
  taxId: string | null;
  note: string | null;
}

export interface ReceiptRow {
  id: string;
  subscriptionId: string;
  merchantName: string | null;
  legalName: string | null;
  legalAddress: string | null;
  taxId: string | null;
  merchantWallet: string;
  keepBuyerDetails: boolean;
  appName: string;
  supportEmail: string | null;
  planName: string;
  subscriberWallet: string;
  amountGross: bigint;
  creditSpent: bigint;
  amountRefunded: bigint;
  txSignature: string | null;
  /** Start of the time that the payment covers. */
  coversFrom: Date;
  periodEnd: Date;
  occurredAt: Date;
  /** The buyer's details that apply to this payment; null when none are stored. */
  details: BuyerDetails | null;
}

/**
 * Finds the content of the receipt of a succeeded payment. `reference` is the signature of the
 * payment's transaction. For a payment without a transaction, `reference` is the start of the
 * payment's period in Unix seconds.
 */
export async function findReceipt(
  sql: Queryable,
  subscriptionId: string,
  reference: string,
): Promise<ReceiptRow | undefined> {
  const seconds = /^\d{1,11}$/.test(reference) ? Number(reference) : null;
  const [row] = await sql<ReceiptRow[]>`
    select p.id, p.subscription_id, m.name as merchant_name, m.legal_name, m.legal_address,
      m.tax_id, m.wallet as merchant_wallet, m.keep_buyer_details, a.name as app_name,
      a.support_email, plans.name as plan_name, p.subscriber_wallet, p.amount_gross,
      coalesce(i.credit_applied, 0) as credit_spent, p.amount_refunded, p.tx_signature,
      coalesce(i.covers_from, p.period_start) as covers_from, p.period_end, p.occurred_at,
      (select jsonb_build_object('name', d.name, 'address', d.address, 'taxId', d.tax_id,
          'note', d.note)
        from receipt_details d
        where d.subscription_id = p.subscription_id and d.since <= p.occurred_at
          and m.keep_buyer_details
        order by d.since desc limit 1) as details
    from payments p join plans on plans.id = p.plan_id join apps a on a.id = p.app_id
      join merchants m on m.id = a.merchant_id left join invoices i on i.id = p.invoice_id
    where p.subscription_id = ${subscriptionId} and p.status = 'succeeded'
      and (p.tx_signature = ${reference}
        or (p.tx_signature is null and p.period_start = to_timestamp(${seconds}::float8)))`;
  return row;
}

/** A finalized refund of a payment. */
export interface ReceiptRefund {
  amount: bigint;
  txSignature: string;
  occurredAt: Date;
}

/** Lists the finalized refunds of a payment, oldest first. */
export function listReceiptRefunds(sql: Queryable, paymentId: string): Promise<ReceiptRefund[]> {
  return sql<ReceiptRefund[]>`
    select amount, tx_signature, occurred_at from refunds
    where payment_id = ${paymentId} and status = 'succeeded' order by id`;
}

/**
 * Stores the details that a buyer entered on a payment's receipt. The details also apply to later
 * payments of the subscription. Returns false when the merchant does not keep buyers' details.
 * Locks the merchant, so that keep_buyer_details cannot change before the transaction ends.
 */
export async function storeBuyerDetails(
  sql: Queryable,
  paymentId: string,
  { name, address, taxId, note }: BuyerDetails,
): Promise<boolean> {
  const stored = await sql`
    with keeping as (
      select p.subscription_id, p.occurred_at
      from payments p join apps a on a.id = p.app_id join merchants m on m.id = a.merchant_id
      where p.id = ${paymentId} and m.keep_buyer_details for share of m
    )
    insert into receipt_details (subscription_id, since, name, address, tax_id, note)
    select subscription_id, occurred_at, ${name}::text, ${address}::text, ${taxId}::text,
      ${note}::text
    from keeping
    on conflict (subscription_id, since) do update set name = excluded.name,
      address = excluded.address, tax_id = excluded.tax_id, note = excluded.note,
      typed_at = now()`;
  return stored.count > 0;
}

/** Deletes the details that buyers of a merchant entered. Returns the number of deleted rows. */
export async function deleteBuyerDetails(sql: Queryable, merchantId: string): Promise<number> {
  const deleted = await sql`
    delete from receipt_details d using subscriptions s, apps a
    where s.id = d.subscription_id and a.id = s.app_id and a.merchant_id = ${merchantId}`;
  return deleted.count;
}
