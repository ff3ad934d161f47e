// Paid periods whose payment was refunded in full. An earlier registration of the same account may
// have paid the period, so all payments of the account are considered. After a resume such a period
// gives no access (refunded_through). The block time of the refund decides, even if a keeper
// records the refund later.
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { isSameAccount } from './account-registrations.ts';

/**
 * SQL condition: the payment with this table alias was refunded in full. If a credit paid a part of
 * the price, the condition is false, because credit is never refunded.
 */
export const isRefundedInFull = (sql: Queryable, payment: 'p' | 'paid') => {
  const of = sql(payment);
  return sql`(${of}.amount_net > 0 and ${of}.credit_spent = 0
    and ${of}.amount_refunded >= ${of}.amount_net)`;
};

/**
 * SQL condition: the payment of the last paid period of `subscriptions s`, with its
 * `subscription_work w`, was refunded in full.
 */
export const isRefunded = (sql: Queryable) => sql`exists (
  select from subscriptions n join payments paid on paid.subscription_id = n.id
  where n.subscription_pda = s.subscription_pda and ${isSameAccount(sql)}
    and paid.status = 'succeeded' and paid.period_end = w.paid_through and not paid.further
    and ${isRefundedInFull(sql, 'paid')})`;

/**
 * Ends the access of the last paid period of this registration if its payment was refunded in full.
 * Applies to every registration of the account whose period that payment paid, live or ended.
 * Called when the wallet has resumed the account. Locks newer registrations first, as a keeper
 * does.
 */
export async function endRefundedAccess(sql: Queryable, id: string): Promise<void> {
  await sql`
    with resting as (
      select o.id, w.paid_through
      from subscriptions s join subscription_work w on w.subscription_id = s.id
        join subscriptions o on o.subscription_pda = s.subscription_pda
        join subscription_work other
          on other.subscription_id = o.id and other.paid_through = w.paid_through
      where s.id = ${id} and ${isRefunded(sql)}
      order by o.id desc for no key update of o, other
    )
    update subscriptions s set refunded_through = resting.paid_through, updated_at = now()
    from resting where s.id = resting.id`;
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
  await tx`
    with resting as (
      select s.id, w.paid_through, exists (
        select from subscriptions n where n.subscription_pda = s.subscription_pda
          and n.status in ('active', 'past_due') and coalesce(n.resumed_at, n.created_at) >= ${at}
      ) as is_resumed
      from payments p join subscriptions s on s.subscription_pda = p.subscription_pda
        join subscription_work w on w.subscription_id = s.id
      where p.id = ${paymentId} and p.status = 'succeeded' and not p.further
        and ${isRefundedInFull(tx, 'p')} and (w.paid_through = p.period_end
          or (w.paid_through is null and s.status in ('active', 'past_due')))
      order by s.id desc for no key update of s, w
    )
    update subscriptions s set
      refunded_through = case when resting.is_resumed
        then coalesce(resting.paid_through, s.refunded_through) else s.refunded_through end,
      updated_at = now()
    from resting where s.id = resting.id`;
}
