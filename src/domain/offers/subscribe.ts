// Offers the transaction with which a wallet subscribes and pays the network fee itself. The
// transaction opens or resumes the account, and first cancels a subscription that it replaces.
import type { Instruction } from '../../chain/program/instructions.ts';
import { subscribeInstructions } from '../../chain/transactions/subscriptions.ts';
import { walletTransaction } from '../../chain/transactions/wallet.ts';
import { type NewOffer, reserveOffer } from '../../db/offers/offers.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import type { CheckoutSessionRow } from '../../db/subscriptions/checkout-sessions.ts';
import { cancelReplaced, decideAction, obstacleError, subscribeState } from '../actions/actions.ts';
import {
  type BillingAddresses,
  type ChainSender,
  lastHeightOfNew,
  readBlockhash,
} from '../chain-reads.ts';
import {
  readReservations,
  refuseTaken,
  reserveCustomer,
} from '../registration/one-per-customer.ts';
import type { Opening } from '../registration/opening.ts';
import { type Offer, offerTransaction } from './relay.ts';

interface Terms extends Partial<Pick<NewOffer, 'replaces' | 'changeWhen' | 'trialHours'>> {
  readonly session?: CheckoutSessionRow | undefined;
  /** Whether the wallet sends the transaction itself. The session's customer is then reserved. */
  readonly walletSends?: boolean;
}

/**
 * Builds the transaction with which the wallet subscribes, and stores its offer. The transaction
 * also creates missing accounts and a missing approval. Throws CONFLICT as refuseTaken() does, and
 * INTERNAL_ERROR when the chain is unreachable.
 */
export async function offerOpening(
  parts: { sql: Sql; chain: ChainSender; network: BillingAddresses },
  opening: Opening,
  { session, walletSends = false, ...terms }: Terms,
): Promise<Offer> {
  const { wallet, plan, replaced, subscriptionPda, resumes, view } = opening;
  const { programId } = parts.network;
  const { blockHeight, ...recent } = await readBlockhash(parts.chain);
  const cancelling = cancelReplaced(programId, { wallet, replaced }, view);
  const instructions = [...cancelling, ...openingInstructions(programId, opening)];
  const transaction = walletTransaction(wallet, instructions, recent.blockhash);
  const effects = { purpose: 'subscribe', resumes, cancels: cancelling.length > 0 } as const;
  const checkoutSessionId = session?.id ?? null;
  const target = { wallet, planId: plan.id, subscriptionPda, checkoutSessionId, ...effects };
  const reservations = await readReservations(parts, session, subscriptionPda);
  return parts.sql.begin(async (tx) => {
    if (session !== undefined)
      await (walletSends ? reserveCustomer : refuseTaken)(tx, session, reservations);
    const offer = await offerTransaction(tx, { transaction, ...recent }, { ...target, ...terms });
    if (session !== undefined && walletSends)
      await reserveOffer(tx, offer.offerId, lastHeightOfNew(blockHeight));
    return offer;
  });
}

function openingInstructions(
  programId: string,
  { wallet, plan, resumes, view }: Opening,
): readonly Instruction[] {
  if (!resumes)
    return subscribeInstructions(programId, { subscriber: wallet, state: subscribeState(view) })
      .instructions;
  const action = { purpose: 'resume', wallet, plan, withdraws: false } as const;
  const decided = decideAction({ programId, mint: plan.mint }, action, view);
  if ('obstacle' in decided) throw obstacleError(decided.obstacle);
  return decided.instructions;
}
