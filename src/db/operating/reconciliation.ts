// Statements for `billing reconcile`: reading the recorded payments to compare with the chain, and
// finding the registration of a missing payment.
import bs58 from 'bs58';
import { rightlySpent } from '../invoices/given-back.ts';
import type { PaymentRow } from '../money/payments.ts';
import type { Queryable } from '../postgres/connect.ts';
import { recordset } from '../postgres/recordset.ts';
import { paidBy, bytesOf, hexOf } from '../postgres/signatures.ts';
import { stoppedAt } from '../subscriptions/account-registrations.ts';

type Fields =
  | 'occurredAt'
  | 'subscriptionId'
  | 'subscriptionPda'
  | 'source'
  | 'periodStart'
  | 'periodEnd'
  | 'amountGross'
  | 'platformFee'
  | 'amountNet';

/** A succeeded payment, with its merchant's wallet. */
export interface RecordedPayment extends Pick<PaymentRow, Fields> {
  id: string;
  appId: string;
  txSignature: string;
  merchantWallet: string;
}

/**
 * Lists succeeded payments with occurred_at in [since, until), in pages by id. Leaves out payments
 * that a credit paid in full, because such payments are not on chain.
 */
export function listRecorded(
  sql: Queryable,
  { since, until, after, limit }: { since: Date; until: Date; after: string | null; limit: number },
): Promise<RecordedPayment[]> {
  return sql<RecordedPayment[]>`
    select p.id, plans.app_id, p.occurred_at, p.subscription_id, p.subscription_pda, p.source,
      p.period_start, p.period_end, p.amount_gross, p.platform_fee, p.amount_net,
      p.tx_signature, plans.owner as merchant_wallet
    from payments p join plans on plans.id = p.plan_id
    where p.status = 'succeeded' and p.source <> 'credit' and p.occurred_at >= ${since} and p.occurred_at < ${until}
      and (${after}::uuid is null or p.id > ${after}::uuid)
    order by p.id limit ${limit}`;
}

/** A refund whose transfer is recorded, with the fields to compare with the transfer on chain. */
export interface RecordedRefundRow {
  id: string;
  appId: string;
  subscriptionPda: string;
  amount: bigint;
  /** The part of the transfer beyond what was left of the payment. */
  excess: bigint;
  reference: string;
  txSignature: string;
  occurredAt: Date;
  mint: string;
  merchantWallet: string;
  subscriberWallet: string;
}

/** Lists succeeded refunds with occurred_at in [since, until), in pages by id. */
export function listRecordedRefunds(
  sql: Queryable,
  { since, until, after, limit }: { since: Date; until: Date; after: string | null; limit: number },
): Promise<RecordedRefundRow[]> {
  return sql<RecordedRefundRow[]>`
    select r.id, plans.app_id, p.subscription_pda, r.amount, r.excess, r.reference,
      r.tx_signature, r.occurred_at, plans.mint, plans.owner as merchant_wallet, p.subscriber_wallet
    from refunds r join payments p on p.id = r.payment_id join plans on plans.id = p.plan_id
    where r.status = 'succeeded' and r.occurred_at >= ${since} and r.occurred_at < ${until}
      and (${after}::uuid is null or r.id > ${after}::uuid)
    order by r.id limit ${limit}`;
}

/**
 * A payment whose amount_refunded differs from the sum of its refunds without their excess. Amounts
 * are base units.
 */
interface RefundFault {
  id: string;
  subscriptionPda: string;
  txSignature: string | null;
  amountRefunded: bigint;
  refunded: bigint;
}

/**
 * Lists up to 100 payments whose amount_refunded differs from the sum of their succeeded refunds
 * without their excess. Reads the payments that were made or refunded in [since, until).
 */
export function listRefundFaults(
  sql: Queryable,
  { since, until }: { since: Date; until: Date },
): Promise<RefundFault[]> {
  return sql<RefundFault[]>`
    with touched as (
      select id from payments where amount_refunded > 0 and occurred_at >= ${since}
        and occurred_at < ${until}
      union select payment_id from refunds where status = 'succeeded' and occurred_at >= ${since}
        and occurred_at < ${until}
    ), sums as (
      select p.id, p.subscription_pda, p.tx_signature, p.amount_refunded, coalesce((
        select sum(amount - excess) from refunds where payment_id = p.id and status = 'succeeded'
      ), 0)::int8 as refunded
      from touched join payments p using (id)
    )
    select id, subscription_pda, tx_signature, amount_refunded, refunded from sums
    where amount_refunded <> refunded order by id limit 100`;
}

