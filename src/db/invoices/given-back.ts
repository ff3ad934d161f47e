// Gives back the credit of invoices that were closed without a payment, where their closing could
// not: a pull that nobody could explain might still have paid them.
import type { Queryable } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';
import { recordset } from '../postgres/recordset.ts';
import { bytesOf } from '../postgres/signatures.ts';

/**
 * SQL for the credit that `invoices i` has to have spent, of which the movements sum up to `t.sum`.
 * What is closed without a payment keeps its credit only while its pull may still be found.
 */
export const rightlySpent = (sql: Queryable) => sql`
  case when i.state in ('open', 'paid') then i.credit_applied
    when t.sum = i.credit_applied and exists (select from payment_attempts a
      where a.invoice_id = i.id and a.state = 'unexplained') then t.sum
    else 0 end`;

/** SQL that gives back what those of the invoices have spent that are void or uncollectible. */
export const giveBack = (sql: Queryable, ids: Fragment) => sql`
  insert into credits (customer_id, amount, reason, invoice_id, subscription_id)
  select m.customer_id, -m.sum, 'reversed', i.id, i.subscription_id
  from invoices i cross join lateral (
    select customer_id, sum(amount) as sum from credits where invoice_id = i.id
    group by customer_id having sum(amount) < 0
  ) as m
  where i.id = any(array(${ids})) and i.state in ('void', 'uncollectible')
  order by m.customer_id, i.id
  returning customer_id, invoice_id, amount`;

/** Gives back the credit of the invoices for which these pulls were signed, but did not pay. */
export async function giveBackUnmatched(
  sql: Queryable,
  pulls: readonly { readonly subscriptionPda: string; readonly txSignature: string }[],
): Promise<void> {
  const signed = pulls.map(({ subscriptionPda, txSignature }) => ({
    ...{ subscriptionPda, signature: bytesOf(txSignature) },
  }));
  await giveBack(
    sql,
    sql`
      select a.invoice_id
      from (${recordset(sql, signed, { subscriptionPda: 'text', signature: 'bytea' })}) as g
        join transactions t on t.signature = g.signature
        join payment_attempts a on a.transaction_id = t.id
          and a.subscription_pda = g.subscription_pda`,
  );
}
