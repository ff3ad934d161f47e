// Payment attempts and the transactions that contain them. An attempt and its transaction are
// committed before the transaction is first sent.
import bs58 from 'bs58';
import { AddressTaken, type Invoice, readInvoices } from '../invoices/invoices.ts';
import type { Queryable } from '../postgres/connect.ts';
import { recordset } from '../postgres/recordset.ts';
import { bytesOf, hexOf } from '../postgres/signatures.ts';

export interface AttemptRow {
  id: string;
  subscriptionId: string;
  /** The invoice that it pays. */
  invoice: Invoice;
  /** Index of the payment in its transaction, from 0. */
  position: number;
  /** Number of payments in the transaction. */
  payments: number;
  periodStart: Date;
  signature: string;
  transaction: Buffer;
  lastValidBlockHeight: bigint;
  /** Slot of the RPC response that returned the blockhash; 0 when the slot is unknown. */
  blockhashSlot: bigint;
  amountGross: bigint;
  platformFee: bigint;
  amountNet: bigint;
  /** The fee that the merchant receives and owes, because no treasury can receive it. */
  feeOwed: bigint;
}

/**
 * Stores attempts with their signed transactions. Returns the attempt ids by subscription id.
 * Throws AddressTaken when an address already has an open attempt (unique index). The caller must
 * then roll back, because a transaction is stored with all of its payments or not at all.
 */
export async function insertAttempts(
  sql: Queryable,
  attempts: readonly (Omit<AttemptRow, 'id' | 'invoice'> & {
    invoiceId: string | undefined;
    subscriptionPda: string;
    claimId: string;
  })[],
): Promise<Map<string, string>> {
  const transactions = new Map(attempts.map((one) => [one.signature, one]));
  const signed = [...transactions.values()].map((one) => ({
    ...one,
    signature: bytesOf(one.signature),
  }));
  const stored = await sql<{ id: string; subscriptionId: string }[]>`
    with committed as (
      insert into transactions (signature, bytes, last_valid_block_height, blockhash_slot)
      select * from (${recordset(sql, signed, {
        ...{ signature: 'bytea', transaction: 'bytea', lastValidBlockHeight: 'int8' },
        blockhashSlot: 'int8',
      })}) as given
      returning id, signature
    )
    insert into payment_attempts (subscription_id, invoice_id, subscription_pda, transaction_id,
      position, period_start, claim_id, amount_gross, platform_fee,
      amount_net, fee_owed)
    select v.subscription_id, v.invoice_id, v.subscription_pda, committed.id, v.position, v.period_start,
      v.claim_id, v.amount_gross, v.platform_fee,
      v.amount_net, v.fee_owed
    from (${recordset(
      sql,
      attempts.map((one) => ({ ...one, signature: bytesOf(one.signature) })),
      {
        ...{ subscriptionId: 'uuid', invoiceId: 'uuid', subscriptionPda: 'text', position: 'int' },
        ...{ periodStart: 'timestamptz', claimId: 'uuid', signature: 'bytea' },
        ...{ amountGross: 'int8', platformFee: 'int8', amountNet: 'int8', feeOwed: 'int8' },
      },
    )}) as v
    join committed on committed.signature = v.signature
    on conflict (subscription_pda) where state = 'open' do nothing
    returning id, subscription_id`;
  const ids = new Map(stored.map(({ id, subscriptionId }) => [subscriptionId, id]));
  const missing = attempts.filter(({ subscriptionId }) => !ids.has(subscriptionId));
  if (missing.length > 0) throw new AddressTaken(missing.map((one) => one.subscriptionId));
  return ids;
}

/** Returns the given transactions (Base58 signatures) in which the address has an attempt. */
export async function readAttempted(
  sql: Queryable,
  subscriptionPda: string,
  signatures: readonly string[],
): Promise<Set<string>> {
  if (signatures.length === 0) return new Set();
  const rows = await sql<{ signature: Buffer }[]>`
    select t.signature
    from transactions t join payment_attempts a on a.transaction_id = t.id
    where t.signature in (select decode(hex, 'hex') from unnest(${signatures.map(hexOf)}::text[]) as hex)
      and a.subscription_pda = ${subscriptionPda}`;
  return new Set(rows.map(({ signature }) => bs58.encode(signature)));
}