/**
 * Lists the treasuries of all plans, and the installation's treasuries including its backups. Each
 * of these treasuries may have received fees.
 */
export async function listTreasuries(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ treasury: string }[]>`
    select treasury from plans union select unnest(treasuries) from installation`;
  return rows.map(({ treasury }) => treasury);
}

/** Returns the given addresses that belong to plans. */
export async function findPlans(sql: Queryable, planPdas: readonly string[]): Promise<Set<string>> {
  const rows = await sql<{ planPda: string }[]>`
    select plan_pda from plans where plan_pda = any(${[...planPdas]})`;
  return new Set(rows.map(({ planPda }) => planPda));
}

/** Lists the addresses of all plans that were seen on chain, ended ones included. */
export async function listPublishedPlans(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ planPda: string }[]>`
    select plan_pda from plans where chain_created_at is not null`;
  return rows.map(({ planPda }) => planPda);
}

/** Returns the platform fee of merchants without a fee of their own, in basis points. */
export async function readFeeBps(sql: Queryable): Promise<number> {
  const [row] = await sql<{ feeBps: number }[]>`select fee_bps from installation`;
  return row?.feeBps ?? 0;
}

/** Returns the given addresses that have or have had a registration. */
export async function findSubscribed(
  sql: Queryable,
  subscriptionPdas: readonly string[],
): Promise<Set<string>> {
  const rows = await sql<{ subscriptionPda: string }[]>`
    select distinct subscription_pda from subscriptions
    where subscription_pda = any(${[...subscriptionPdas]}::text[])`;
  return new Set(rows.map(({ subscriptionPda }) => subscriptionPda));
}

/** A customer whose credit does not add up. */
interface CreditFault {
  customerId: string;
  /** What differs, in base units. */
  detail: string;
}

/**
 * Lists up to 100 differences: balances that are not the sum of their movements, unused parts of
 * payments that became another credit or none, and invoices that spent another credit than they
 * apply.
 */
export function listCreditFaults(sql: Queryable): Promise<CreditFault[]> {
  return sql<CreditFault[]>`
    with moved as (
      select customer_id, sum(amount) as sum from credits group by customer_id
    ), spent as (
      select invoice_id, min(customer_id::text)::uuid as customer_id, -sum(amount) as sum
      from credits where invoice_id is not null group by invoice_id
    ), parts as (
      select p.id, s.customer_id, n.amount
      from credit_notes n join payments p on p.id = n.payment_id
        join subscriptions s on s.id = p.subscription_id
      where n.reason = 'change_of_plan' and n.amount > 0
    )
    select customer_id, format('the balance is %s, the movements make %s', b.balance, m.sum)
      as detail
    from credit_balances b full join moved m using (customer_id)
    where b.balance is distinct from m.sum
    union all
    select p.customer_id, format('the unused part of payment %s is %s, its credit %s', p.id,
      p.amount, coalesce(c.amount, 0))
    from parts p left join credits c on c.payment_id = p.id and c.reason = 'change_of_plan'
    where p.amount is distinct from c.amount
    union all
    select t.customer_id, format('invoice %s applies %s of credit and has spent %s', i.id,
      i.credit_applied, t.sum)
    from spent t join invoices i on i.id = t.invoice_id
    where t.sum <> ${rightlySpent(sql)} and i.subscription_id is not null
    order by 1, 2 limit 100`;
}

/** Result of the last finished `billing reconcile` that ran without --since and --until. */
export interface LastReconciliation {
  recorded: number;
  onChain: number;
  /** Differences left after repairs. Unreadable transactions are counted separately. */
  differences: number;
  unreadable: number;
}

/** Stores the result of the last comparison. Keepers export the result as metrics. */
export async function storeReconciliation(sql: Queryable, last: LastReconciliation): Promise<void> {
  const { recorded, onChain, differences, unreadable } = last;
  await sql`
    insert into last_reconciliation (finished_at, recorded, on_chain, differences, unreadable)
    values (now(), ${recorded}, ${onChain}, ${differences}, ${unreadable})
    on conflict (single) do update set finished_at = excluded.finished_at,
      recorded = excluded.recorded, on_chain = excluded.on_chain,
      differences = excluded.differences, unreadable = excluded.unreadable`;
}

/**
 * Returns the seconds since the last comparison, and the differences that it left. Before the first
 * comparison, returns the seconds since the last change of the installation row, and 0 differences.
 */
