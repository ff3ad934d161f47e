// Receives the sponsored transaction that a wallet signed. Checks that it is the offered
// transaction, and stores it for a keeper. serve itself never signs.
import { timingSafeEqual } from 'node:crypto';
import { claimCheckoutSession } from '../../db/checkout-sessions.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { findSponsoredOffer, type SponsoredOffer, storeSigned } from '../../db/sponsored-offers.ts';
import { readSponsoredProgress, type SponsoredProgress } from '../../db/sponsorships.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { isOpenToSuspended, refuseSuspended } from '../accounts/suspended.ts';
import { refusedCheckout } from '../subscribing/checkout.ts';
import { refuseSecondOf } from '../subscribing/one-per-customer.ts';
import { refusals } from './limits.ts';
import { hashSecret } from './offer.ts';

/** The owner of an offer: a signed-in wallet, or a page with the offer's secret. */
export type OfferHolder =
  { readonly wallet: string } | { readonly secret: string; readonly origin: string | null };

/** Finds an offer of the holder. Throws NOT_FOUND if the holder has no offer with this id. */
export async function findOwnOffer(
  sql: Sql,
  id: string,
  holder: OfferHolder,
): Promise<SponsoredOffer> {
  const offer = await findSponsoredOffer(sql, id);
  if (offer !== undefined && isHeldBy(offer, holder)) return offer;
  throw new ServiceError('NOT_FOUND', 'There is no such offer, or it is too old.');
}

function isHeldBy({ wallet, secretHash, origin }: SponsoredOffer, holder: OfferHolder): boolean {
  if ('wallet' in holder) return secretHash === null && wallet === holder.wallet;
  return (
    secretHash !== null &&
    origin === holder.origin &&
    timingSafeEqual(secretHash, hashSecret(holder.secret))
  );
}

/**
 * Stores the signed transaction (base64). Returns whether this call stored it. The call that stores
 * it comes from the wallet's owner, because the signature is not public before the sponsor signs.
 * Throws VALIDATION_ERROR for a transaction that was not offered, and CONFLICT when the checkout
 * session is complete, expired or bound to another wallet.
 */
export async function handOver(
  sql: Sql,
  offer: SponsoredOffer,
  transaction: string,
): Promise<boolean> {
  const { readWalletSigned, sponsoredChange } =
    await import('../../chain/transactions/sponsored.ts');
  const bytes = Buffer.from(transaction, 'base64');
  const signed = bytes.toString('base64') === transaction ? readWalletSigned(bytes) : undefined;
  if (signed?.wallet !== offer.wallet || signed.sponsor !== offer.sponsor)
    throw invalidField('transaction', 'must be the offered transaction, signed by your wallet');
  const change = sponsoredChange(offer.message, signed.message);
  if (change !== undefined)
    throw invalidField('transaction', `differs from the offered transaction: ${change}`);
  const { purpose, planId, wallet, checkoutSessionId } = offer;
  if (!isOpenToSuspended(purpose))
    await refuseSuspended(sql, { wallet, ...(planId !== null && { planId }) });
  if (purpose === 'subscribe') {
    await refuseSecondOf(sql, offer);
    if (checkoutSessionId !== null && !(await claimCheckoutSession(sql, checkoutSessionId, wallet)))
      throw refusedCheckout();
  }
  return storeSigned(sql, offer.id, bytes);
}

/**
 * `offered`: the wallet has not signed. `signed`: the transaction waits for a keeper. `sent`: the
 * keeper has signed and sends the transaction. `final`: the transaction landed and cannot be
 * undone. `refused`: the keeper did not sign. `lapsed`: the transaction expired without landing.
 */
export type OfferState =
  | 'offered'
  | 'signed'
  | 'sent'
  | 'processed'
  | 'confirmed'
  | 'final'
  | 'refused'
  | 'failed'
  | 'lapsed';

export interface OfferProgress {
  state: OfferState;
  signature: string | null;
  reason: string | null;
  subscriptionId: string | null;
}

/** Reads the progress of an offer. Throws NOT_FOUND if there is no such offer. */
export async function offerProgress(sql: Sql, id: string): Promise<OfferProgress> {
  const found = await readSponsoredProgress(sql, id);
  if (found === undefined) throw new ServiceError('NOT_FOUND', 'There is no such offer.');
  const { signature, reason, subscriptionId } = found;
  const told = reason !== null && reason in refusals ? refusals[reason as never] : reason;
  return { state: stateOf(found), signature, reason: told, subscriptionId };
}

function stateOf({ signedAt, state, seen }: SponsoredProgress): OfferState {
  if (state === null) return signedAt === null ? 'offered' : 'signed';
  if (state === 'open') return seen ?? 'sent';
  return ({ landed: 'final', expired: 'lapsed', refused: 'refused', failed: 'failed' } as const)[
    state
  ];
}
