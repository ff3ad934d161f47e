// SQL about the invoices of a subscription for statements that read subscriptions: which one stands
// for the newest period, and how often a discount was used.
import type { Queryable } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';

/** SQL condition of the unique index: no other invoice may have the cover of this one. */
export const isStanding = (sql: Queryable) => sql`
  (void_reason is null or void_reason in ('forgiven', 'ended'))`;

/** SQL that reads the standing invoice of the newest period of the address of `subscriptions s`. */
export const newestInvoice = (sql: Queryable, columns: Fragment) => sql`
  select ${columns} from invoices i
  where i.subscription_pda = s.subscription_pda and i.reason = 'period' and ${isStanding(sql)}
    and i.period_start is not null
  order by i.period_start desc, i.covers_from desc limit 1`;

/** SQL for the credit (base units) that the open invoice of `subscriptions s` has spent. */
export const reservedCredit = (sql: Queryable) => sql`
  coalesce((select newest.credit_applied from (
    ${newestInvoice(sql, sql`i.subscription_id, i.customer_id, i.state, i.credit_applied`)}
  ) as newest where newest.state = 'open' and newest.subscription_id = s.id
    and newest.customer_id = s.customer_id), 0)`;

/** The open invoice of a subscription, if it has one, as withOpen() and openColumns() read it. */
export interface OpenColumns {
  /** Base units. */
  openAmount: bigint | null;
  /** End of the period out of which it is pulled. */
  openUntil: Date | null;
}

export const openColumns = (sql: Queryable) => sql`
  open.amount_due as open_amount, open.period_end as open_until`;

/**
 * SQL that joins the open invoice of `subscriptions s`, also one that an attempt may pay. A
 * subscription has none before its payment is due.
 */
export const withOpen = (sql: Queryable) => sql`
  left join lateral (
    select newest.amount_due, newest.period_end from (
      ${newestInvoice(sql, sql`i.subscription_id, i.state, i.amount_due, i.period_end`)}
    ) as newest
    where newest.state = 'open' and newest.subscription_id = s.id
      and (s.status = 'past_due' or s.next_payment_due <= now())
  ) as open on true`;

/**
 * SQL for the number of invoices that the discount of `subscriptions s` still reduces. Null:
 * unlimited.
 */
export const periodsLeft = (sql: Queryable) => sql`
  case when s.discount_periods is not null then greatest(s.discount_periods - (
    select count(*) from invoices i where i.discount_id = s.discount_id
      and i.subscription_pda = s.subscription_pda and i.state = 'paid'
  ), 0)::int end`;
