import type { Queryable } from './postgres/connect.ts';

export type Purpose =
  'subscribe' | 'cancel' | 'resume' | 'close' | 'repair' | 'publish' | 'pullers' | 'refund';

export interface NewOffer {
  wallet: string;
  blockhash: string;
  /** The message bytes that the wallet signs. */
  message: Buffer;
  lastValidBlockHeight: bigint;
  purpose: Purpose;
  planId: string;
  /** Null when the purpose is `publish` or `pullers`. */
  subscriptionPda: string | null;
  /** The checkout session in which the wallet subscribes. */
  checkoutSessionId: string | null;
}

export interface OfferedTransaction extends NewOffer {
  id: string;
}

/** Stores an unsigned transaction offered to a wallet for signing; returns the offer's id. */
export async function insertOffer(sql: Queryable, offer: NewOffer): Promise<string> {
  const [row] = await sql<[{ id: string }]>`
    insert into offered_transactions (wallet, blockhash, message, last_valid_block_height, purpose,
      plan_id, subscription_pda,
      checkout_session_id)
    values (${offer.wallet}, ${offer.blockhash}, ${offer.message}, ${offer.lastValidBlockHeight},
      ${offer.purpose}, ${offer.planId},
      ${offer.subscriptionPda}, ${offer.checkoutSessionId})
    returning id`;
  return row.id;
}

/**
 * Finds the newest 50 transactions that were offered to a wallet, or the one with this id. Those
 * with this blockhash come first, then the newest.
 */
export function findOffers(
  sql: Queryable,
  wallet: string,
  { blockhash, offerId }: { blockhash: string; offerId?: string | undefined },
): Promise<OfferedTransaction[]> {
  return sql<OfferedTransaction[]>`
    select id, wallet, blockhash, message, last_valid_block_height, purpose, plan_id,
      subscription_pda, checkout_session_id
    from offered_transactions
    where wallet = ${wallet} ${offerId === undefined ? sql`` : sql`and id = ${offerId}`}
    order by blockhash = ${blockhash} desc, id desc limit 50`;
}

/** Deletes up to 1,000 offers older than ten minutes and returns the number deleted. */
export async function deleteOldOffers(sql: Queryable): Promise<number> {
  const { count } = await sql`
    delete from offered_transactions where id in (
      select id from offered_transactions where created_at < now() - interval '10 minutes'
        order by created_at limit 1000
    )`;
  return count;
}
