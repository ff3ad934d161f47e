// Live subscriptions on chain that are not registered, and the offers from which these
// subscriptions may come.
import { secondsSince } from '../postgres/clock.ts';
import type { Queryable } from '../postgres/connect.ts';
import { type Fragment, type Page, pageOf } from '../postgres/lists.ts';

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
 * A table whose rows takeAwaited() reads again. `t` is the row, `since` the time from which it is
 * awaited.
 */
interface Queue {
  table: Fragment;
  since: Fragment;
  isAwaited: Fragment;
}

/**
 * SQL condition: a keeper looks for the account of the offer `t`. The wallet pays for the offer, no
 * keeper has given it up, and it is not registered or was relayed to resume an account.
 */
const isAwaitedOffer = (sql: Queryable) => sql`(
  t.sponsor is null
  and (t.purpose = 'subscribe' and t.registered_at is null
    or t.purpose = 'resume' and t.signed_at is not null)
  and t.look_at is distinct from 'infinity')`;

/** The tables whose rows are postponed after each look: unregistered subscriptions, and offers. */
const queuesOf = (sql: Queryable): Queue[] => [
  { table: sql`unregistered_subscriptions`, since: sql`t.created_at`, isAwaited: sql`true` },
  {
    table: sql`offers`,
    since: sql`coalesce(t.signed_at, t.created_at)`,
    isAwaited: isAwaitedOffer(sql),
  },
];

/**
 * SQL for the first `limit` addresses of `rows` (subscription_pda, plan_id, at). Merchants take
 * turns, each with its oldest `at`, so that many rows of one merchant do not delay those of the
 * others.
 */
const inTurns = (sql: Queryable, rows: Fragment, limit: number) => sql`(
  select subscription_pda from (
    select subscription_pda, at,
      row_number() over (partition by merchant_id order by at, subscription_pda) as turn
    from (
      select distinct on (merchant_id, subscription_pda) merchant_id, subscription_pda, at
      from (${rows}) as r join plans p on p.id = r.plan_id join apps a on a.id = p.app_id
      order by merchant_id, subscription_pda, at
    ) as addresses
  ) as turns order by turn, at, subscription_pda limit ${limit})`;

/** Claims the due addresses of one queue and postpones them by half of their age. */
async function takeDue(
  sql: Queryable,
  { table, since, isAwaited }: Queue,
  { limit, again }: { limit: number; again: boolean },
): Promise<string[]> {
  const rows = await sql<{ subscriptionPda: string }[]>`
    with chosen as (${inTurns(
      sql,
      sql`select t.subscription_pda, t.plan_id, coalesce(t.look_at, ${since}) as at
        from ${table} t where ${isAwaited} and (${again} or coalesce(t.look_at <= now(), true))`,
      limit,
    )}), free as (
      select t.id from ${table} t
      where t.subscription_pda = any(array(select subscription_pda from chosen)) and ${isAwaited}
      for update skip locked
    ), taken as (
      update ${table} t set look_at = now() + least(interval '1 hour',
        greatest(interval '4 minutes', (now() - ${since}) / 2))
      from free where t.id = free.id
    )
    select subscription_pda from chosen`;
  return rows.map(({ subscriptionPda }) => subscriptionPda);
}

/**
 * Claims addresses that a keeper reads again, at most `limit` of each kind, in turns of merchants.
 * (1) Addresses of unregistered subscriptions, of unregistered offers, and of submitted offers that
 * resume an account. Without `again`, only addresses that are due. (2) Addresses of submitted
 * sponsored offers to resume, of subscriptions reinstated in the last day, and of subscriptions
 * replaced in the last hour, because their wallet may have resumed one before the change was
 * recorded.
 */
export async function takeAwaited(
  sql: Queryable,
  { limit, again }: { limit: number; again: boolean },
): Promise<string[]> {
  const due: string[][] = [];
  for (const queue of queuesOf(sql)) due.push(await takeDue(sql, queue, { limit, again }));
  const kinds = [
    sql`select subscription_pda, plan_id, signed_at as at from offers
      where purpose = 'resume' and signed is not null`,
    sql`select subscription_pda, plan_id, reinstated_at as at from subscriptions
      where reinstated_at > now() - interval '24 hours'`,
    sql`select o.subscription_pda, o.plan_id, n.created_at as at
      from subscriptions n join subscriptions o on o.id = n.replaces
      where n.id >= first_id_at(now() - interval '1 hour')`,
  ].map((rows) => inTurns(sql, rows, limit));
  const found = kinds.reduce((some, kind) => sql`${some} union ${kind}`);
  const rows = await sql<{ subscriptionPda: string }[]>`${found}`;
  return [...new Set([...due.flat(), ...rows.map(({ subscriptionPda }) => subscriptionPda)])];
}

/** Returns for how many seconds the oldest awaited subscription has been due; 0 if none is. */
export async function readOldestAwaited(sql: Queryable): Promise<number> {
  const ages = queuesOf(sql).map(
    ({ table, since, isAwaited }) => sql`
      select min(coalesce(t.look_at, ${since})) as at from ${table} t
      where ${isAwaited} and coalesce(t.look_at <= now(), true)`,
  );
  const both = ages.reduce((some, one) => sql`${some} union all ${one}`);
  const [row] = await sql<{ seconds: number }[]>`
    select ${secondsSince(sql, sql`min(at)`)} as seconds from (${both}) as oldest`;
  return row?.seconds ?? 0;
}

/**
 * Marks the offers for this address as used, so that they do not match a later account at the same
 * address.
 */
export async function endOffers(sql: Queryable, subscriptionPda: string): Promise<void> {
  await sql`
    update offers set registered_at = now()
    where subscription_pda = ${subscriptionPda} and purpose = 'subscribe'
      and sponsor is null and registered_at is null`;
}

/** SQL for the awaited offers `t` for these addresses that are more than 24 hours old. */
const isOldOffer = (sql: Queryable, pdas: readonly string[]) => sql`
  t.subscription_pda = any(${[...pdas]}::text[]) and ${isAwaitedOffer(sql)}
  and t.created_at < now() - interval '24 hours'`;

/** Returns the given addresses that have awaited offers which are more than 24 hours old. */
export async function findOldOffers(sql: Queryable, pdas: readonly string[]): Promise<string[]> {
  const rows = await sql<{ subscriptionPda: string }[]>`
    select distinct t.subscription_pda from offers t
    where ${isOldOffer(sql, pdas)}`;
  return rows.map(({ subscriptionPda }) => subscriptionPda);
}

/**
 * Gives up the awaited offers for these addresses that are more than 24 hours old, so that they are
 * deleted (deleteOldOffers).
 */
export async function giveUpOffers(sql: Queryable, pdas: readonly string[]): Promise<void> {
  if (pdas.length === 0) return;
  await sql`
    update offers t set look_at = 'infinity' where ${isOldOffer(sql, pdas)}`;
}
