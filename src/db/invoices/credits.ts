// Credit of customers: movements, which nobody changes, and their sum, which a trigger keeps.
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { recordset } from '../postgres/recordset.ts';
import { paidBy } from '../postgres/signatures.ts';

/** SQL for the credit (base units) of the customer of `subscriptions s`. */
export const creditOf = (sql: Queryable) => sql`
  coalesce((select b.balance from credit_balances b where b.customer_id = s.customer_id), 0)`;

/** Reads the credit (base units) of a subscription's customer. */
export async function readCreditOf(sql: Queryable, subscriptionId: string): Promise<bigint> {
  const [row] = await sql<{ credit: bigint }[]>`
    select ${creditOf(sql)} as credit from subscriptions s where s.id = ${subscriptionId}`;
  return row?.credit ?? 0n;
}

/**
 * Reads the credit (base units) of a customer of an app: of the one with this external id, which a
 * checkout session or the merchant has set, else of the wallet.
 */
export async function readCredit(
  sql: Queryable,
  appId: string,
  { externalId, wallet }: { externalId: string | null; wallet: string },
): Promise<bigint> {
  const key = externalId === null ? sql`c.wallet = ${wallet}` : sql`c.external_id = ${externalId}`;
  const [row] = await sql<{ balance: bigint }[]>`
    select b.balance from customers c join credit_balances b on b.customer_id = c.id
    where c.app_id = ${appId} and ${key}`;
  return row?.balance ?? 0n;
}

/**
 * Locks the balances of customers until the transaction ends. Returns them in base units, by
 * customer id, without the customers who never had credit.
 */
export async function lockBalances(
  sql: Transaction,
  customerIds: readonly string[],
): Promise<Map<string, bigint>> {
  const rows = await sql<{ customerId: string; balance: bigint }[]>`
    select customer_id, balance from lock_balances(${[...customerIds]}::uuid[])`;
  return new Map(rows.map(({ customerId, balance }) => [customerId, balance]));
}

/** SQL that joins the sum of what `invoices i` has spent and given back, at most 0. */
const withMoved = (sql: Queryable) => sql`
  cross join lateral (
    select coalesce(sum(amount), 0) as sum from credits where invoice_id = i.id
  ) as m`;

/**
 * Spends the credit of invoices that are open or paid: what they apply less what they have spent.
 * Those of sponsored changes spend it by spendForOffer(). Throws a check violation
 * (credit_is_there) if a balance is too small.
 */
export async function spendCredit(sql: Queryable, invoiceIds: readonly string[]): Promise<void> {
  await sql`
    insert into credits (customer_id, amount, reason, invoice_id, subscription_id)
    select i.customer_id, -(i.credit_applied + m.sum), 'spent', i.id, i.subscription_id
    from invoices i ${withMoved(sql)}
    where i.id = any(${[...invoiceIds]}::uuid[]) and i.state in ('open', 'paid')
      and i.offer_id is null and i.credit_applied + m.sum > 0
    order by i.customer_id, i.id`;
}

/**
 * Spends credit of the customer of `subscriptionId` for the invoice of a sponsored change of plan,
 * as far as the invoice has not spent it yet. When the change is committed, that is the customer of
 * the replaced subscription. Once it has landed, the credit that it made pays the rest.
 */
export async function spendForOffer(
  sql: Transaction,
  invoiceId: string,
  subscriptionId: string,
): Promise<void> {
  await sql`
    insert into credits (customer_id, amount, reason, invoice_id, subscription_id)
    select s.customer_id, -least(i.credit_applied + m.sum, b.balance), 'spent', i.id, s.id
    from subscriptions s cross join lateral lock_balances(array[s.customer_id]) as b
      join invoices i on i.id = ${invoiceId} ${withMoved(sql)}
    where s.id = ${subscriptionId} and least(i.credit_applied + m.sum, b.balance) > 0`;
}

/**
 * Makes the pulls of keepers with these signatures that pay no invoice a credit of the customer, in
 * full. Returns the ids of the movements.
 */
