import type { Queryable } from './postgres/connect.ts';

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
}

export interface OfferedTransaction extends NewOffer {
  id: string;
}

/** Stores an unsigned transaction offered to a wallet for signing; returns the offer's id. */
export async function insertOffer(sql: Queryable, offer: NewOffer): Promise<string> {
  const [row] = await sql<[{ id: string }]>`
    insert into offered_transactions (wallet, blockhash, message, last_valid_block_height, purpose,
      plan_id, subscription_pda,
      checkout_session_id, resumes, replaces, change_when)
    values (${offer.wallet}, ${offer.blockhash}, ${offer.message}, ${offer.lastValidBlockHeight},
      ${offer.purpose}, ${offer.planId},
      ${offer.subscriptionPda}, ${offer.checkoutSessionId}, ${offer.resumes}, ${offer.replaces},
      ${offer.changeWhen})
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

/**
 * Stores a copy of the subscribe offer that the wallet has signed, so that this offer becomes the
 * newest offer for the address. Does nothing if the newest offer makes the same change of plan.
 * When a transaction lands, the newest offer decides which change of plan is registered.
 */
export async function repeatSignedOffer(sql: Queryable, offerId: string): Promise<void> {
  await sql`
    insert into offered_transactions (wallet, blockhash, message, last_valid_block_height, purpose,
      plan_id, subscription_pda, checkout_session_id, resumes, replaces, change_when)
    select wallet, blockhash, message, last_valid_block_height, purpose, plan_id, subscription_pda,
      checkout_session_id, resumes, replaces, change_when
    from offered_transactions o
    where id = ${offerId} and purpose = 'subscribe' and registered_at is null and exists (
      select from (
        select replaces, change_when from offered_transactions
        where subscription_pda = o.subscription_pda and wallet = o.wallet
          and purpose = 'subscribe' and registered_at is null order by id desc limit 1
      ) as newest
      where (replaces, change_when) is distinct from (o.replaces, o.change_when)
    )`;
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
      subscription_pda, checkout_session_id, resumes, replaces, change_when
    from offered_transactions
    where wallet = ${wallet} and message is not null
      ${offerId === undefined ? sql`` : sql`and id = ${offerId}`}
    order by blockhash = ${blockhash} desc, id desc limit 50`;
}

/**
 * Tells whether the wallet has subscribe offers for this address that are not registered yet:
 * offers that open the account (`opening`) and offers that resume the account (`resuming`).
 */
export async function readOffered(
  sql: Queryable,
  wallet: string,
  subscriptionPda: string,
): Promise<{ opening: boolean; resuming: boolean }> {
  const [row] = await sql<{ opening: boolean; resuming: boolean }[]>`
    select coalesce(bool_or(not resumes), false) as opening,
      coalesce(bool_or(resumes), false) as resuming
    from offered_transactions
    where subscription_pda = ${subscriptionPda} and wallet = ${wallet} and purpose = 'subscribe'
      and registered_at is null`;
  return row ?? { opening: false, resuming: false };
}

/**
 * Deletes up to 1,000 old offers: subscribe offers after 24 hours, other offers after ten minutes.
 * Also clears up to 1,000 messages older than ten minutes, because their blockhashes have expired.
 * Returns the larger of the two numbers. If it is 1,000, more rows may be left.
 */
export async function deleteOldOffers(sql: Queryable): Promise<number> {
  const deleted = await sql`
    delete from offered_transactions where id in (
      select id from offered_transactions where created_at < now() - interval '10 minutes'
        and (purpose <> 'subscribe' or created_at < now() - interval '24 hours')
        order by created_at limit 1000
    )`;
  const emptied = await sql`
    update offered_transactions set message = null where id in (
      select id from offered_transactions where created_at < now() - interval '10 minutes'
        and message is not null order by created_at limit 1000
    )`;
  return Math.max(deleted.count, emptied.count);
}
