// Invoices for the API, each with its subscription. invoices/ has the keeper's statements.
import type { Invoice, Line } from '../invoices/invoices.ts';
import { isStanding } from '../invoices/standing.ts';
import type { Queryable } from '../postgres/connect.ts';
import { among, type Fragment, type Page, type Span } from '../postgres/lists.ts';
import { subscriptionsOf, type Whose } from '../subscriptions/customers.ts';
import type { SubscriptionStatus } from '../subscriptions/subscriptions.ts';

/** An invoice of a subscription. The invoices of offers that have not landed are left out. */
export interface InvoiceRow extends Omit<Invoice, 'id' | 'subscriptionId' | 'lines'> {
  id: string;
  appId: string;
  planId: string;
  subscriptionId: string;
  customerId: string;
  subscriberWallet: string;
  /** The subscription's status. */
  status: SubscriptionStatus;
  /** The subscription's current external id. */
  externalId: string | null;
  /** The amounts are text. */
  lines: (Omit<Line, 'amount'> & { amount: string })[];
  planAmount: bigint;
  usageAmount: bigint;
  itemsAmount: bigint;
  discountAmount: bigint;
  adjustmentAmount: bigint;
  taxAmount: bigint;
  createdAt: Date;
}

/** The time span applies to drawnUpAt of the invoice. */
export interface InvoiceFilters extends Span, Whose {
  state: readonly string[] | null;
  reason: readonly string[] | null;
  planId: string | null;
  subscriptionId: string | null;
}

export const anyInvoice: InvoiceFilters = {
  ...{ state: null, reason: null, planId: null, subscriptionId: null },
  ...{ subscriberWallet: null, externalId: null, since: null, until: null },
};

/** Lists an app's invoices, newest drawn_up_at first. */
export function listInvoices(
  sql: Queryable,
  appId: string,
  filters: InvoiceFilters,
  page: Page,
): Promise<InvoiceRow[]> {
  const { subscriptionId, subscriberWallet, externalId } = filters;
  const isOfApp = subscriptionId === null && subscriberWallet === null && externalId === null;
  const found = isOfApp
    ? sql`select ${readColumns(sql)} from invoices
        where ${pageOf(sql, sql`app_id = ${appId} and subscription_id is not null`, filters, page)}`
    : sql`select each.* from (${ownersOf(sql, appId, filters)}) as owner cross join lateral (
          select ${readColumns(sql)} from (${ofAddress(sql)}) as theirs
          where ${pageOf(sql, sql`subscription_id = owner.id`, filters, page)}
        ) as each
        order by each.drawn_up_at desc, each.id desc limit ${page.limit}`;
  return sql<InvoiceRow[]>`
    select ${columns(sql)} from (${found}) as i join subscriptions s on s.id = i.subscription_id
    order by i.drawn_up_at desc, i.id desc`;
}

export async function findInvoice(sql: Queryable, id: string): Promise<InvoiceRow | undefined> {
  const [row] = await sql<InvoiceRow[]>`
    select ${columns(sql)} from invoices i join subscriptions s on s.id = i.subscription_id
    where i.id = ${id}`;
  return row;
}

/** SELECT of the app's subscriptions whose invoices are listed: one, or those of a customer. */
function ownersOf(
  sql: Queryable,
  appId: string,
  { subscriptionId, ...whose }: InvoiceFilters,
): Fragment {
  if (whose.subscriberWallet === null && whose.externalId === null)
    return sql`select id, subscription_pda from subscriptions
      where id = ${subscriptionId} and app_id = ${appId}`;
  const only = subscriptionId === null ? sql`` : sql`where o.id = ${subscriptionId}`;
  return sql`select o.id, o.subscription_pda
    from (${subscriptionsOf(sql, sql`array[${appId}::uuid]`, whose)}) as found
      join subscriptions o on o.id = found.id ${only}`;
}

/**
 * SELECT of the invoices at the address of `owner`. Each half has the condition of a partial index:
 * one_invoice_per_cover and invoices_beside_periods.
 */
const ofAddress = (sql: Queryable): Fragment => sql`
  select ${readColumns(sql)} from invoices
  where subscription_pda = owner.subscription_pda and reason = 'period' and ${isStanding(sql)}
  union all
  select ${readColumns(sql)} from invoices
  where subscription_pda = owner.subscription_pda
    and (reason <> 'period' or void_reason in ('replaced', 'offer'))`;

/** The WHERE condition, ORDER BY and LIMIT of a page. `key` selects the rows of the list. */
function pageOf(
  sql: Queryable,
  key: Fragment,
  { state, reason, planId, since, until }: InvoiceFilters,
  { after, limit }: Page,
): Fragment {
  const conditions = [
    key,
    ...among(sql, 'state', state),
    ...among(sql, 'reason', reason),
    ...(planId === null
      ? []
      : [
          sql`and (select plan_id from subscriptions where id = subscription_id) = ${planId}::uuid`,
        ]),
    ...(since === null ? [] : [sql`and drawn_up_at >= ${since}`]),
    ...(until === null ? [] : [sql`and drawn_up_at < ${until}`]),
    ...(after === null
      ? []
      : [sql`and (drawn_up_at, id) < (select drawn_up_at, id from invoices where id = ${after})`]),
  ];
  return sql`${conditions} order by drawn_up_at desc, id desc limit ${limit}`;
}

/** The columns of invoices that columns() reads. */
const readColumns = (sql: Queryable) => sql`
  id, app_id, subscription_id, customer_id, reason, period_start, period_end, covers_from,
  covers_to, lines, plan_amount, usage_amount, items_amount, discount_amount, adjustment_amount,
  tax_amount, total, credit_applied, amount_due, state, void_reason, due_at, failed_tries,
  next_try_at, drawn_up_at, closed_at, created_at`;

/** The columns of an InvoiceRow, from `invoices i` and its `subscriptions s`. */
const columns = (sql: Queryable) => sql`
  i.id, i.app_id, s.plan_id, i.subscription_id, i.customer_id, s.subscriber_wallet, s.status, s.external_id,
  i.reason, i.period_start, i.period_end, i.covers_from, i.covers_to, i.lines, i.plan_amount,
  i.usage_amount, i.items_amount, i.discount_amount, i.adjustment_amount, i.tax_amount, i.total,
  i.credit_applied, i.amount_due, i.state, i.void_reason, i.due_at, i.failed_tries, i.next_try_at,
  i.drawn_up_at, i.closed_at, i.created_at`;
