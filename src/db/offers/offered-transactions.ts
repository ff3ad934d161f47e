import type { Queryable } from '../postgres/connect.ts';
import type { DiscountTerms } from './terms.ts';

export type Purpose =
  | 'subscribe'
  | 'cancel'
  | 'resume'
  | 'close'
  | 'repair'
  | 'revoke'
  | 'publish'
  | 'pullers'
  | 'refund';

/** When a change of plan takes effect: when its transaction lands, or when the paid period ends. */
export type ChangeWhen = 'now' | 'period_end';

export interface NewOffer {
  wallet: string;
  blockhash: string;
  /** The message bytes that the wallet signs. */
  message: Buffer;
  lastValidBlockHeight: bigint;
  purpose: Purpose;
  /** Null when the purpose is `revoke`. */
  planId: string | null;
  /** Null when the purpose is `publish`, `pullers` or `revoke`. */
  subscriptionPda: string | null;
  /** The checkout session in which the wallet subscribes. */
  checkoutSessionId: string | null;
  /**
   * Whether a `subscribe` transaction resumes a cancelled account instead of opening a new account.
   */
  resumes: boolean;
  /** The subscription that a change of plan replaces; null without a change of plan. */
  replaces: string | null;
  changeWhen: ChangeWhen | null;
  /**
   * Hours of the trial that the wallet was shown; 0 without a trial. Null if the offer shows
   * neither (a change of plan, a resume): then the trial of the session or the plan counts.
   */
  trialHours: number | null;
}

export interface OfferedTransaction extends NewOffer {
  id: string;
  /** The database's time at which the transaction was offered. */
  offeredAt: Date;
}

/** The lifetime of a signed transaction, which tells whether it may still land. */
export interface MayLand {
  blockhash: string;
  lastValidBlockHeight: bigint;
  /** Slot of the response that contained the blockhash; 0 where it is not stored. */
  slot: bigint;
}

/** Stores an unsigned transaction offered to a wallet for signing; returns the offer's id. */
export async function insertOffer(sql: Queryable, offer: NewOffer): Promise<string> {
  const [row] = await sql<[{ id: string }]>`
    insert into offered_transactions (wallet, blockhash, message, last_valid_block_height, purpose,
      plan_id, subscription_pda,
      checkout_session_id, resumes, replaces, change_when, trial_hours)
    values (${offer.wallet}, ${offer.blockhash}, ${offer.message}, ${offer.lastValidBlockHeight},
      ${offer.purpose}, ${offer.planId},
      ${offer.subscriptionPda}, ${offer.checkoutSessionId}, ${offer.resumes}, ${offer.replaces},
      ${offer.changeWhen}, ${offer.trialHours})
    returning id`;
  return row.id;
}

/**
 * Records that the offer's transaction may have been sent and can land up to the block height
 * `height`. Until then the offer reserves the customer of its checkout session.
 */
export async function reserveOffer(sql: Queryable, offerId: string, height: bigint): Promise<void> {
  await sql`
    update offered_transactions set reserved_height = greatest(reserved_height, ${height}::int8)
    where id = ${offerId}`;
}

/** Reads the transaction that the relay took for this offer. */
export async function readRelayed(
  sql: Queryable,
  offerId: string,
): Promise<{ signature: string; blockhash: string } | undefined> {
  const [row] = await sql<{ signature: string; blockhash: string }[]>`
    select signature, relayed_blockhash as blockhash from offered_transactions
    where id = ${offerId} and signature is not null`;
  return row;
}

/**
 * Stores the signature (Base58) and the blockhash of the transaction that the relay takes for this
 * offer. Call it before a subscriber's transaction is first sent, and after a merchant's was sent:
 * an open refund ends with it (countOpenRefunds). Another transaction of the same offer replaces
 * both only if `dead` is the stored signature: its transaction can no longer land. Returns `other`,
 * without storing them, if it may, and `ended` if the offer is a change of plan and the replaced
 * subscription has ended. The lock on that subscription orders this against a forced end
 * (lockSignedChanges).
 */
