// Offers of sponsored transactions. The API (`serve`) stores each offer, and later the transaction
// that the wallet signed. A keeper reads the signed offers and stores its decisions as sponsorships
// (sponsorships.ts).
import { secondsSince } from '../postgres/clock.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import type { MayLand } from './offered-transactions.ts';

/** A keeper may decide about an offer for this many minutes after the wallet has signed it. */
export const DECISION_MINUTES = 10;

export type SponsoredPurpose = 'subscribe' | 'cancel' | 'resume' | 'close' | 'repair' | 'revoke';

export interface NewSponsoredOffer {
  id: string;
  purpose: SponsoredPurpose;
  wallet: string;
  sponsor: string;
  /** `planId` and `subscriptionPda` are null when the purpose is `revoke`. */
  planId: string | null;
  subscriptionPda: string | null;
  checkoutSessionId: string | null;
  /** The client's network address. Each network address has a budget. */
  address: string;
  /** Origin of the page that may use the offer's secret; null if the request named no Origin. */
  origin: string | null;
  /** SHA-256 of the secret that authorises use of the offer. Null for a signed-in wallet. */
  secretHash: Buffer | null;
  message: Buffer;
  blockhash: string;
  lastValidBlockHeight: bigint;
  blockhashSlot: bigint;
  computeUnits: number;
  unitPrice: bigint;
  loadedDataBytes: number;
  withdraws: boolean;
  /** The subscription that a change of plan replaces. Null without a change of plan. */
  replaces: string | null;
  /** The chain time at which the credit of the change of plan was computed. */
  creditAt: Date | null;
}

export interface SponsoredOffer extends NewSponsoredOffer {
  createdAt: Date;
}

export interface SignedSponsoredOffer extends SponsoredOffer {
  signed: Buffer;
  signedAt: Date;
}

const columns = (sql: Queryable) => sql`
  o.id, o.purpose, o.wallet, o.sponsor, o.plan_id, o.subscription_pda, o.checkout_session_id,
  o.address, o.origin, o.secret_hash, o.message, o.blockhash, o.last_valid_block_height,
  o.blockhash_slot, o.compute_units, o.unit_price, o.loaded_data_bytes, o.withdraws, o.replaces,
  o.credit_at, o.created_at`;

export async function insertSponsoredOffer(
  sql: Queryable,
  offer: NewSponsoredOffer,
): Promise<void> {
  await sql`
    insert into sponsored_offers (id, purpose, wallet, sponsor, plan_id, subscription_pda,
      checkout_session_id, address, origin, secret_hash, message, blockhash,
      last_valid_block_height, blockhash_slot, compute_units, unit_price, loaded_data_bytes,
      withdraws, replaces, credit_at)
    values (${offer.id}, ${offer.purpose}, ${offer.wallet}, ${offer.sponsor}, ${offer.planId},
      ${offer.subscriptionPda}, ${offer.checkoutSessionId}, ${offer.address}, ${offer.origin},
      ${offer.secretHash}, ${offer.message}, ${offer.blockhash}, ${offer.lastValidBlockHeight},
      ${offer.blockhashSlot}, ${offer.computeUnits}, ${offer.unitPrice}, ${offer.loadedDataBytes},
      ${offer.withdraws}, ${offer.replaces}, ${offer.creditAt})`;
}

export async function findSponsoredOffer(
  sql: Queryable,
  id: string,
): Promise<SponsoredOffer | undefined> {
  const [row] = await sql<SponsoredOffer[]>`
    select ${columns(sql)} from sponsored_offers o where o.id = ${id}`;
  return row;
}

/**
 * Stores the transaction that the wallet signed. Returns false, without storing it, if (1) the
 * offer already has a signed transaction, (2) a keeper has decided about the offer, or (3) the
 * offer is older than ten minutes.
 */
export async function storeSigned(sql: Queryable, id: string, signed: Buffer): Promise<boolean> {
  const { count } = await sql`
    update sponsored_offers o set signed = ${signed}, signed_at = now()
    where o.id = ${id} and o.signed is null and o.created_at > now() - interval '10 minutes'
      and not exists (select from sponsorships s where s.offer_id = o.id)`;
  return count === 1;
}

/**
 * Locks the hand-overs of a wallet until the transaction ends, so that two of them cannot each find
 * no other.
 */
export async function lockHandOvers(tx: Transaction, wallet: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${wallet}, 3))`;
}

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
    from sponsored_offers o
    where o.wallet = ${wallet} and o.id <> ${id}
      and o.signed_at > now() - ${DECISION_MINUTES} * interval '1 minute'
      and not exists (select from sponsorships s where s.offer_id = o.id)`;
}

/** Seconds after which another keeper may take an offer that a keeper has taken. */
const TAKEN_SECONDS = 5;

/**
 * SQL for the network of the client that asked for the offer `o`, or for that of the sponsorship
 * `o`: its IPv4 address, or its IPv6 /48. One customer may have all addresses of a /48.
 */
export const networkOf = (sql: Queryable) => sql`
  coalesce(substring(o.address from '^address:[^:]*:[^:]*:[^:]*'), o.address)`;

/**
 * Takes the undecided signed offer whose turn it is, so that the caller decides about it. Undefined
 * if no offer is due. Client networks take turns, then merchants (an offer without a plan: its
 * wallet). The network with the oldest last turn comes first; a decision, or the next look at an
 * offer that was put off, is a turn. The lock makes keepers take offers one after another: each
 * sees the turn that the others took. Leaves out offers that were signed more than ten minutes ago,
 * because their blockhash has expired.
 */
