// Checkout sessions. A session offers one plan to one customer of the merchant and leads to at most
// one subscription.
import type { ChangeWhen } from '../offers/offers.ts';
import type { DiscountTerms } from '../offers/terms.ts';
import type { Queryable } from '../postgres/connect.ts';
import { type Page, pageOf } from '../postgres/lists.ts';

export interface CheckoutSessionRow extends DiscountTerms {
  id: string;
  appId: string;
  planId: string;
  /** Computed from subscription_id and expires_at with the database's clock. */
  status: 'open' | 'complete' | 'expired';
  externalId: string | null;
  /** A JSON object as text. */
  metadata: string;
  successUrl: string | null;
  cancelUrl: string | null;
  /** Length of the trial in hours; null means the plan's trial. */
  trialHours: number | null;
  /** Whether the customer may subscribe although another subscription of the customer is live. */
  allowSecond: boolean;
  /** The subscription whose plan is changed in the session; null without a change. */
  replaces: string | null;
  changeWhen: ChangeWhen | null;
  /** The only wallet that can use the session; null allows any wallet. */
  forWallet: string | null;
  /** The wallet that claimed the session. No other wallet can use the session. */
  subscriberWallet: string | null;
  subscriptionId: string | null;
  createdAt: Date;
  expiresAt: Date;
}

export interface NewCheckoutSession extends DiscountTerms {
  appId: string;
  planId: string;
  externalId: string | null;
  metadata: Readonly<Record<string, string>>;
  forWallet: string | null;
  trialHours: number | null;
  allowSecond: boolean;
  replaces: string | null;
  changeWhen: ChangeWhen | null;
  successUrl: string | null;
  cancelUrl: string | null;
}

const columns = (sql: Queryable) => sql`
  id, app_id, plan_id, external_id, metadata::text as metadata, discount_percent, discount_amount,
    discount_periods, success_url, cancel_url, for_wallet, trial_hours, allow_second, replaces,
    change_when, subscriber_wallet, subscription_id, created_at, expires_at,
  case when subscription_id is not null then 'complete' when expires_at <= now() then 'expired' else
    'open' end as status`;

export async function insertCheckoutSession(
  sql: Queryable,
  session: NewCheckoutSession,
): Promise<CheckoutSessionRow> {
  const { appId, planId, externalId, metadata, forWallet, successUrl, cancelUrl } = session;
  const { discountPercent, discountAmount, discountPeriods, allowSecond } = session;
  const { replaces, changeWhen, trialHours } = session;
  const [row] = await sql<CheckoutSessionRow[]>`
    insert into checkout_sessions (app_id, plan_id, external_id, metadata, for_wallet, allow_second, success_url,
      cancel_url, discount_percent, discount_amount, discount_periods, trial_hours, replaces,
      change_when)
    values (${appId}, ${planId}, ${externalId}, ${JSON.stringify(metadata)}::text::jsonb,
      ${forWallet}, ${allowSecond}, ${successUrl}, ${cancelUrl}, ${discountPercent},
      ${discountAmount}, ${discountPeriods}, ${trialHours}, ${replaces}, ${changeWhen})
    returning ${columns(sql)}`;
  if (row === undefined) throw new Error('a checkout session was not stored');
  return row;
}

export async function findCheckoutSession(
  sql: Queryable,
  id: string,
): Promise<CheckoutSessionRow | undefined> {
  const [row] = await sql<CheckoutSessionRow[]>`
    select ${columns(sql)} from checkout_sessions where id = ${id}`;
  return row;
}

export function listCheckoutSessions(
  sql: Queryable,
  appId: string,
  page: Page,
): Promise<CheckoutSessionRow[]> {
  const key = { column: 'app_id', value: sql`${appId}::uuid` };
  return sql<CheckoutSessionRow[]>`
    select ${columns(sql)} from checkout_sessions where ${pageOf(sql, key, page)}`;
}

/**
 * Deletes up to 1,000 sessions, complete or not, that expired more than 30 days ago. Returns the
 * number deleted.
 */
export async function deleteEndedSessions(sql: Queryable): Promise<number> {
  const { count } = await sql`
    delete from checkout_sessions where id in (
      select id from checkout_sessions where expires_at < now() - interval '30 days'
        order by expires_at limit 1000
    )`;
  return count;
}

/**
 * Binds an open session to a wallet before the subscribe transaction is sent. Returns true if the
 * session is bound to this wallet, even if it is expired or complete by now. Returns false if the
 * session is bound to another wallet, or is unbound and expired or complete.
 */
export async function claimCheckoutSession(
  sql: Queryable,
  id: string,
  wallet: string,
): Promise<boolean> {
  const { count } = await sql`
    update checkout_sessions set subscriber_wallet = ${wallet}
    where id = ${id} and coalesce(for_wallet, ${wallet}) = ${wallet} and (subscriber_wallet = ${wallet}
      or (subscriber_wallet is null and subscription_id is null and expires_at > now()))`;
  return count === 1;
}

/**
 * Completes a session; call it in the transaction that stores the subscription. Returns false if
 * the session (1) is complete with another subscription, (2) belongs to another wallet, or (3) has
 * expired. With `isOffered`, an expired session is completed too, because its offer was made while
 * it was open.
 */
export async function completeCheckoutSession(
  sql: Queryable,
  id: string,
  {
    wallet,
    subscriptionId,
    isOffered,
  }: { wallet: string; subscriptionId: string; isOffered: boolean },
): Promise<boolean> {
  const { count } = await sql`
    update checkout_sessions set subscriber_wallet = ${wallet}, subscription_id = ${subscriptionId}
    where id = ${id} and coalesce(subscription_id, ${subscriptionId}) = ${subscriptionId}
      and coalesce(for_wallet, ${wallet}) = ${wallet}
      and coalesce(subscriber_wallet, ${wallet}) = ${wallet}
      and (subscription_id is not null or expires_at > now() or ${isOffered})`;
  return count === 1;
}
