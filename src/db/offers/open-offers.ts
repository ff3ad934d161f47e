// The offers to subscribe from which a live account may come.
import type { Queryable } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';
import type { ChangeWhen } from './offers.ts';
import type { DiscountTerms } from './terms.ts';

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

/** SQL condition: `offers o` is an open subscribe offer whose wallet pays, made after `after`. */
const isOpenOffer = (
  sql: Queryable,
  { wallet, subscriptionPda, after }: OffersOf,
) => sql`(o.subscription_pda = ${subscriptionPda} and o.wallet = ${wallet}
  and o.sponsor is null and o.purpose = 'subscribe' and o.registered_at is null
  and (${after}::timestamptz is null or ${isAfter(sql, sql`o.created_at`, after)}))`;

/** SQL condition: the column's time is after `after`, which JavaScript cuts to milliseconds. */
const isAfter = (sql: Queryable, column: Fragment, after: Date | null) =>
  sql`date_trunc('milliseconds', ${column}) > ${after}`;

/** Reads when the wallet asked for this subscribe offer. */
export async function readAskedAt(sql: Queryable, offerId: string): Promise<Date | undefined> {
  const [row] = await sql<{ at: Date }[]>`
    select o.created_at as at from offers o where o.id = ${offerId}`;
  return row?.at;
}

/**
 * Tells whether the wallet has submitted, after `after`, a signed transaction that resumes this
 * account: to the relay, or as a sponsored transaction.
 */
export async function isResumeTaken(
  sql: Queryable,
  { wallet, subscriptionPda, after }: OffersOf & { after: Date },
): Promise<boolean> {
  const [row] = await sql<[{ taken: boolean }]>`
    select exists (select from offers o where o.wallet = ${wallet}
      and o.subscription_pda = ${subscriptionPda} and o.purpose = 'resume'
      and ${isAfter(sql, sql`o.signed_at`, after)}
      and (o.sponsor is null or exists (select from sponsorships s where s.offer_id = o.id))) as taken`;
  return row.taken;
}

/** An offer to subscribe that no registration has used, with the terms of its checkout session. */
export interface OpenOffer extends DiscountTerms {
  id: string;
  /** The database's time at which the transaction was offered. */
  offeredAt: Date;
  blockhash: string;
  /** The signature of the transaction that the relay accepted for this offer; null before. */
  signature: string | null;
  checkoutSessionId: string | null;
  /** The session's customer. */
  externalId: string | null;
  /**
   * Hours of the trial that the wallet was shown; 0 without a trial. Null for an offer of an older
   * release whose session has no trial. Then the plan's trial counts.
   */
  trialHours: number | null;
  replaces: string | null;
  changeWhen: ChangeWhen | null;
  /** Whether the transaction resumes an account, instead of opening one. */
  resumes: boolean;
  /** Whether the transaction cancels the subscription `replaces`; null if this is not stored. */
  cancels: boolean | null;
  /** The end of the session; null without a session. */
  expiresAt: Date | null;
  /** Whether the session has expired. */
  isLapsed: boolean;
  /**
   * Whether another registration has completed the session, or the session is bound to another
   * wallet.
   */
  isTaken: boolean;
}

/**
 * Maximum number of offers that are read for an address. Only the wallet itself can create more
 * offers for it.
 */
const MAX_OFFERS = 1000;

/** Reads the open offers to subscribe. Relayed offers come first, then the newest offers. */
export function readOpenOffers(sql: Queryable, of: OffersOf): Promise<OpenOffer[]> {
  return sql<OpenOffer[]>`
    select o.id, o.created_at as offered_at, o.blockhash, o.signature, o.checkout_session_id,
      o.replaces, o.change_when, o.resumes, o.cancels, c.external_id,
      coalesce(o.trial_hours, c.trial_hours) as trial_hours,
      c.discount_percent, c.discount_amount, c.discount_periods, c.expires_at,
      coalesce(c.expires_at <= now(), false) as is_lapsed,
      c.subscription_id is not null or coalesce(c.subscriber_wallet <> o.wallet, false)
        or coalesce(c.for_wallet <> o.wallet, false) as is_taken
    from offers o left join checkout_sessions c on c.id = o.checkout_session_id
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
    from offers o where ${isOpenOffer(sql, of)}`;
  return row ?? { opening: false, resuming: false };
}
