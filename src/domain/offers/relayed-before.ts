// The relay sends one transaction of an offer at a time. An offer stores one relayed transaction,
// but its wallet may sign the offer again, with a newer blockhash or another fee. If the relay sent
// both, later checks would miss the transaction that is not stored: a force-cancel or another
// subscription of the customer could be accepted, and a refund could be paid twice. So the relay
// accepts a second transaction only when the stored one can no longer land.
import { readRelayed } from '../../db/offers/offers.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { ServiceError } from '../../errors.ts';
import { type ChainSender, hasLapsed, readLifetimeOfNew } from '../chain-reads.ts';
import type { SignedOffer, TakenOffer } from './relay.ts';

/** A signed transaction that the relay may accept. */
export interface Takeable {
  taken: TakenOffer;
  /**
   * The signature of another relayed transaction of the offer that can no longer land; null if
   * there is none.
   */
  dead: string | null;
}

/**
 * Reads what the relay needs to accept the transaction. If the relay accepted the same transaction
 * before, its stored lifetime is used. Throws CONFLICT while another relayed transaction of the
 * offer may land. Throws INTERNAL_ERROR when the chain is unreachable.
 */
export async function readTakeable(
  sql: Queryable,
  chain: ChainSender,
  { blockhash, ...signed }: SignedOffer,
): Promise<Takeable> {
  const { offer, signature } = signed;
  const before = await readRelayed(sql, offer.id);
  if (before?.signature === signature)
    return { taken: { ...signed, lifetime: before }, dead: null };
  if (before !== undefined && !(await hasLapsed(chain, { ...before, lifetime: before })))
    throw otherMayLand();
  const { lastValidBlockHeight, blockhashSlot: slot } = offer;
  const lifetime =
    blockhash === offer.blockhash
      ? { blockhash, lastValidBlockHeight, slot }
      : await readLifetimeOfNew(chain, blockhash);
  return { taken: { ...signed, lifetime }, dead: before?.signature ?? null };
}

/** The error when another transaction of the same offer may still land. */
export const otherMayLand = () =>
  new ServiceError(
    'CONFLICT',
    'Another transaction of this offer was sent and may still land: send that one again, or ask for a new offer.',
  );