export async function recordRelayed(
  sql: Queryable,
  { id, replaces }: Pick<OfferedTransaction, 'id' | 'replaces'>,
  { signature, blockhash }: { signature: string; blockhash: string },
  dead: string | null = null,
): Promise<'stored' | 'other' | 'ended'> {
  const { count } = await sql`
    with replaced as (
      select status in ('active', 'past_due') as is_live from subscriptions
      where id = ${replaces} for share
    )
    update offered_transactions
    set signature = ${signature}, relayed_blockhash = ${blockhash},
      relayed_at = coalesce(relayed_at, now())
    where id = ${id} and (signature is null or signature = ${signature} or signature = ${dead})
      and (${replaces === null} or signature = ${signature}
        or exists (select from replaced where is_live))`;
  if (count === 1) return 'stored';
  const stored = (await readRelayed(sql, id))?.signature;
  return stored === undefined || stored === dead ? 'ended' : 'other';
}

/**
 * Finds up to 50 transactions that were offered to a wallet, or only the offer `offerId`. Offers
 * with the given blockhash come first, then the newest offers.
 */
export function findOffers(
  sql: Queryable,
  wallet: string,
  { blockhash, offerId }: { blockhash: string; offerId?: string | undefined },
): Promise<OfferedTransaction[]> {
  return sql<OfferedTransaction[]>`
    select id, wallet, blockhash, message, last_valid_block_height, purpose, plan_id,
      subscription_pda, checkout_session_id, resumes, replaces, change_when, trial_hours,
      created_at as offered_at
    from offered_transactions
    where wallet = ${wallet} and message is not null
      ${offerId === undefined ? sql`` : sql`and id = ${offerId}`}
    order by blockhash = ${blockhash} desc, id desc limit 50`;
}

/** Offers to `wallet` for this address. Null `after`: there is no earlier registration. */
export interface OffersOf {
  wallet: string;
  subscriptionPda: string;
  /**
   * Only offers that the wallet asked for after this time of the database count
   * (domain/registration/ended.ts).
   */
  after: Date | null;
}

/** SQL condition: `offered_transactions o` is a subscribe offer that is open and counts. */
const isOpenOffer = (
  sql: Queryable,
  { wallet, subscriptionPda, after }: OffersOf,
) => sql`(o.subscription_pda = ${subscriptionPda} and o.wallet = ${wallet}
  and o.purpose = 'subscribe' and o.registered_at is null
  and (${after}::timestamptz is null or ${askedAt(sql)} > ${after}))`;

/**
 * SQL for the time at which the wallet asked for the subscribe offer `o`, or, if it resumes an
 * account, handed it over.
 */
const askedAt = (sql: Queryable) =>
  sql`greatest(o.created_at, case when o.resumes then o.relayed_at end)`;

/** Reads when the wallet asked for this subscribe offer, or handed it over if it resumes. */
export async function readAskedAt(sql: Queryable, offerId: string): Promise<Date | undefined> {
  const [row] = await sql<{ at: Date }[]>`
    select ${askedAt(sql)} as at from offered_transactions o where o.id = ${offerId}`;
  return row?.at;
}

/**
 * Tells whether the wallet has handed over, after `after`, a signed transaction that resumes this
 * account: to the relay, or as a sponsored transaction.
 */
export async function isResumeTaken(
  sql: Queryable,
  { wallet, subscriptionPda, after }: OffersOf & { after: Date },
): Promise<boolean> {
  const [row] = await sql<[{ taken: boolean }]>`
    select exists (select from offered_transactions where wallet = ${wallet}
        and subscription_pda = ${subscriptionPda} and purpose = 'resume' and relayed_at > ${after})
      or exists (select from sponsorships s join sponsored_offers o on o.id = s.offer_id
        where s.subscription_pda = ${subscriptionPda} and s.wallet = ${wallet}
          and s.purpose = 'resume' and o.signed_at > ${after}) as taken`;
  return row.taken;
}

