// Credit notes: what takes back a part of a paid invoice. A refund gets its note by a trigger.
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { recordset } from '../postgres/recordset.ts';
import type { MadeCredit } from './credits.ts';
import { isStanding } from './standing.ts';

/**
 * SQL for the part of the payment `p` that was unused when a change of plan made it credit, in base
 * units. Null without a change of plan.
 */
export const creditedPart = (sql: Queryable) => sql`(
  select n.amount from credit_notes n
  where n.payment_id = p.id and n.reason = 'change_of_plan')`;

/** SQL condition: the covered time of the payment `p` was taken back. */
export const isTimeTaken = (sql: Queryable) => sql`exists (
  select from credit_notes n where n.payment_id = p.id and n.takes_time_from is not null)`;

/**
 * SQL for the end of the last paid period of `subscriptions s`, with its `subscription_work w`, if
 * the time of that period was taken back and nothing has paid for it since. Else null. A change of
 * plan ends the access of the subscription that it replaces by replacedAt.
 */
export const refundedThrough = (sql: Queryable) => sql`
  case when exists (
    select from credit_notes n join invoices i on i.id = n.invoice_id
    where n.subscription_pda = s.subscription_pda and n.takes_time_from is not null
      and (n.reason = 'resumed' or s.replaced_by is null or s.replaced_at > n.takes_time_from)
      and coalesce(i.covers_to, i.period_end) = w.paid_through and not exists (
        select from invoices o
        where o.subscription_pda = i.subscription_pda and o.reason = 'period'
          and ${isStanding(sql)} and o.period_start = i.period_start
          and o.covers_from > coalesce(i.covers_from, i.period_start) and o.subscription_id <= s.id
          and (o.state = 'paid' or o.void_reason = 'forgiven'))
  ) then w.paid_through end`;

/**
 * Locks what refunds and changes of plan may take back of a payment, until the transaction ends.
 * Whoever locks the subscription too has locked it before.
 */
export async function lockPaid(sql: Transaction, paymentId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${paymentId}, 0))`;
}

/**
 * Stores a credit note for the unused part of each payment, which becomes credit. The note also
 * takes back the time of the payment's invoice from `at` (chain time) on.
 */
export async function noteUnused(
  sql: Transaction,
  parts: readonly MadeCredit[],
  at: Date,
): Promise<void> {
  if (parts.length === 0) return;
  await sql`
    insert into credit_notes (invoice_id, payment_id, subscription_pda, reason, amount,
      takes_time_from)
    select p.invoice_id, p.id, p.subscription_pda, 'change_of_plan', g.amount, ${at}
    from (${recordset(sql, parts, { paymentId: 'uuid', amount: 'int8' })}) as g
      join payments p on p.id = g.payment_id
    on conflict (invoice_id, reason) where takes_time_from is not null do nothing`;
}
