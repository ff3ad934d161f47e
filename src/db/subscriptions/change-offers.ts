// The offers of transactions that change the plan of a subscription. An account may have several
// registrations, and an offered change of an earlier registration replaces the newest one. All
// statements here therefore consider the changes of every registration of the account.
import { isUndecided, type MayLand, signedLifetime } from '../offers/offers.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';

/** SQL for the ids of all registrations at the address `pda`. */
const registrationsAt = (sql: Queryable, pda: Fragment) => sql`any(array(
  select n.id from subscriptions n where n.subscription_pda = ${pda}))`;

/**
 * SQL condition: the wallet has signed a sponsored transaction that replaces the subscription `s`,
 * and the transaction may still land.
 */
const isSignedAway = (sql: Queryable) => {
  const ids = registrationsAt(sql, sql`s.subscription_pda`);
  return sql`(
    exists (select from sponsorships o where o.replaces = ${ids} and o.state = 'open')
    or exists (select from offers o where o.replaces = ${ids} and ${isUndecided(sql, sql`2`)}))`;
};

/** SQL condition: the relay accepted the change of plan `r`, and it is not registered. */
const isRelayed = (sql: Queryable) => sql`(
  r.signed_blockhash is not null and r.registered_at is null)`;

/** SQL condition: the blockhash of the relayed change `r` is valid or expired recently. */
const isRecent = (sql: Queryable) => sql`r.created_at > now() - interval '15 minutes'`;

/**
 * SQL condition: the wallet has signed a change of plan of the subscription `s`, for sponsoring or
 * for the relay, and the change may still land. Assumes that the chain makes progress.
 */
export const isChangeSigned = (sql: Queryable) => sql`(${isSignedAway(sql)}
  or exists (select from offers r
    where r.replaces = ${registrationsAt(sql, sql`s.subscription_pda`)}
      and ${isRelayed(sql)} and ${isRecent(sql)}))`;

/** A change of plan that its wallet has signed. Its lifetime tells whether it may still land. */
export interface SignedChange extends MayLand {
  offerId: string;
  /**
   * Null if an expired blockhash is proof enough: no keeper has signed the sponsored transaction,
   * or the relay accepted it long ago. If the transaction landed nevertheless, its registration
   * still takes over, even after a force-cancel.
   */
  signature: string | null;
}

/** Identifies a signed transaction, because the wallet may sign its offer again. */
export const keyOf = ({
  offerId,
  signature,
  blockhash,
}: Pick<SignedChange, 'offerId' | 'signature' | 'blockhash'>): string =>
  [offerId, blockhash, signature].join();

/**
 * Lists the signed changes of plan that replace a registration of this account or resume the
 * account: (1) sponsored changes that no keeper has decided, (2) relayed changes that are not
 * registered. Relayed changes have no age limit, because only the chain shows that a transaction
 * can no longer land.
 */
export function listSignedChanges(sql: Queryable, id: string): Promise<SignedChange[]> {
  const pda = sql`(select subscription_pda from subscriptions where id = ${id})`;
  const ids = registrationsAt(sql, pda);
  const relayed = sql`
    select r.id as offer_id, case when ${isRecent(sql)} then r.signature end as signature,
      ${signedLifetime(sql, sql`r`)}
    from offers r where ${isRelayed(sql)}`;
  return sql<SignedChange[]>`
    ${relayed} and r.replaces = ${ids}
    union
    ${relayed} and r.subscription_pda = ${pda} and r.purpose = 'subscribe'
      and r.replaces is not null
    union all
    select o.id, null, o.blockhash, o.last_valid_block_height, o.blockhash_slot
    from offers o where o.replaces = ${ids} and ${isUndecided(sql)}`;
}

/**
 * Whether the wallet has an unregistered offer, signed or not, that replaces this subscription or
 * another registration of its account.
 */
export async function hasOfferedChange(sql: Queryable, id: string): Promise<boolean> {
  const pda = sql`(select subscription_pda from subscriptions where id = ${id})`;
  const rows = await sql`
    select 1 from offers
    where replaces = ${registrationsAt(sql, pda)} and sponsor is null and registered_at is null
    limit 1`;
  return rows.length > 0;
}

/** Locks the subscription against its end and against a change of plan. */
export async function lockSubscription(sql: Queryable, id: string): Promise<void> {
  await sql`select from subscriptions where id = ${id} for no key update`;
}

/**
 * Locks the subscription. Returns whether a signed change of plan may still replace the
 * subscription or resume its account. Such a change is a sent sponsored change, or a change of
 * listSignedChanges() that is not in `dead` (keyOf). Ignores the offer `except`.
 */
export async function lockSignedChanges(
  sql: Transaction,
  id: string,
  dead: ReadonlySet<string>,
  except?: string,
): Promise<boolean> {
  await lockSubscription(sql, id);
  const sent = await sql`
    select 1 from subscriptions s join sponsorships o
      on o.replaces = ${registrationsAt(sql, sql`s.subscription_pda`)}
    where s.id = ${id} and o.state = 'open' limit 1`;
  if (sent.length > 0) return true;
  return (await listSignedChanges(sql, id)).some(
    (one) => one.offerId !== except && !dead.has(keyOf(one)),
  );
}

/** SQL condition: an offered, signed or sent transaction may replace the subscription `s`. */
export const isChanging = (sql: Queryable) => sql`(
  exists (select from offers o
    where o.replaces = ${registrationsAt(sql, sql`s.subscription_pda`)} and o.sponsor is null
      and o.registered_at is null and o.created_at > now() - interval '15 minutes')
  or ${isSignedAway(sql)})`;

/**
 * SQL for the addresses of the accounts that unregistered changes of plan of the subscription `s`
 * open or resume. If one of these accounts is live, its change has landed, and a keeper registers
 * it soon. Leaves out accounts that no keeper registers: (1) in `unregistered_subscriptions`,
 * (2) of plans that are not published or have ended, (3) of offers that are more than 24 hours old.
 */
export const changeAddresses = (sql: Queryable) => sql`array(
  select distinct o.subscription_pda from offers o join plans new on new.id = o.plan_id
  where o.replaces = ${registrationsAt(sql, sql`s.subscription_pda`)}
    and o.purpose = 'subscribe' and new.status in ('active', 'sunset')
    and o.created_at > now() - interval '24 hours'
    and case when o.sponsor is null
      then o.registered_at is null and o.look_at is distinct from 'infinity'
      else exists (select from sponsorships d where d.offer_id = o.id and d.state = 'open') end
    and not exists (
      select from unregistered_subscriptions u where u.subscription_pda = o.subscription_pda))`;

/** Whether a sponsored change of plan of this subscription is under way. */
export async function isBeingReplaced(sql: Queryable, id: string): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select ${isSignedAway(sql)} as found from subscriptions s where s.id = ${id}`;
  return row?.found === true;
}