export async function creditUnmatched(
  sql: Queryable,
  signatures: readonly string[],
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    insert into credits (customer_id, amount, reason, payment_id, subscription_id)
    select s.customer_id, p.amount_gross, 'unmatched_pull', p.id, s.id
    from payments p join subscriptions s on s.id = p.subscription_id
    where ${paidBy(sql, signatures)} and p.status = 'succeeded' and p.source = 'keeper'
      and p.invoice_id is null
    order by s.customer_id, p.id
    on conflict (payment_id) where reason = 'unmatched_pull' and refund_id is null do nothing
    returning id`;
  return rows.map(({ id }) => id);
}

/**
 * Locks the credit that a pull without an invoice has become, until the transaction ends. Returns
 * the customer's balance in base units; undefined for any other payment.
 */
export async function lockUnmatched(
  sql: Transaction,
  paymentId: string,
): Promise<bigint | undefined> {
  const [row] = await sql<{ balance: bigint }[]>`
    select b.balance from (
      select customer_id from credits
      where payment_id = ${paymentId} and reason = 'unmatched_pull' and refund_id is null
    ) as c cross join lateral lock_balances(array[c.customer_id]) as b`;
  return row?.balance;
}

/**
 * Spends the rest for the invoice of a sponsored change that has landed. What the customer lacks of
 * it, because an earlier payment was refunded or took credit meanwhile, is granted: the wallet has
 * paid what it was shown.
 */
export async function spendRestForOffer(
  sql: Transaction,
  invoiceId: string,
  subscriptionId: string,
): Promise<void> {
  await sql`
    insert into credits (customer_id, amount, reason, subscription_id)
    select s.customer_id, i.credit_applied + m.sum - coalesce(b.balance, 0), 'granted', s.id
    from subscriptions s left join lateral lock_balances(array[s.customer_id]) as b on true
      join invoices i on i.id = ${invoiceId} ${withMoved(sql)}
    where s.id = ${subscriptionId} and i.credit_applied + m.sum > coalesce(b.balance, 0)`;
  await spendForOffer(sql, invoiceId, subscriptionId);
}

/** Credit that a change of plan makes of the unused part of a payment. */
export interface MadeCredit {
  paymentId: string;
  /** Base units. */
  amount: bigint;
}

/**
 * Gives the credit of a change of plan to the customer of the new subscription. Returns the ids of
 * the movements.
 */
export async function makeCredit(
  sql: Transaction,
  subscriptionId: string,
  parts: readonly MadeCredit[],
): Promise<string[]> {
  const made = parts.filter(({ amount }) => amount > 0n);
  if (made.length === 0) return [];
  const rows = await sql<{ id: string }[]>`
    insert into credits (customer_id, amount, reason, payment_id, subscription_id)
    select s.customer_id, g.amount, 'change_of_plan', g.payment_id, s.id
    from (${recordset(sql, made, { paymentId: 'uuid', amount: 'int8' })}) as g
      join subscriptions s on s.id = ${subscriptionId}
    on conflict (payment_id) where reason = 'change_of_plan' do nothing
    returning id`;
  return rows.map(({ id }) => id);
}

/**
 * Moves the whole credit of a replaced subscription's customer to that of the new one, if a change
 * of plan is made for another customer. Returns the ids of the movements.
 */
export async function moveCredit(
  sql: Transaction,
  { from, to }: { from: string; to: string },
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    with whose as (
      select o.customer_id as old, n.customer_id as new from subscriptions o
        join subscriptions n on n.id = ${to} where o.id = ${from} and o.customer_id <> n.customer_id
    ), moved as (
      select old, new, (select balance from lock_balances(array[old, new])
        where customer_id = old) as balance from whose
    )
    insert into credits (customer_id, amount, reason, subscription_id)
    select m.customer_id, m.amount, m.reason, m.subscription_id
    from moved, lateral (values (old, -balance, 'taken_back', ${from}::uuid),
        (new, balance, 'granted', ${to}::uuid)) as m (customer_id, amount, reason, subscription_id)
    where balance > 0 order by m.amount
    returning id`;
  return rows.map(({ id }) => id);
}

/** A merchant's grant (positive) or take-back (negative), in base units. */
export interface NotedCredit {
  customerId: string;
  amount: bigint;
  /** The merchant's reason. */
  note: string;
  /** Who did it: the merchant's wallet, or the prefix of the API key. */
  notedBy: string;
}

/** Stores a grant or a take-back of the merchant and returns its id. */
export async function insertNoted(
  sql: Transaction,
  { customerId, amount, note, notedBy }: NotedCredit,
): Promise<string> {
  const reason = amount > 0n ? 'granted' : 'taken_back';
  const [row] = await sql<[{ id: string }]>`
    insert into credits (customer_id, amount, reason, note, noted_by)
    values (${customerId}, ${amount}, ${reason}, ${note}, ${notedBy}) returning id`;
  return row.id;
}

/** Sums the credit (base units) of the customers to whom a wallet's subscriptions belong. */
export async function sumCreditOf(sql: Queryable, wallet: string): Promise<bigint> {
  const [row] = await sql<[{ credit: string }]>`
    select coalesce(sum(balance), 0)::text as credit from credit_balances
    where customer_id in (select customer_id from subscriptions
      where subscriber_wallet = ${wallet})`;
  return BigInt(row.credit);
}
