// Receives the transaction that a wallet signed, and checks its offer again. A transaction for
// which the wallet pays is stored as accepted by the relay. A sponsored one is compared with its
// offer and stored for a keeper, because only a keeper signs for the sponsor.
import { timingSafeEqual } from 'node:crypto';
import {
  findSponsoredOffer,
  listUndecided,
  lockHandOvers,
  recordRelayed,
  reserveOffer,
  type SponsoredOffer,
  storeSigned,
} from '../../db/offers/offers.ts';
import { readSponsoredProgress, type SponsoredProgress } from '../../db/offers/sponsorships.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { refuseSuspended } from '../accounts/suspended.ts';
import { type ChainSender, type BillingAddresses, readExpired } from '../chain-reads.ts';
import { takeOffer } from '../registration/one-per-customer.ts';
import { checkGround, lockGround, readGround } from './ground.ts';
import { isLimit, type Refusal, refusals } from './limits.ts';
import { hashSecret } from './offer.ts';
import { hasLanded, type SignedOffer, type TakenOffer } from './relay.ts';
import { otherMayLand, readTakeable } from './relayed-before.ts';

interface Parts {
  readonly sql: Sql;
  readonly chain: ChainSender;
  readonly network: BillingAddresses;
}

/**
 * The holder of an offer: a signed-in wallet, or a page with the offer's secret. `origins` are the
 * origins from which the page's request may come. Null means a request without an origin, for
 * example from a program.
 */
export type OfferHolder =
  | { readonly wallet: string }
  | { readonly secret: string; readonly origins: readonly (string | null)[] };

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
    holder.origins.includes(origin) &&
    timingSafeEqual(secretHash, hashSecret(holder.secret))
  );
}

/**
 * Stores the signed transaction (base64). Returns whether this call stored it. Only the wallet's
 * owner can make this call, because nobody else has the wallet's signature yet. Throws
 * VALIDATION_ERROR if the transaction is not the offered one. Throws CONFLICT (1) as takeOffer()
 * does, (2) as checkGround() does, (3) while another signed offer of the wallet is undecided and
 * can still land.
 */
export async function handOver(
  parts: Parts,
  offer: SponsoredOffer,
  transaction: string,
): Promise<boolean> {
  const { sql } = parts;
  const [{ readWalletSigned }, { forbiddenChange }] = await Promise.all([
    import('../../chain/transactions/sponsored.ts'),
    import('../../chain/transactions/signed.ts'),
  ]);
  const bytes = Buffer.from(transaction, 'base64');
  const signed = bytes.toString('base64') === transaction ? readWalletSigned(bytes) : undefined;
  if (signed?.wallet !== offer.wallet || signed.sponsor !== offer.sponsor)
    throw invalidField('transaction', 'must be the offered transaction, signed by your wallet');
  const change = forbiddenChange(offer.message, signed.message, 'sponsor');
  if (change !== undefined)
    throw invalidField('transaction', `differs from the offered transaction: ${change}`);
  await refuseSuspended(sql, offer);
  const checkoutSessionId = offer.purpose === 'subscribe' ? offer.checkoutSessionId : null;
  // An offer whose blockhash has expired is ignored. An offer that is handed over during this read
  // counts.
  const isDead = await readExpired(parts.chain, await listUndecided(sql, offer));
  const grounded = groundedOf(offer);
  const facts = await readGround(parts, grounded);
  return takeOffer(parts, { ...offer, checkoutSessionId }, async (tx) => {
    await lockHandOvers(tx, offer.wallet);
    await lockGround(tx, grounded);
    const isStored = await storeSigned(tx, offer.id, bytes);
    if (isStored) await checkGround(tx, grounded, facts);
    if (isStored && !(await listUndecided(tx, offer)).every(isDead))
      throw new ServiceError(
        'CONFLICT',
        'Another transaction of this wallet waits for its decision. Try again in a moment.',
      );
    return isStored;
  });
}

/**
 * A sponsored sign-up never resumes an account, and a sponsored change of plan takes effect at
 * once.
 */