export async function takeSignedOffer(
  tx: Transaction,
  sponsors: readonly string[],
): Promise<SignedSponsoredOffer | undefined> {
  await tx`select pg_advisory_xact_lock(hashtextextended('signed offers', 2))`;
  const [row] = await tx<SignedSponsoredOffer[]>`
    with recent as (
      select o.id, coalesce(o.look_at, o.signed_at) as due_at, ${networkOf(tx)} as network,
        coalesce(a.merchant_id::text, o.wallet) as merchant,
        greatest(o.look_at, s.created_at) as turn_at,
        s.offer_id is null and o.sponsor = any(${[...sponsors]}::text[])
          and coalesce(o.look_at <= now(), true) as is_due
      from sponsored_offers o left join sponsorships s on s.offer_id = o.id
        left join plans p on p.id = o.plan_id left join apps a on a.id = p.app_id
      where o.signed_at > now() - ${DECISION_MINUTES} * interval '1 minute'
    ), turns as (
      select id, due_at, is_due, max(turn_at) over (partition by network) as network_at,
        max(turn_at) over (partition by merchant) as merchant_at
      from recent
    ), next as (
      select id from turns where is_due
      order by network_at nulls first, merchant_at nulls first, due_at, id limit 1
    )
    update sponsored_offers o set look_at = now() + ${TAKEN_SECONDS} * interval '1 second'
    from next where o.id = next.id
    returning ${columns(tx)}, o.signed, o.signed_at`;
  return row;
}

/**
 * Puts off an offer about which a keeper could not decide: by a quarter of the time since its
 * wallet signed it, but at least a second.
 */
export async function putOffOffer(sql: Queryable, id: string): Promise<void> {
  await sql`
    update sponsored_offers
    set look_at = now() + greatest(interval '1 second', (now() - signed_at) / 4)
    where id = ${id}`;
}

/**
 * Returns for how many seconds the oldest undecided offer has been due. An offer that a keeper has
 * taken or put off is not due. 0 if none is.
 */
export async function readOldestOffer(sql: Queryable): Promise<number> {
  const [row] = await sql<{ seconds: number }[]>`
    select ${secondsSince(sql, sql`min(coalesce(o.look_at, o.signed_at))`)} as seconds
    from sponsored_offers o
    where o.signed_at > now() - ${DECISION_MINUTES} * interval '1 minute'
      and coalesce(o.look_at <= now(), true)
      and not exists (select from sponsorships s where s.offer_id = o.id)`;
  return row?.seconds ?? 0;
}

/**
 * Refuses at most 1,000 signed offers as `lapsed`: offers that were signed more than ten minutes
 * ago and about which no keeper has decided. Keepers do not decide about such offers. Returns the
 * number of refused offers.
 */
export async function lapseOffers(sql: Queryable): Promise<number> {
  const { count } = await sql`
    insert into sponsorships (offer_id, purpose, wallet, address, sponsor, merchant_id, plan_id,
      subscription_pda, checkout_session_id, replaces, credit_at, state, reason, ended_at)
    select o.id, o.purpose, o.wallet, o.address, o.sponsor, a.merchant_id, o.plan_id,
      o.subscription_pda, o.checkout_session_id, o.replaces, o.credit_at, 'refused', 'lapsed', now()
    from sponsored_offers o left join plans p on p.id = o.plan_id
      left join apps a on a.id = p.app_id
    where o.signed_at <= now() - ${DECISION_MINUTES} * interval '1 minute'
      and not exists (select from sponsorships s where s.offer_id = o.id)
    order by o.signed_at limit 1000
    on conflict (offer_id) do nothing`;
  return count;
}

/**
 * Deletes at most 1,000 offers: unsigned offers after ten minutes, signed offers 24 hours after
 * their end, but not while their transaction is sent: a landed resume is registered by its offer
 * (isResumeTaken).
 */
export async function deleteOldSponsoredOffers(sql: Queryable): Promise<number> {
  const { count } = await sql`
    delete from sponsored_offers where id in (
      select o.id from sponsored_offers o left join sponsorships s on s.offer_id = o.id
      where o.created_at < now() - interval '10 minutes'
        and (o.signed is null or (o.created_at < now() - interval '24 hours'
          and s.state is distinct from 'open'
          and coalesce(s.ended_at < now() - interval '24 hours', true)))
      order by o.created_at limit 1000
    )`;
  return count;
}

/**
 * The merchant of a plan, with the merchant's and the app's settings for sponsored transactions.
 */
export interface SponsoredPlan {
  merchantId: string;
  /** The wallet with which the merchant signs in. */
  accountWallet: string;
  /** The merchant's own platform fee. Null means the operator's default fee. */
  feeBps: number | null;
  sponsorship: 'on' | 'off';
}

export async function findSponsoredPlan(
  sql: Queryable,
  planId: string,
): Promise<SponsoredPlan | undefined> {
  const [row] = await sql<SponsoredPlan[]>`
    select m.id as merchant_id, m.wallet as account_wallet, m.fee_bps, a.sponsorship
    from plans p join apps a on a.id = p.app_id join merchants m on m.id = a.merchant_id
    where p.id = ${planId}`;
  return row;
}
