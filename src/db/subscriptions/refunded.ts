// Paid periods whose payment was refunded in full. An earlier registration of the same account may
// have paid the period, so all payments of the account are considered. After a resume such a period
// gives no access: a credit note takes its time back. The block time of the refund decides, even if
// a keeper records the refund later.
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { isSameAccount } from './account-registrations.ts';

/**
 * SQL condition: the payment with this table alias was refunded in full. If a credit paid a part of
 * the price, the condition is false, because credit is never refunded.
 */
export const isRefundedInFull = (sql: Queryable, payment: 'p' | 'paid') => {
  const of = sql(payment);
  return sql`(${of}.amount_net > 0 and ${of}.amount_refunded >= ${of}.amount_net
    and not exists (select from invoices where id = ${of}.invoice_id and credit_applied > 0))`;
};

/** SQL that reads the payment of the last paid period of `subscriptions s`, refunded in full. */
const lastRefunded = (sql: Queryable) => sql`
  select paid.id, paid.invoice_id, paid.subscription_pda
  from subscriptions n join payments paid on paid.subscription_id = n.id
  where n.subscription_pda = s.subscription_pda and ${isSameAccount(sql)}
    and paid.status = 'succeeded' and paid.period_end = w.paid_through and not paid.further
    and ${isRefundedInFull(sql, 'paid')}`;

/**
 * SQL condition: the payment of the last paid period of `subscriptions s`, with its
 * `subscription_work w`, was refunded in full.
 */
export const isRefunded = (sql: Queryable) => sql`exists (${lastRefunded(sql)})`;

/** SQL that takes back the time of the payments that the table `refunded` has. */
const takeTime = (sql: Queryable) => sql`
  insert into credit_notes (invoice_id, payment_id, subscription_pda, reason, amount,
    takes_time_from)
  select i.id, r.id, r.subscription_pda, 'resumed', 0, coalesce(i.covers_from, i.period_start)
  from refunded r join invoices i on i.id = r.invoice_id
  on conflict (invoice_id, reason) where takes_time_from is not null do nothing`;

/**
 * Ends the access of the last paid period of this registration if its payment was refunded in full.
 * Applies to every registration of the account whose period that payment paid, live or ended.
 * Called when the wallet has resumed the account.
 */
export async function endRefundedAccess(sql: Queryable, id: string): Promise<void> {
  await sql`
    with refunded as (
      select paid.id, paid.invoice_id, paid.subscription_pda
      from subscriptions s join subscription_work w on w.subscription_id = s.id
        cross join lateral (${lastRefunded(sql)}) as paid
      where s.id = ${id}
    ) ${takeTime(sql)}`;
}

/**
 * Ends the access of the period whose payment was refunded in full at `at` (block time of the
 * refund), if the wallet has resumed or registered the account since. Writes every registration
 * whose period that payment paid, so that a keeper that has read older rows reads them again.
 */
export async function endRefundedPeriod(
  tx: Transaction,
  paymentId: string,
  at: Date,
): Promise<void> {
  const [payment] = await tx`
    select 1 from payments p where p.id = ${paymentId} and p.status = 'succeeded'
      and not p.further and ${isRefundedInFull(tx, 'p')}`;
  if (payment === undefined) return;
  await tx`
    with refunded as (
      select p.id, p.invoice_id, p.subscription_pda from payments p
      where p.id = ${paymentId} and exists (select from subscriptions n
        where n.subscription_pda = p.subscription_pda and n.status in ('active', 'past_due')
          and coalesce(n.resumed_at, n.created_at) >= ${at})
    ) ${takeTime(tx)}`;
  await writePaid(tx, [paymentId]);
}

/**
 * Writes every registration whose last paid period one of these payments paid, and live ones whose
 * payment no keeper has read, so that a keeper with an older read reads again. With `until`, those
 * that are replaced are replaced at this chain time at the latest. Locks newer registrations first,
 * as a keeper does.
 */
export async function writePaid(
  tx: Transaction,
  paymentIds: readonly string[],
  until: Date | null = null,
): Promise<void> {
  await tx`
    with paid as (
      select s.id from payments p join subscriptions s on s.subscription_pda = p.subscription_pda
        join subscription_work w on w.subscription_id = s.id
      where p.id = any(${[...paymentIds]}::uuid[]) and (w.paid_through = p.period_end
        or (w.paid_through is null and s.status in ('active', 'past_due')))
      order by s.id desc for no key update of s, w
    )
    update subscriptions s set updated_at = now(), replaced_at = case
      when s.replaced_by is not null then least(s.replaced_at, ${until}::timestamptz) end
    from paid where s.id = paid.id`;
}