/** An offer to subscribe that no registration has used, with the terms of its checkout session. */
export interface OpenOffer extends DiscountTerms {
  id: string;
  /** The database's time at which the transaction was offered. */
  offeredAt: Date;
  blockhash: string;
  /** The signature of the transaction that the relay took for this offer; null before. */
  signature: string | null;
  checkoutSessionId: string | null;
  /** The session's customer. */
  externalId: string | null;
  /**
   * Hours of the trial that the wallet was shown; 0 without a trial. Null for an offer of an older
   * release without a trial of the session: the plan's trial counts.
   */
  trialHours: number | null;
  replaces: string | null;
  changeWhen: ChangeWhen | null;
  /** Whether the session expired before the relay bound it to the wallet. */
  isLapsed: boolean;
  /** Whether another registration has completed the session, or another wallet has it. */
  isTaken: boolean;
}

/**
 * Maximum number of offers that are read for an address. Only the wallet itself can ask for more.
 */
const MAX_OFFERS = 1000;

/**
 * Reads the offers to subscribe that are open and count: those that the relay took first, then the
 * newest first.
 */
export function readOpenOffers(sql: Queryable, of: OffersOf): Promise<OpenOffer[]> {
  return sql<OpenOffer[]>`
    select o.id, o.created_at as offered_at, o.blockhash, o.signature, o.checkout_session_id,
      o.replaces, o.change_when, c.external_id, coalesce(o.trial_hours, c.trial_hours) as trial_hours,
      c.discount_percent, c.discount_amount, c.discount_periods,
      coalesce(c.subscriber_wallet is null and c.expires_at <= now(), false) as is_lapsed,
      c.subscription_id is not null or coalesce(c.subscriber_wallet <> o.wallet, false)
        or coalesce(c.for_wallet <> o.wallet, false) as is_taken
    from offered_transactions o left join checkout_sessions c on c.id = o.checkout_session_id
    where ${isOpenOffer(sql, of)}
    order by o.signature is null, o.id desc limit ${MAX_OFFERS}`;
}

/**
 * Tells whether the wallet has subscribe offers for this address that are not registered yet:
 * offers that open the account (`opening`) and offers that resume the account (`resuming`).
 */
export async function readOffered(
  sql: Queryable,
  of: OffersOf,
): Promise<{ opening: boolean; resuming: boolean }> {
  const [row] = await sql<{ opening: boolean; resuming: boolean }[]>`
    select coalesce(bool_or(not resumes), false) as opening,
      coalesce(bool_or(resumes), false) as resuming
    from offered_transactions o where ${isOpenOffer(sql, of)}`;
  return row ?? { opening: false, resuming: false };
}

/**
 * Deletes up to 1,000 old offers. Subscribe offers, and resume offers that the relay took: after 24
 * hours those that a registration has used or that a keeper has given up (giveUpOffers), after 30
 * days all. Other offers: after ten minutes. Also clears up to 1,000 messages older than ten
 * minutes, because their blockhashes have expired. Returns the larger of the two numbers. If it is
 * 1,000, more rows may be left.
 */
export async function deleteOldOffers(sql: Queryable): Promise<number> {
  const deleted = await sql`
    delete from offered_transactions where id in (
      select id from offered_transactions where created_at < now() - interval '10 minutes'
        and (not (purpose = 'subscribe' or (purpose = 'resume' and relayed_at is not null))
          or (created_at < now() - interval '24 hours'
            and (registered_at is not null or look_at = 'infinity'))
          or created_at < now() - interval '30 days')
        order by created_at limit 1000
    )`;
  const emptied = await sql`
    update offered_transactions set message = null where id in (
      select id from offered_transactions where created_at < now() - interval '10 minutes'
        and message is not null order by created_at limit 1000
    )`;
  return Math.max(deleted.count, emptied.count);
}
