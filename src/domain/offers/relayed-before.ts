// The relay takes one transaction of an offer at a time. A wallet can sign an offer again, with a
// newer blockhash or another fee. While both could land, the one stored with the offer would not
// tell whether the other may: a forced end or another customer's subscription could pass beside it,
// and two transfers of a refund would pay twice. So another transaction is taken only when the
// stored one can no longer land.
import { type Purpose, readRelayed } from '../../db/offers/offers.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { ServiceError } from '../../errors.ts';
import { type ChainSender, hasLapsed } from '../chain-reads.ts';
import type { SignedOffer } from './relay.ts';

/**
 * Returns the signature of the transaction that the relay took before for the offer, if it is
 * another one and can no longer land; null without another one. Throws CONFLICT while the other one
 * may land, and INTERNAL_ERROR when the chain is unreachable.
 */
export async function readDeadBefore(
  sql: Queryable,
  chain: ChainSender,
  { offer, signature }: SignedOffer,
): Promise<string | null> {
  const before = await readRelayed(sql, offer.id);
  if (before === undefined || before.signature === signature) return null;
  if (!(await hasLapsed(chain, { ...before, offer }))) throw otherMayLand();
  return before.signature;
}

/** The error when another transaction of the same offer may still land. */
export const otherMayLand = () =>
  new ServiceError(
    'CONFLICT',
    'Another transaction of this offer was sent and may still land: send that one again, or ask for a new offer.',
  );

/** The error when the subscription that an offer changes or resumes has ended. */
export const groundHasEnded = (purpose: Purpose) =>
  new ServiceError(
    'CONFLICT',
    purpose === 'resume'
      ? 'The subscription has ended or was replaced since, so its terms may differ: ask for the transaction again.'
      : 'The subscription to change has ended: subscribe again.',
  );