/** Reads the open attempts of these subscriptions. A subscription has at most one open attempt. */
export async function readOpenAttempts(
  sql: Queryable,
  subscriptionIds: readonly string[],
): Promise<AttemptRow[]> {
  const rows = await sql<
    (Omit<AttemptRow, 'signature' | 'invoice'> & { signature: Buffer; invoiceId: string })[]
  >`
    select a.id, a.subscription_id, a.invoice_id, a.position, a.period_start, t.signature, t.bytes as transaction,
      t.last_valid_block_height,
      t.blockhash_slot, a.amount_gross, a.platform_fee, a.amount_net, a.fee_owed,
        (select count(*)::int from payment_attempts c where c.transaction_id = t.id) as payments
    from ${openOf(sql, subscriptionIds)} join transactions t on t.id = a.transaction_id`;
  const invoiceOf = await readInvoices(
    sql,
    rows.map(({ invoiceId }) => invoiceId),
  );
  return rows.map(({ invoiceId, signature, ...row }) => ({
    ...{ ...row, invoice: invoiceOf(invoiceId), signature: bs58.encode(signature) },
  }));
}

/** Returns the given attempts whose transaction has landed with another payment. */
export async function readLandedTogether(
  sql: Queryable,
  attemptIds: readonly string[],
): Promise<ReadonlySet<string>> {
  if (attemptIds.length === 0) return new Set();
  const rows = await sql<{ id: string }[]>`
    select a.id from payment_attempts a where a.id = any(${attemptIds}::uuid[]) and exists (
      select from payment_attempts other
      where other.transaction_id = a.transaction_id and other.state = 'landed'
    )`;
  return new Set(rows.map(({ id }) => id));
}

/** The amount and period of an open attempt. */
export type UnderWay = Pick<AttemptRow, 'subscriptionId' | 'periodStart' | 'amountGross'>;

export function readUnderWay(sql: Queryable, subscriptionIds: string[]): Promise<UnderWay[]> {
  return sql<UnderWay[]>`
    select a.subscription_id, a.period_start, a.amount_gross from ${openOf(sql, subscriptionIds)}`;
}

/**
 * FROM clause for the open attempts `a` of these subscriptions. Open attempts are joined by
 * address, because only the address is indexed for open attempts.
 */
function openOf(sql: Queryable, subscriptionIds: readonly string[]) {
  return sql`subscriptions s join payment_attempts a
    on s.id = any(${subscriptionIds}::uuid[]) and a.subscription_pda = s.subscription_pda
      and a.state = 'open' and a.subscription_id = s.id`;
}

export interface Resolution {
  id: string;
  state: 'landed' | 'failed' | 'expired' | 'unexplained';
  error: string | null;
}

/**
 * Sets the final states of attempts. The caller holds live claims on the subscriptions and has
 * locked their rows. When a transaction has no open attempt left, this function also sets the
 * transaction's state and deletes its bytes.
 */
export async function resolveAttempts(
  sql: Queryable,
  resolutions: readonly Resolution[],
): Promise<void> {
  const ids = resolutions.map(({ id }) => id);
  // Two keepers may resolve attempts of one transaction at the same time. After waiting for this
  // lock, the second keeper sees the states that the first keeper wrote.
  await sql`
    select id from transactions where id in (select transaction_id from payment_attempts
      where id = any(${ids}::uuid[]))
    order by id for no key update`;
  await sql`
    with given as materialized (
      select * from (${recordset(sql, resolutions, { id: 'uuid', state: 'text', error: 'text' })}) as v
    ), ended as (
      update payment_attempts a set state = given.state, error = given.error, resolved_at = now()
      from given where a.id = given.id and a.state = 'open'
      returning a.transaction_id, a.state
    )
    update transactions t set bytes = null, state = (
      select case ended.state when 'unexplained' then 'expired' else ended.state end from ended
        where ended.transaction_id = t.id limit 1
    )
    where t.id = any(array(select transaction_id from ended)) and not exists (
      select from payment_attempts a where a.transaction_id = t.id and a.state = 'open'
        and a.id <> all(${ids}::uuid[])
    )`;
}

/** Returns the number of open attempts and the age of the oldest open attempt. */
export async function measureOpenAttempts(
  sql: Queryable,
): Promise<{ count: number; oldestSeconds: number }> {
  const [row] = await sql<{ count: number; oldestSeconds: number }[]>`
    select count(*)::int as count, coalesce(extract(epoch from now() - min(created_at)), 0)::float8
      as oldest_seconds
    from payment_attempts where state = 'open'`;
  return row ?? { count: 0, oldestSeconds: 0 };
}