const groundedOf = (offer: SponsoredOffer) => ({
  ...offer,
  resumes: false,
  changeWhen: offer.replaces === null ? null : ('now' as const),
  offeredAt: offer.createdAt,
});

/**
 * Stores that the relay accepts the signed transaction, before the first send, and returns it.
 * Throws FORBIDDEN as refuseSuspended() does, and what a new request for its offer would throw
 * (ground.ts). Throws CONFLICT while another transaction of the offer may land. A transaction that
 * has already landed is then neither refused nor stored as accepted now.
 */
export async function takeSigned(parts: Parts, signed: SignedOffer): Promise<TakenOffer> {
  const { sql, chain } = parts;
  const { offer, signature } = signed;
  await refuseSuspended(sql, offer);
  try {
    const { taken, dead } = await readTakeable(sql, chain, signed);
    const { lifetime } = taken;
    const facts = await readGround(parts, offer);
    await takeOffer(parts, offer, async (tx, blockHeight) => {
      await lockGround(tx, offer);
      if (blockHeight !== undefined)
        await reserveOffer(tx, offer.id, lifetime.lastValidBlockHeight);
      const recorded = await recordRelayed(tx, offer, { signature, ...lifetime }, dead);
      if (recorded === 'other') throw otherMayLand();
      if (recorded === 'new') await checkGround(tx, offer, facts);
    });
    return taken;
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== 'CONFLICT') throw error;
    if (!(await hasLanded(chain, signed))) throw error;
    const { lastValidBlockHeight, blockhashSlot: slot } = offer;
    const { blockhash, ...landed } = signed;
    return { ...landed, lifetime: { blockhash, lastValidBlockHeight, slot } };
  }
}

/**
 * - `offered`: the wallet has not signed.
 * - `signed`: the transaction waits for a keeper, who signs and sends it.
 * - `sent`: an RPC endpoint has accepted the transaction. If a fork drops a landed transaction, the
 *   state becomes `sent` again.
 * - `final`: the transaction landed and cannot be undone.
 * - `unsponsored`: a limit of sponsoring is reached, so the keeper did not sign. The wallet may
 *   pay for the transaction itself.
 * - `refused`: the keeper did not sign for another reason.
 * - `lapsed`: the transaction expired without landing, or was not signed in time.
 */
export type OfferState =
  | 'offered'
  | 'signed'
  | 'sent'
  | 'processed'
  | 'confirmed'
  | 'final'
  | 'unsponsored'
  | 'refused'
  | 'failed'
  | 'lapsed';

export interface OfferProgress {
  state: OfferState;
  signature: string | null;
  reason: string | null;
  /** Why the keeper did not sign. Null if the keeper has signed or has not decided yet. */
  refusal: Refusal | null;
  /**
   * True if the offer was for a cancellation and the keeper did not sign. The service has then
   * recorded the cancellation in the database, without a transaction.
   */
  cancelled: boolean;
  subscriptionId: string | null;
}

/** Reads the progress of several offers. Ids of offers that do not exist are left out. */
export async function offersProgress(
  sql: Sql,
  ids: readonly string[],
): Promise<(OfferProgress & { id: string })[]> {
  const rows = await readSponsoredProgress(sql, ids);
  return rows.map((found) => {
    const { id, purpose, signature, subscriptionId } = found;
    const state = stateOf(found);
    const refusal = found.state === 'refused' ? (found.reason as Refusal) : null;
    const reason = refusal === null ? found.reason : refusals[refusal];
    const cancelled = purpose === 'cancel' && (state === 'unsponsored' || state === 'refused');
    return { id, state, signature, reason, refusal, cancelled, subscriptionId };
  });
}

function stateOf({ signedAt, isOverdue, state, seen, reason }: SponsoredProgress): OfferState {
  if (isOverdue) return 'lapsed';
  if (state === null) return signedAt === null ? 'offered' : 'signed';
  if (state === 'open') return seen ?? 'signed';
  if (state === 'refused' && reason === 'lapsed') return 'lapsed';
  if (state === 'refused') return isLimit(reason as Refusal) ? 'unsponsored' : 'refused';
  return ({ landed: 'final', expired: 'lapsed', failed: 'failed' } as const)[state];
}