export async function readLastReconciliation(
  sql: Queryable,
): Promise<{ ageSeconds: number; differences: number } | undefined> {
  const [row] = await sql<{ ageSeconds: number; differences: number }[]>`
    select extract(epoch from now() - coalesce(r.finished_at, i.updated_at))::float8 as age_seconds,
      coalesce(r.differences, 0) as differences
    from installation i left join last_reconciliation r on true`;
  return row;
}

/** Finds which of the given transactions have a succeeded payment or an open attempt. */
export async function listKnown(
  sql: Queryable,
  signatures: readonly string[],
): Promise<{ signature: string; subscriptionPda: string; open: boolean }[]> {
  const given = signatures.map((signature) => ({ signature, bytes: bytesOf(signature) }));
  return sql<{ signature: string; subscriptionPda: string; open: boolean }[]>`
    with given as materialized (
      ${recordset(sql, given, { signature: 'text', bytes: 'bytea' })}
    )
    select p.tx_signature as signature, p.subscription_pda, false as open
    from payments p where ${paidBy(sql, signatures)} and p.status = 'succeeded'
    union all
    select given.signature, a.subscription_pda, true
    from given join transactions t on t.signature = given.bytes
      join payment_attempts a on a.transaction_id = t.id
    where a.state = 'open'`;
}

/** An attempt whose result was not found in the transaction history. */
export interface UnexplainedAttempt {
  id: string;
  subscriptionId: string;
  signature: string;
  subscriptionPda: string;
  planPda: string;
  amountGross: bigint;
  periodStart: Date;
  createdAt: Date;
  /** Slot of the answer that gave its blockhash: it cannot have landed before. */
  blockhashSlot: bigint;
}

/** Lists attempts that became `unexplained` in [since, until). */
export async function listUnexplained(
  sql: Queryable,
  { since, until }: { since: Date; until: Date },
): Promise<UnexplainedAttempt[]> {
  const rows = await sql<(Omit<UnexplainedAttempt, 'signature'> & { signature: Buffer })[]>`
    select a.id, a.subscription_id, t.signature, a.subscription_pda, p.plan_pda, a.amount_gross,
      a.period_start, a.created_at, t.blockhash_slot
    from payment_attempts a join transactions t on t.id = a.transaction_id
      join subscriptions s on s.id = a.subscription_id join plans p on p.id = s.plan_id
    where a.state = 'unexplained' and a.resolved_at >= ${since} and a.resolved_at < ${until}
    order by a.resolved_at, a.id`;
  return rows.map((row) => ({ ...row, signature: bs58.encode(row.signature) }));
}

/** The registration to which a pulled payment belongs. */
export interface PullOwner {
  id: string;
  planId: string;
  subscriberWallet: string;
  /** The database's time at which the registration ended or was replaced; null before. */
  stoppedAt: Date | null;
  /**
   * Time at which the registration's attempt of the payment was committed; null without an attempt.
   */
  committedAt: Date | null;
}

/**
 * Finds the registration to which the transaction belongs: the registration whose payment attempt
 * sent the transaction, otherwise the newest registration of the address. Returns undefined when
 * the address has no registration.
 */
export async function findOwner(
  sql: Queryable,
  subscriptionPda: string,
  signature: string,
): Promise<PullOwner | undefined> {
  const [row] = await sql<PullOwner[]>`
    select s.id, s.plan_id, s.subscriber_wallet, ${stoppedAt(sql)} as stopped_at,
      attempt.committed_at
    from subscriptions s cross join lateral (
      select min(a.created_at) as committed_at
      from transactions t join payment_attempts a on a.transaction_id = t.id
      where t.signature = decode(${hexOf(signature)}, 'hex') and a.subscription_id = s.id
    ) as attempt
    where s.subscription_pda = ${subscriptionPda}
    order by attempt.committed_at is not null desc, s.id desc limit 1`;
  return row;
}

/**
 * Finds the newest registration of the account from which another puller pulled in the period that
 * starts at `periodStart`. Returns undefined when the account was registered later or never.
 */
export async function findPulledFrom(
  sql: Queryable,
  subscriptionPda: string,
  periodStart: Date,
): Promise<PullOwner | undefined> {
  const [row] = await sql<PullOwner[]>`
    select id, plan_id, subscriber_wallet, null as stopped_at, null as committed_at
    from subscriptions where subscription_pda = ${subscriptionPda}
      and coalesce(period_anchor, chain_period_start) <= ${periodStart}
      and extract(epoch from ${periodStart}::timestamptz
        - coalesce(period_anchor, chain_period_start))::int8 % (period_hours * 3600) = 0
    order by id desc limit 1`;
  return row;
}
