// The transactions that wallets sign. `serve` stores each offered transaction, and later the
// transaction that the wallet signed. Without a sponsor, the relay then sends the transaction. With
// a sponsor, a keeper decides about it (signed-offers.ts, sponsorships.ts).
import type { Queryable, Transaction } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';

/** A keeper may decide about an offer for this many minutes after the wallet has signed it. */
export const DECISION_MINUTES = 10;

export type SponsoredPurpose = 'subscribe' | 'cancel' | 'resume' | 'close' | 'repair' | 'revoke';
export type Purpose = SponsoredPurpose | 'publish' | 'pullers' | 'refund';

/** When a change of plan takes effect: when its transaction lands, or when the paid period ends. */
export type ChangeWhen = 'now' | 'period_end';

interface Terms<Of extends Purpose> {
  wallet: string;
  purpose: Of;
  /** Null when the purpose is `revoke`. */
  planId: string | null;
  /** Null when the purpose is `publish`, `pullers` or `revoke`. */
  subscriptionPda: string | null;
  /** The checkout session in which the wallet subscribes. */
  checkoutSessionId: string | null;
  /** The message bytes that the wallet signs. */
  message: Buffer;
  blockhash: string;
  lastValidBlockHeight: bigint;
  /** Slot of the RPC response that contained the blockhash. */
  blockhashSlot: bigint;
  /** The subscription that a change of plan replaces; null without a change of plan. */
  replaces: string | null;
}

/** An offer whose wallet pays, and which the relay sends. */
export interface NewOffer extends Terms<Purpose> {
  /**
   * Whether a `subscribe` transaction resumes a cancelled account instead of opening a new account.
   */
  resumes: boolean;
  changeWhen: ChangeWhen | null;
  /**
   * Whether the transaction cancels the subscription that it replaces. False if that subscription
   * is already cancelled. Null for purposes other than `subscribe`.
   */
  cancels: boolean | null;
  /**
   * Hours of the trial that the wallet was shown; 0 without a trial. Null for a change of plan and
   * for purposes other than `subscribe`. Then the trial of the session or the plan counts.
   */
  trialHours: number | null;
}

/** An offer for which a keeper's wallet pays, and which that keeper sends. */
export interface NewSponsoredOffer extends Terms<SponsoredPurpose> {
  id: string;
  sponsor: string;
  /** The client's network address. Each network address has a budget. */
  address: string;
  /** Origin of the page that may use the offer's secret; null if the request named no Origin. */
  origin: string | null;
  /** SHA-256 of the secret that authorises use of the offer. Null for a signed-in wallet. */
  secretHash: Buffer | null;
  computeUnits: number;
  unitPrice: bigint;
  loadedDataBytes: number;
  /**
   * For `close`: whether to revoke the approval too. For `revoke`: whether to close the authority
   * too.
   */
  withdraws: boolean;
  /** The chain time at which the credit of the change of plan was computed. */
  creditAt: Date | null;
}

export interface OfferedTransaction extends NewOffer {
  id: string;
  /** The database's time at which the transaction was offered. */
  offeredAt: Date;
}

export interface SponsoredOffer extends NewSponsoredOffer {
  createdAt: Date;
}

/** The lifetime of a signed transaction, which tells whether it may still land. */
export interface MayLand {
  blockhash: string;
  lastValidBlockHeight: bigint;
  /** Slot of the response that contained the blockhash; 0 where it is not stored. */
  slot: bigint;
}

const sharedColumns = (sql: Queryable) => sql`
  o.id, o.wallet, o.purpose, o.plan_id, o.subscription_pda, o.checkout_session_id, o.message,
  o.blockhash, o.last_valid_block_height, o.blockhash_slot, o.replaces`;

/** SQL for the columns of the sponsored offer `o`. */
export const sponsoredColumns = (sql: Queryable) => sql`
  ${sharedColumns(sql)}, o.sponsor, o.address, o.origin, o.secret_hash, o.compute_units,
  o.unit_price, o.loaded_data_bytes, o.withdraws, o.credit_at, o.created_at`;

