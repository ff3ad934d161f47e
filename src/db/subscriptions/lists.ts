// Lists of subscriptions, by page, for the API.
import { withOpen } from '../invoices/standing.ts';
import type { Queryable } from '../postgres/connect.ts';
import { among, type Fragment, type Key, type Page, pageOf, type Span } from '../postgres/lists.ts';
import { columns, readColumns, type SubscriptionRow } from './subscriptions.ts';

/** The time span applies to createdAt of the subscription. */
export interface SubscriptionFilters extends Span {
  status: readonly string[] | null;
  planId: string | null;
  subscriberWallet: string | null;
  externalId: string | null;
  subscriptionPda: string | null;
}

/**
 * Lists an app's subscriptions, newest first. Uses the index of the first of these filters that is
 * given: address, external id, wallet, plan. Without these filters, uses the index of the app.
 */
export function listSubscriptionsOfApp(
  sql: Queryable,
  appId: string,
  {
    status,
    planId,
    subscriberWallet: wallet,
    externalId,
    subscriptionPda,
    ...span
  }: SubscriptionFilters,
  page: Page,
): Promise<SubscriptionRow[]> {
  const filters = among(sql, 'status', status);
  const listed = (key: Key) =>
    listPage(sql, pageOf(sql, key, { ...page, ...span }, filters), sql`${appId}::uuid`);
  if (subscriptionPda !== null) {
    const key = { column: 'subscription_pda', value: sql`${subscriptionPda}` };
    filters.push(sql`and app_id is not distinct from ${appId}::uuid`);
    if (planId !== null) filters.push(sql`and plan_id is not distinct from ${planId}::uuid`);
    if (wallet !== null) filters.push(sql`and subscriber_wallet is not distinct from ${wallet}`);
    if (externalId !== null) filters.push(sql`and external_id is not distinct from ${externalId}`);
    return listed(key);
  }
  if (externalId === null && wallet === null) {
    const key =
      planId === null
        ? { column: 'app_id', value: sql`${appId}::uuid` }
        : {
            column: 'plan_id',
            value: sql`(select id from plans where id = ${planId} and app_id = ${appId})`,
          };
    return listed(key);
  }
  // "is not distinct from" prevents the use of the index on plan_id. With "=", the planner would
  // assume a plan of average size. It could then choose the index on plan_id, although the index on
  // the wallet or the external id leads to fewer rows.
  if (planId !== null) filters.push(sql`and plan_id is not distinct from ${planId}::uuid`);
  if (externalId === null) {
    filters.push(sql`and app_id is not distinct from ${appId}::uuid`);
    const key = { column: 'subscriber_wallet', value: sql`${wallet}` };
    return listed(key);
  }
  filters.push(sql`and app_id = ${appId}::uuid`);
  if (wallet !== null) filters.push(sql`and subscriber_wallet is not distinct from ${wallet}`);
  const key = { column: 'external_id', value: sql`${externalId}` };
  return listed(key);
}

/** Lists the subscriptions of all apps of a merchant, newest first. */
export function listSubscriptionsOfMerchant(
  sql: Queryable,
  merchantId: string,
  { status, planId, subscriberWallet, externalId, subscriptionPda, ...span }: SubscriptionFilters,
  page: Page,
): Promise<SubscriptionRow[]> {
  const filters = [
    ...among(sql, 'status', status),
    ...(planId === null ? [] : [sql`and plan_id is not distinct from ${planId}::uuid`]),
    ...(subscriberWallet === null
      ? []
      : [sql`and subscriber_wallet is not distinct from ${subscriberWallet}`]),
    ...(externalId === null ? [] : [sql`and external_id is not distinct from ${externalId}`]),
    ...(subscriptionPda === null
      ? []
      : [sql`and subscription_pda is not distinct from ${subscriptionPda}`]),
  ];
  const ofApp = pageOf(
    sql,
    { column: 'app_id', value: sql`app.id` },
    { ...page, ...span },
    filters,
  );
  return sql<SubscriptionRow[]>`
    select ${columns(sql)}, p.grace_hours, p.ends_at as plan_ends_at,
      (select wallet from merchants where id = ${merchantId}) as merchant_wallet
    from (
      select each.* from apps app cross join lateral (
        select ${readColumns(sql)} from subscriptions where ${ofApp}) as each
      where app.merchant_id = ${merchantId} order by each.id desc limit ${page.limit}
    ) as s join subscription_work w on w.subscription_id = s.id join plans p on p.id = s.plan_id
      ${withOpen(sql)}
    order by s.id desc`;
}

/**
 * Reads the subscriptions of a page, each with its merchant's wallet. `app` is SQL for the id of
 * the subscription's app. If all rows have the same app, pass a constant, so that Postgres reads
 * the wallet only once.
 */
function listPage(sql: Queryable, page: Fragment, app: Fragment) {
  return sql<SubscriptionRow[]>`
    select ${columns(sql)}, p.grace_hours, p.ends_at as plan_ends_at,
      (select m.wallet from apps a join merchants m on m.id = a.merchant_id where a.id = ${app}) as
        merchant_wallet
    from (select ${readColumns(sql)} from subscriptions where ${page}) as s
      join subscription_work w on w.subscription_id = s.id
      join plans p on p.id = s.plan_id ${withOpen(sql)}
    order by s.id desc`;
}

/**
 * Lists a wallet's subscriptions, newest first. If the origin `boundTo` is given, lists only
 * subscriptions of apps whose returnOrigins contain it.
 */
export function listSubscriptionsOfWallet(
  sql: Queryable,
  { wallet, boundTo }: { wallet: string; boundTo: string | null },
  page: Page,
): Promise<SubscriptionRow[]> {
  const key = { column: 'subscriber_wallet', value: sql`${wallet}` };
  const reached = sql`
    and (select ${boundTo} = any(a.return_origins) from apps a where a.id = subscriptions.app_id)`;
  const found = pageOf(sql, key, page, boundTo === null ? [] : [reached]);
  return listPage(sql, found, sql`s.app_id`);
}
