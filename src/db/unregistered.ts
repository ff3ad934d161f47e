// Live subscriptions on chain that are not registered, and the offers from which these
// subscriptions may come.
import type { Queryable } from './postgres/connect.ts';
import { type Fragment, type Page, pageOf } from './postgres/lists.ts';

export interface UnregisteredRow {
  id: string;
  appId: string;
  planId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  /** Time at which a keeper first saw the subscription. */
  createdAt: Date;
}

/**
 * Stores an unregistered subscription unless it is already stored. Does nothing if its wallet has
 * registered it in the meantime.
 */
export async function insertUnregistered(
  sql: Queryable,
  row: Omit<UnregisteredRow, 'id' | 'createdAt'>,
): Promise<void> {
  await sql`
    insert into unregistered_subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet)
    select ${row.appId}::uuid, ${row.planId}::uuid, ${row.subscriptionPda}, ${row.subscriberWallet}
    where not exists (select from subscriptions where subscription_pda = ${row.subscriptionPda}
      and status in ('active', 'past_due') and replaced_by is null)
    on conflict do nothing`;
}

/**
 * Adds a replaced subscription, whose account still runs on chain, to the merchant's list of
 * unregistered subscriptions. Does nothing if no change of plan has replaced the subscription.
 */
export async function listReplaced(sql: Queryable, subscriptionId: string): Promise<void> {
  await sql`
    insert into unregistered_subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet)
    select app_id, plan_id, subscription_pda, subscriber_wallet from subscriptions
    where id = ${subscriptionId} and replaced_by is not null
    on conflict do nothing`;
}

export async function deleteUnregistered(sql: Queryable, pdas: readonly string[]): Promise<void> {
  await sql`
    delete from unregistered_subscriptions where subscription_pda = any(${[...pdas]}::text[])`;
}

/** Lists an app's unregistered subscriptions, newest first. */
export function listUnregistered(
  sql: Queryable,
  appId: string,
  page: Page,
): Promise<UnregisteredRow[]> {
  const key = { column: 'app_id', value: sql`${appId}::uuid` };
  return sql<UnregisteredRow[]>`
    select id, app_id, plan_id, subscription_pda, subscriber_wallet, created_at
    from unregistered_subscriptions where ${pageOf(sql, key, page)}`;
}

/**
 * SQL for the first `limit` addresses of `rows` (subscription_pda, plan_id, at). Merchants take
 * turns, each with its newest row, so that a stranger's many offers leave room for the others'.
 */
const inTurns = (sql: Queryable, rows: Fragment, limit: number) => sql`(
  select subscription_pda from (
    select subscription_pda, at,
      row_number() over (partition by merchant_id order by at desc, subscription_pda) as turn
    from (
      select distinct on (merchant_id, subscription_pda) merchant_id, subscription_pda, at
      from (${rows}) as r join plans p on p.id = r.plan_id join apps a on a.id = p.app_id
      order by merchant_id, subscription_pda, at desc
    ) as addresses
  ) as turns order by turn, at desc limit ${limit})`;

/**
 * Returns addresses that a keeper reads again, at most `limit` of each kind: (1) of unregistered
 * subscriptions, (2) of offers whose subscription is not registered, (3) of offers to resume that a
 * wallet has handed over, (4) of subscriptions that their merchant reinstated in the last day, (5)
 * of subscriptions that a change of plan replaced in the last hour. The wallet may have resumed a
 * replaced subscription before the change of plan was recorded.
 */
export async function readAwaited(sql: Queryable, limit: number): Promise<string[]> {
  const kinds = [
    sql`select subscription_pda, plan_id, created_at as at from unregistered_subscriptions`,
    sql`select subscription_pda, plan_id, created_at as at from offered_transactions
      where purpose = 'subscribe' and registered_at is null`,
    sql`select subscription_pda, plan_id, relayed_at as at from offered_transactions
      where purpose = 'resume' and relayed_at is not null`,
    sql`select subscription_pda, plan_id, signed_at as at from sponsored_offers
      where purpose = 'resume' and signed is not null`,
    sql`select subscription_pda, plan_id, reinstated_at as at from subscriptions
      where reinstated_at > now() - interval '24 hours'`,
    sql`select o.subscription_pda, o.plan_id, n.created_at as at
      from subscriptions n join subscriptions o on o.id = n.replaces
      where n.id >= first_id_at(now() - interval '1 hour')`,
  ].map((rows) => inTurns(sql, rows, limit));
  const found = kinds.reduce((some, kind) => sql`${some} union ${kind}`);
  const rows = await sql<{ subscriptionPda: string }[]>`${found}`;
  return rows.map(({ subscriptionPda }) => subscriptionPda);
}

/**
 * Returns the given addresses that have a live registration. A registration that a change of plan
 * has replaced does not count, because its account may get a new registration.
 */
export async function findRegistered(
  sql: Queryable,
  pdas: readonly string[],
): Promise<Set<string>> {
  const rows = await sql<{ subscriptionPda: string }[]>`
    select subscription_pda from subscriptions
    where subscription_pda = any(${[...pdas]}::text[]) and status in ('active', 'past_due')
      and replaced_by is null`;
  return new Set(rows.map(({ subscriptionPda }) => subscriptionPda));
}

/**
 * Marks the offers for this address as used, so that they do not match a later account at the same
 * address.
 */
export async function endOffers(sql: Queryable, subscriptionPda: string): Promise<void> {
  await sql`
    update offered_transactions set registered_at = now()
    where subscription_pda = ${subscriptionPda} and purpose = 'subscribe'
      and registered_at is null`;
}