/** Stores an unsigned transaction offered to a wallet for signing; returns the offer's id. */
export async function insertOffer(
  sql: Queryable,
  offer: NewOffer | NewSponsoredOffer,
): Promise<string> {
  const paid = 'sponsor' in offer ? undefined : offer;
  const sponsored = 'sponsor' in offer ? offer : undefined;
  const [row] = await sql<[{ id: string }]>`
    insert into offers (id, wallet, purpose, plan_id, subscription_pda, checkout_session_id,
      message, blockhash, last_valid_block_height, blockhash_slot, replaces, resumes, change_when,
      trial_hours, cancels, sponsor, address, origin, secret_hash, compute_units, unit_price,
      loaded_data_bytes, withdraws, credit_at)
    values (coalesce(${sponsored?.id ?? null}, uuid_v7()), ${offer.wallet}, ${offer.purpose},
      ${offer.planId}, ${offer.subscriptionPda}, ${offer.checkoutSessionId}, ${offer.message},
      ${offer.blockhash}, ${offer.lastValidBlockHeight}, ${offer.blockhashSlot}, ${offer.replaces},
      ${paid?.resumes ?? false}, ${paid?.changeWhen ?? null}, ${paid?.trialHours ?? null},
      ${paid?.cancels ?? null}, ${sponsored?.sponsor ?? null}, ${sponsored?.address ?? null},
      ${sponsored?.origin ?? null}, ${sponsored?.secretHash ?? null}, ${sponsored?.computeUnits ?? null},
      ${sponsored?.unitPrice ?? null}, ${sponsored?.loadedDataBytes ?? null},
      ${sponsored?.withdraws ?? false}, ${sponsored?.creditAt ?? null})
    returning id`;
  return row.id;
}

/**
 * Finds up to 50 transactions that were offered to a wallet which pays for them, or only the offer
 * `offerId`. Offers with the given blockhash come first, then the newest offers.
 */
export function findOffers(
  sql: Queryable,
  wallet: string,
  { blockhash, offerId }: { blockhash: string; offerId?: string | undefined },
): Promise<OfferedTransaction[]> {
  return sql<OfferedTransaction[]>`
    select ${sharedColumns(sql)}, o.resumes, o.change_when, o.cancels, o.trial_hours,
      o.created_at as offered_at
    from offers o
    where o.wallet = ${wallet} and o.sponsor is null and o.message is not null
      ${offerId === undefined ? sql`` : sql`and o.id = ${offerId}`}
    order by o.blockhash = ${blockhash} desc, o.id desc limit 50`;
}

export async function findSponsoredOffer(
  sql: Queryable,
  id: string,
): Promise<SponsoredOffer | undefined> {
  const [row] = await sql<SponsoredOffer[]>`
    select ${sponsoredColumns(sql)} from offers o where o.id = ${id} and o.sponsor is not null`;
  return row;
}

/**
 * Records that the offer's transaction may have been sent and can land up to the block height
 * `height`. Until then the offer reserves the customer of its checkout session.
 */
export async function reserveOffer(sql: Queryable, offerId: string, height: bigint): Promise<void> {
  await sql`
    update offers set reserved_height = greatest(reserved_height, ${height}::int8)
    where id = ${offerId}`;
}

/** SQL for the lifetime of the transaction that the relay accepted for the offer `alias`. */
export const signedLifetime = (sql: Queryable, alias: Fragment) => sql`
  ${alias}.signed_blockhash as blockhash,
  ${alias}.signed_last_valid_block_height as last_valid_block_height,
  ${alias}.signed_blockhash_slot as slot`;

/** A transaction that the relay accepted for an offer, and its lifetime. */
export interface RelayedTransaction extends MayLand {
  signature: string;
}

/** Reads the transaction that the relay accepted for this offer. */
export async function readRelayed(
  sql: Queryable,
  offerId: string,
): Promise<RelayedTransaction | undefined> {
  const [row] = await sql<RelayedTransaction[]>`
    select o.signature, ${signedLifetime(sql, sql`o`)} from offers o
    where o.id = ${offerId} and o.signature is not null`;
  return row;
}

/**
 * Stores the signature (Base58) and the lifetime of the transaction that the relay accepts for this
 * offer. Call it before the first send, because it closes an open refund (countOpenRefunds). A
 * stored transaction is replaced only if its signature is `dead`, which means that it can no longer
 * land. Returns `other` and stores nothing if the stored transaction may still land. Returns
 * `known` if the same transaction is already stored.
 */
