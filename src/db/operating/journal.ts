// Statements by which `billing reconcile` compares the journal with the chain, and mends credit.
// The repairs need the rights of the schema owner.
import { giveBack, rightlySpent } from '../invoices/given-back.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';

/** What the journal says that a transaction has moved. Base units. */
export interface BookedMoney {
  signature: string;
  /** What the merchant received (negative: refunded). */
  usdc: bigint;
  /** With the platform fee. */
  gross: bigint;
}

/** Reads what the journal says of these transactions. */
export function readBooked(sql: Queryable, signatures: readonly string[]): Promise<BookedMoney[]> {
  return sql<BookedMoney[]>`
    select tx_signature as signature,
      coalesce(sum(amount) filter (where account = 'usdc'), 0)::int8 as usdc,
      coalesce(sum(amount) filter (where account in ('usdc', 'platform_fee', 'platform_fee_owed')),
        0)::int8 as gross
    from journal
    -- The comparison of hashes is for the index one_payment_per_pull.
    where md5(tx_signature)::uuid = any(array(select md5(signature)::uuid
        from unnest(${[...signatures]}::text[]) as signature))
      and tx_signature = any(${[...signatures]}::text[])
    group by tx_signature`;
}

/**
 * Closes an unexplained attempt whose transaction never landed, and gives back the credit of its
 * invoice. Returns that credit in base units; undefined if the attempt is closed already.
 */
export async function closeUnexplained(
  sql: Transaction,
  { id, subscriptionId }: { id: string; subscriptionId: string },
): Promise<bigint | undefined> {
  await sql`select from subscriptions where id = ${subscriptionId} for no key update`;
  const [closed] = await sql<{ invoiceId: string }[]>`
    update payment_attempts set state = 'expired', error = 'no history has its transaction'
    where id = ${id} and state = 'unexplained' returning invoice_id`;
  if (closed === undefined) return undefined;
  const { invoiceId } = closed;
  // A keeper that has read the invoice reads it again.
  await sql`
    update subscription_work set notices = notices + 1 where subscription_id = ${subscriptionId}`;
  await lockBalancesOf(sql, invoiceId);
  const given = await sql<{ amount: bigint }[]>`${giveBack(sql, sql`select ${invoiceId}::uuid`)}`;
  return given.reduce((sum, { amount }) => sum + amount, 0n);
}

/** Locks the balances of the customers whose credit the invoice has moved. */
const lockBalancesOf = (sql: Transaction, invoiceId: string) => sql`
  select from lock_balances(array(
    select customer_id from credits where invoice_id = ${invoiceId}))`;

/** Lists up to 100 customers whose balance is not the sum of their movements. */
export async function listWrongBalances(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ customerId: string }[]>`
    with moved as (
      select customer_id, sum(amount) as sum from credits group by customer_id
    )
    select customer_id from credit_balances b full join moved m using (customer_id)
    where coalesce(b.balance, 0) <> coalesce(m.sum, 0) order by customer_id limit 100`;
  return rows.map(({ customerId }) => customerId);
}

/**
 * Sets the balance of a customer to the sum of his movements. Returns both in base units; undefined
 * if nothing was changed, also where the sum is below 0.
 */
export async function mendBalance(
  sql: Transaction,
  customerId: string,
): Promise<{ before: bigint; balance: bigint } | undefined> {
  const [locked] = await sql<{ balance: bigint }[]>`
    select balance from lock_balances(array[${customerId}::uuid])`;
  const [row] = await sql<{ balance: bigint }[]>`
    insert into credit_balances as b (customer_id, balance)
    select ${customerId}, m.sum from (
      select coalesce(sum(amount), 0)::int8 as sum from credits where customer_id = ${customerId}
    ) as m where m.sum >= 0
    on conflict (customer_id) do update set balance = excluded.balance
      where b.balance <> excluded.balance
    returning balance`;
  return row && { before: locked?.balance ?? 0n, ...row };
}

/** Lists up to 100 invoices that have spent another credit than they have to. */
export async function listWrongInvoices(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select i.id from (
      select invoice_id, -sum(amount) as sum from credits where invoice_id is not null
      group by invoice_id
    ) as t join invoices i on i.id = t.invoice_id
    where t.sum <> ${rightlySpent(sql)} and i.subscription_id is not null
    order by i.id limit 100`;
  return rows.map(({ id }) => id);
}

/**
 * Spends what an invoice has spent too little, or gives back what it has spent too much. Returns
 * the movement; undefined where nothing was changed: the balance is too small, or two customers
 * have spent.
 */
export async function mendInvoice(
  sql: Transaction,
  invoiceId: string,
): Promise<{ customerId: string; amount: bigint } | undefined> {
  await sql`
    select from subscriptions where id = (select subscription_id from invoices
      where id = ${invoiceId}) for no key update`;
  await lockBalancesOf(sql, invoiceId);
  const [row] = await sql<{ customerId: string; amount: bigint }[]>`
    insert into credits (customer_id, amount, reason, invoice_id, subscription_id)
    select b.customer_id, m.amount, case when m.amount < 0 then 'spent' else 'reversed' end, m.id,
      m.subscription_id
    from (
      select i.id, i.subscription_id, t.owner, t.sum - ${rightlySpent(sql)} as amount
      from invoices i cross join lateral (
        select min(customer_id::text)::uuid as owner, -sum(amount) as sum from credits
        where invoice_id = i.id having count(distinct customer_id) = 1
      ) as t where i.id = ${invoiceId}
    ) as m join credit_balances b on b.customer_id = m.owner
    where m.amount <> 0 and b.balance + m.amount >= 0
    returning customer_id, amount`;
  return row;
}
