// Subscribes a wallet with a sponsored transaction. The wallet needs no SOL and signs once, without
// a sign-in. Only a sponsored change of plan needs a sign-in first.
import { createClient } from '../../client/client.ts';
import type { components } from '../../client/openapi.ts';
import { refuseOtherAmounts } from '../shared/change-costs.tsx';
import { isPassing, persistently } from '../shared/persistently.ts';
import {
  anonymous,
  keptSession,
  type PublicPlan,
  type Session,
  sessionWith,
  type Standing,
  type Subscription,
} from '../shared/session.ts';
import {
  follow,
  handingOver,
  type Progress,
  type ProgressQuery,
  submittedOf,
  unanswered,
} from '../shared/sponsored.ts';
import {
  asksSponsor,
  type Connected,
  maySponsor,
  notePays,
  sendsItself,
  signsOnly,
  signTransaction,
} from '../shared/wallets.ts';
import { type Departures, hasNoEffect } from './departures.ts';
import type { Problem } from './problems.ts';

/** The stages of a sponsored transaction, in order. */
export const STAGES = ['sent', 'processed', 'confirmed', 'final'] as const;
export type Stage = (typeof STAGES)[number];

type Offer = NonNullable<components['schemas']['CheckoutOffer']>;

/**
 * - `done`: subscribed and paid. `session` is undefined if the response with the token was lost.
 * - `problem`: nothing was paid, or the service does not respond (`slow`).
 * - `otherApproval`: subscribing replaces `approval`, and the user does not know this yet.
 * - `unsponsored`: the service does not sponsor the wallet. `needsSol` is false if the only reason
 *   is that the wallet lacks USDC. `isLate` is true if the wallet had already signed. `session` is
 *   set if the page has a token of the account.
 */
type Outcome =
  | { at: 'done'; session: Session | undefined; subscription: Subscription | undefined }
  | Problem
  | { at: 'otherApproval'; approval: NonNullable<Offer['replaces']> }
  | { at: 'unsponsored'; needsSol: boolean; isLate?: boolean; session?: Session | undefined };

/**
 * The codes of the service for a wallet that is not sponsored because it lacks the USDC for the
 * first payment.
 */
const LACKS_USDC = ['insufficient_usdc', 'no_token_account'];

/**
 * Subscribes a connected wallet with a sponsored transaction, if the service offers one. `show` is
 * called before each step. Throws a WalletRefusal, an AlteredTransaction or the service's error.
 */
export async function subscribeSponsored(
  {
    plan,
    checkoutSessionId,
    replacing,
    departures,
  }: {
    plan: PublicPlan;
    checkoutSessionId: string | undefined;
    replacing: string | undefined;
    departures: Departures;
  },
  connected: Connected,
  show: (step: 'check' | 'sign' | 'send' | Exclude<Stage, 'final'>) => void,
): Promise<Outcome> {
  if (!maySponsor(connected)) return { at: 'unsponsored', needsSol: true };
  show('check');
  const { offer, notSponsored } = await anonymous.post('/checkout/plans/{planId}/offers', {
    path: { planId: plan.id },
    body: {
      wallet: connected.account.address,
      ...(checkoutSessionId !== undefined && { checkoutSessionId }),
    },
  });
  if (offer === null) {
    const needsSol = !LACKS_USDC.includes(notSponsored?.code ?? '');
    return { at: 'unsponsored', needsSol };
  }
  if (!signsOnly(connected)) {
    notePays(connected.wallet);
    return { at: 'problem', cause: { sends: true } };
  }
  if (offer.replaces !== null && offer.replaces.delegate !== replacing)
    return { at: 'otherApproval', approval: offer.replaces };
  show('sign');
  const result = await signTransaction(connected, { ...offer, sponsored: true });
  show('send');
  if (!('signed' in result)) return { at: 'unsponsored', needsSol: true };
  return departures.during(async (departure) => {
    departure.leave();
    try {
      return await followOffer(connected, offer, result.signed, show);
    } catch (error) {
      if (!isPassing(error)) throw error;
      return { at: 'problem', cause: unanswered };
    }
  }, isOver);
}

/** Whether the sponsored transaction had no effect and will have none. */
const isOver = (outcome: Outcome): boolean =>
  outcome.at === 'unsponsored' ||
  (outcome.at === 'problem' && 'status' in outcome.cause && hasNoEffect(outcome.cause));

/**
 * Returns the function `ask`, which requests the transaction of a signed-in wallet. For a change of
 * plan, first requests a sponsored transaction, and throws OtherAmounts if this transaction pays
 * another amount than `shown`. The result's `wantsUsdc` is true if the service did not sponsor the
 * change because the wallet lacks USDC.
 */
export async function offerAfterSignIn(
  session: Session,
  { plan, checkoutSessionId }: { plan: PublicPlan; checkoutSessionId: string | undefined },
  { change }: Standing,
  shown: Standing['change'] | undefined,
) {
  const asOf = shown?.asOf;
  const post = (sponsored: boolean) =>
    session.client.post('/subscriber/plans/{planId}/subscribe', {
      path: { planId: plan.id },
      ...(checkoutSessionId !== undefined && {
        body: {
          checkoutSessionId,
          sponsored,
          walletSends: !sponsored && sendsItself(session),
          ...(asOf !== undefined && { asOf }),
        },
      }),
    });
  const offer = change !== null && asksSponsor(session) ? await post(true) : undefined;
  if (offer?.sponsored === true) {
    refuseOtherAmounts(shown, offer);
    const ask = (sponsored: boolean) => (sponsored ? Promise.resolve(offer) : post(false));
    return { ask, isSponsored: true, wantsUsdc: false };
  }
  const wantsUsdc = LACKS_USDC.includes(offer?.notSponsored?.code ?? '');
  return { ask: () => post(false), isSponsored: false, wantsUsdc };
}

async function followOffer(
  connected: Connected,
  { offerId, secret }: Offer,
  transaction: string,
  show: (step: Exclude<Stage, 'final'>) => void,
): Promise<Outcome> {
  const client = createClient({
    baseUrl: location.origin,
    token: secret,
    retries: 2,
    maxWaitSeconds: 5,
  });
  const path = { offerId };
  const { token, expiresAt, ...first } = await handingOver(connected.wallet, () =>
    client.post('/checkout/offers/{offerId}/transaction', { path, body: { transaction } }),
  );
  const session =
    token === null || expiresAt === null
      ? keptSession(connected, 'subscriber')
      : sessionWith(connected, { token, expiresAt });
  const read = (query: ProgressQuery) => client.get('/checkout/offers/{offerId}', { path, query });
  const shown = (state: Progress['state']) => {
    if (state === 'sent' || state === 'processed' || state === 'confirmed') show(state);
  };
  const end = await follow(first, read, undefined, shown);
  const { state, subscriptionId } = end;
  if (state === 'unsponsored') return { at: 'unsponsored', needsSol: true, isLate: true, session };
  if (state !== 'final') return { at: 'problem', cause: submittedOf(connected.wallet, end) };
  const subscription =
    session === undefined || subscriptionId === null
      ? undefined
      : await persistently(() =>
          session.client.get('/subscriber/subscriptions/{subscriptionId}', {
            path: { subscriptionId },
          }),
        );
  return { at: 'done', session, subscription };
}