export async function recordRelayed(
  sql: Queryable,
  { id }: Pick<OfferedTransaction, 'id'>,
  { signature, blockhash, lastValidBlockHeight, slot }: RelayedTransaction,
  dead: string | null = null,
): Promise<'new' | 'known' | 'other'> {
  const [row] = await sql<{ isNew: boolean }[]>`
    with before as (select id, signature from offers where id = ${id} for no key update)
    update offers o
    set signature = ${signature}, signed_blockhash = ${blockhash},
      signed_last_valid_block_height = ${lastValidBlockHeight}, signed_blockhash_slot = ${slot},
      signed_at = coalesce(o.signed_at, now())
    from before
    where o.id = before.id and (before.signature is null or before.signature = ${signature}
      or before.signature = ${dead})
    returning before.signature is distinct from ${signature} as is_new`;
  if (row === undefined) return 'other';
  return row.isNew ? 'new' : 'known';
}

/**
 * Stores the transaction that the wallet signed. Returns false, without storing it, if (1) the
 * offer already has a signed transaction, (2) a keeper has decided about the offer, or (3) the
 * offer is older than ten minutes.
 */
export async function storeSigned(sql: Queryable, id: string, signed: Buffer): Promise<boolean> {
  const { count } = await sql`
    update offers o set signed = ${signed}, signed_at = now()
    where o.id = ${id} and o.sponsor is not null and o.signed is null
      and o.created_at > now() - interval '10 minutes'
      and not exists (select from sponsorships s where s.offer_id = o.id)`;
  return count === 1;
}

/**
 * Locks the hand-overs of a wallet until the transaction ends. Otherwise two concurrent hand-overs
 * could each find no other open hand-over.
 */
export async function lockHandOvers(tx: Transaction, wallet: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${wallet}, 3))`;
}

/** SQL condition: the sponsored offer `o`, signed less than `minutes` ago, has no decision yet. */
export const isUndecided = (sql: Queryable, minutes = sql`${DECISION_MINUTES}`) => sql`(
  o.signed is not null and o.signed_at > now() - ${minutes} * interval '1 minute'
  and not exists (select from sponsorships s where s.offer_id = o.id))`;

/**
 * Lists the other signed offers that the wallet has handed over and about which no keeper has
 * decided.
 */
export function listUndecided(
  sql: Queryable,
  { wallet, id }: Pick<SponsoredOffer, 'wallet' | 'id'>,
): Promise<MayLand[]> {
  return sql<MayLand[]>`
    select o.blockhash, o.last_valid_block_height, o.blockhash_slot as slot
    from offers o
    where o.wallet = ${wallet} and o.id <> ${id} and ${isUndecided(sql)}`;
}

/**
 * Deletes up to 1,000 old offers, by who pays:
 *
 *   the wallet -> subscribe offers, and resume offers that the relay took: after 24 hours those
 *     that a registration has used or a keeper has given up (giveUpOffers), after 30 days all
 *   the sponsor -> signed offers: 24 hours after their end, but not while their transaction is
 *     sent: a landed resume is registered by its offer (isResumeTaken)
 *   either -> all others after ten minutes
 *
 * Also clears up to 1,000 messages older than ten minutes of offers whose wallet pays, because
 * their blockhashes have expired. Returns the larger of the two numbers. If it is 1,000, more rows
 * may be left.
 */
export async function deleteOldOffers(sql: Queryable): Promise<number> {
  const deleted = await sql`
    delete from offers where id in (
      select o.id from offers o left join sponsorships s on s.offer_id = o.id
      where o.created_at < now() - interval '10 minutes'
        and case when o.signed is not null then o.created_at < now() - interval '24 hours'
            and s.state is distinct from 'open'
            and coalesce(s.ended_at < now() - interval '24 hours', true)
          when o.sponsor is null and (o.purpose = 'subscribe'
              or (o.purpose = 'resume' and o.signed_at is not null))
            then (o.created_at < now() - interval '24 hours'
                and (o.registered_at is not null or o.look_at = 'infinity'))
              or o.created_at < now() - interval '30 days'
          else true end
      order by o.created_at limit 1000
    )`;
  const emptied = await sql`
    update offers set message = null where id in (
      select id from offers where created_at < now() - interval '10 minutes'
        and sponsor is null and message is not null order by created_at limit 1000
    )`;
  return Math.max(deleted.count, emptied.count);
}
