// Runs the steps from the chosen wallet to the subscription. Each step reads the state from the
// chain, so a user who closed the page midway can continue.
import { OtherAmounts } from '../shared/change-costs.tsx';
import { isCode, WalletRefusal } from '../shared/errors.ts';
import { isShort } from '../shared/missing.ts';
import { isUnnamed } from '../shared/other-approval.tsx';
import { persistently } from '../shared/persistently.ts';
import { keptSession, type Session, sessionFor, type Standing, submit } from '../shared/session.ts';
import { type Submitted, unanswered } from '../shared/sponsored.ts';
import {
  asksSponsor,
  connect,
  type Connected,
  forgetLapse,
  knowsNetwork,
  sendsAfterLapse,
  sendsItself,
  type SolanaWallet,
} from '../shared/wallets.ts';
import { hasNoEffect, LANDING_MS } from './departures.ts';
import type { Problem } from './problems.ts';
import { register } from './register.ts';
import { offerAfterSignIn, subscribeSponsored } from './sponsored.ts';
import { isOther } from './terms.ts';
import type { Offered, Order, Step, View } from './view.ts';

const POLL_MS = 1500;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * A connected wallet. `session` is the session of the wallet's account, if the tab already has one.
 * `begin` sets the page's session.
 */
interface Party {
  connected: Connected;
  session: Session | undefined;
  begin: (session: Session | undefined) => void;
}

/**
 * Connects the wallet and subscribes. Calls `met` with the account before the first request to it.
 */
export async function connectFirst(
  order: Offered,
  wallet: SolanaWallet,
  { met, begin }: Pick<Party, 'begin'> & { met: (connected: Connected) => void },
  show: (step: Step) => void,
): Promise<View> {
  const wrong = { at: 'wrongNetwork', wallet: wallet.name } as const;
  if (!knowsNetwork(wallet)) return wrong;
  show('connect');
  const connected = await connect(wallet);
  if (!knowsNetwork(connected.account)) return wrong;
  met(connected);
  const session = keptSession(connected, 'subscriber');
  return subscribe(order, { connected, session, begin }, show);
}

/**
 * Subscribes a wallet. A sponsored wallet need not sign in, except for a change of plan. Without a
 * sponsor, the wallet signs in first.
 */
export async function subscribe(
  order: Offered,
  { connected, session: knownSession, begin }: Party,
  show: (step: Step) => void,
): Promise<View> {
  const outcome = await subscribeSponsored(order, connected, show);
  if (outcome.at === 'problem' || outcome.at === 'otherApproval') return outcome;
  if (outcome.at === 'done') {
    const session = knownSession ?? outcome.session;
    begin(session);
    return { at: 'done', session, subscription: outcome.subscription };
  }
  const signedIn =
    knownSession ?? outcome.session ?? (await sessionFor(connected, 'subscriber', show));
  show('check');
  begin(signedIn);
  const view = await proceed(order, signedIn, outcome, show);
  if (view.at !== 'short' || !sendsAfterLapse(connected)) return view;
  // The wallet signed too slowly, so it would send this transaction itself. But it cannot pay the
  // network fee, so the service sponsors the wallet once more.
  forgetLapse(connected.wallet);
  return subscribe(order, { connected, session: signedIn, begin }, show);
}

/**
 * Subscribes a signed-in wallet to the shown terms, or returns the view that explains why the
 * wallet cannot subscribe. Only a change of plan can be sponsored here. `needsSol` is false if the
 * service did not sponsor the wallet for one reason only: the wallet lacks USDC. Such a wallet
 * needs no SOL, because the service can sponsor the wallet once it has enough USDC. `isLate` is
 * true if the wallet had already signed when the service refused.
 */
async function proceed(
  order: Offered,
  signedIn: Session,
  { needsSol, isLate = false }: { needsSol: boolean; isLate?: boolean },
  show: (step: Step) => void,
): Promise<View> {
  const at = Date.now();
  const standing = await readStanding(signedIn, order);
  if (standing.signingUp) {
    show('confirmed');
    return landed(signedIn, order);
  }
  if (standing.onChain !== 'live') order.departures.looked(at);
  const view = await placeOf(signedIn, order, standing);
  if (view !== undefined) return view;
  let offer: Awaited<ReturnType<typeof offerAfterSignIn>>;
  try {
    offer = await offerAfterSignIn(signedIn, order, standing, order.terms.change);
  } catch (error) {
    if (!(error instanceof OtherAmounts)) throw error;
    const { change } = error;
    const { today: usdcNeeded, schedule } = change;
    return { at: 'otherTerms', standing: { ...standing, usdcNeeded, schedule, change } };
  }
  const { ask, isSponsored, wantsUsdc } = offer;
  if (!isSponsored && isShort(standing, true)) {
    const lacksUsdc = isShort(standing, false);
    return { at: 'short', standing, needsSol: (needsSol && !wantsUsdc) || !lacksUsdc, isLate };
  }
  const submitted = await submitNoted(signedIn, order, ask, show, true);
  if (submitted.status !== 'confirmed' && submitted.status !== 'sent')
    return unsuccessful(submitted);
  show(submitted.doubt === undefined ? 'confirm' : 'look');
  return landed(signedIn, order, submitted.doubt);
}

/**
 * Submits a transaction. Records in `departures` until when the transaction can land, and its offer
 * if it opens or resumes the subscription (`isOpening`).
 */
function submitNoted(
  session: Session,
  { departures }: Offered,
  ask: Parameters<typeof submit>[1],
  show: (step: Step) => void,
  isOpening = false,
): Promise<Submitted> {
  const { address } = session;
  let offerId: string | undefined;
  const asking: typeof ask = async (sponsored) => {
    const offer = await ask(sponsored);
    offerId = offer.sponsored === true ? undefined : offer.offerId;
    return offer;
  };
  return departures.during(
    (departure) =>
      submit(session, asking, (step) => {
        show(step);
        if (step === 'send' || sendsItself(session))
          departure.leave(isOpening ? { address, offerId } : undefined);
      }),
    hasNoEffect,
  );
}

/**
 * Approves payments again (`repair`) or withdraws a cancellation (`resume`), and waits for the
 * effect on chain.
 */
export async function restore(
  order: Offered,
  session: Session,
  { shown, how }: { shown: Standing; how: 'repair' | 'resume' },
  show: (step: Step) => void,
): Promise<View> {
  const { subscriptionId } = shown;
  if (subscriptionId === null) return { at: 'offer' };
  show('check');
  const standing = await readStanding(session, order);
  if (how === 'repair' && isUnnamed(standing, shown)) return { at: 'subscribed', standing };
  const requestTransaction = (sponsored: boolean) =>
    session.client.post(`/subscriber/subscriptions/{subscriptionId}/${how}`, {
      path: { subscriptionId },
      body: { sponsored },
    });
  let submitted: Submitted;
  try {
    submitted = await submitNoted(session, order, requestTransaction, show);
  } catch (error) {
    if (!(error instanceof WalletRefusal)) throw error;
    return { at: 'problem', cause: { error }, isSubscribed: true };
  }
  if (submitted.status !== 'confirmed' && submitted.status !== 'sent')
    return unsuccessful(submitted);
  show(submitted.doubt === undefined ? 'confirm' : 'look');
  return restored(session, order, how, submitted.doubt);
}

export function readStanding(
  session: Session,
  { plan, checkoutSessionId }: Order,
): Promise<Standing> {
  const sponsored = asksSponsor(session) ? 'true' : 'false';
  return session.client.get('/subscriber/plans/{planId}/standing', {
    path: { planId: plan.id },
    query: checkoutSessionId === undefined ? {} : { checkoutSessionId, sponsored },
  });
}

/**
 * Returns the view for a wallet that cannot subscribe or is already subscribed. Returns undefined
 * for a wallet that can subscribe.
 */
async function placeOf(
  session: Session,
  order: Offered,
  standing: Standing,
): Promise<View | undefined> {
  const { plan, terms, replacing } = order;
  const { onChain, subscriptionId } = standing;
  if (standing.endedByMerchant) return { at: 'closed', why: 'endedByMerchant' };
  if (onChain === 'live' && standing.approval !== 'replaced' && subscriptionId === null)
    return registered(session, order, standing);
  // If the account on chain is cancelled and the service has no subscription for it, the wallet may
  // subscribe. Subscribing then resumes the account.
  if (onChain === 'live' || (onChain === 'cancelled' && subscriptionId !== null))
    return subscribedAlready(session, standing);
  if (session.address === plan.merchantWallet) return { at: 'closed', why: 'ownWallet' };
  if (standing.frozen) return { at: 'closed', why: 'frozen' };
  if (standing.planBlocked !== null) return { at: 'closed', why: 'planBlocked' };
  if (!standing.planOpen) return { at: 'closed', why: 'planClosed' };
  if (isOther(terms, standing)) return { at: 'otherTerms', standing };
  const { replaces: approval } = standing;
  return approval === null || approval.delegate === replacing
    ? undefined
    : { at: 'otherApproval', approval };
}

/** Returns the screen for a wallet that is subscribed, with the reason if it owes a payment. */
async function subscribedAlready({ client }: Session, standing: Standing): Promise<View> {
  const { subscriptionId } = standing;
  if (subscriptionId === null) return { at: 'subscribed', standing };
  const path = { subscriptionId };
  const subscription = await client.get('/subscriber/subscriptions/{subscriptionId}', { path });
  if (subscription.status !== 'past_due') return { at: 'subscribed', standing };
  const [latest] = await client.get('/subscriber/subscriptions/{subscriptionId}/transactions', {
    path,
    query: { limit: 1 },
  });
  return { at: 'subscribed', standing, unpaid: latest?.failureReason ?? 'unknown' };
}

/** Returns the screen for a transaction that lapsed or failed. */
const unsuccessful = (cause: Submitted): Problem => ({ at: 'problem', cause });

/** Returns the screen for a transaction that did not land before its blockhash expired. */
const unseen = (doubt: WalletRefusal | undefined): Problem =>
  doubt === undefined
    ? unsuccessful({ status: 'lapsed', reason: null, signature: '' })
    : { at: 'problem', cause: { error: doubt } };

/**
 * Registers a subscription that is on chain. If no transaction of this page has opened it, or the
 * shown trial is used up, the page first shows the amount to charge and asks the user. If the
 * registration fails, the subscription is still on chain, so `isUnsure` is true.
 */
async function registered(session: Session, order: Offered, standing: Standing): Promise<View> {
  const opening = order.departures.openingOf(session.address);
  const isAsked = order.asked === standing.subscriptionPda && !isOther(order.terms, standing);
  if (opening === undefined && !isAsked) return { at: 'unregistered', standing };
  const offerId = isAsked ? undefined : opening?.offerId;
  try {
    const subscription = await persistently(() => register(session, order, standing, offerId));
    return { at: 'done', session, subscription };
  } catch (error) {
    if (isCode(error, 'CONFLICT') && error.details.some(({ path }) => path === 'offerId'))
      return {
        at: 'unregistered',
        standing: await persistently(() => readStanding(session, order)),
      };
    return { at: 'problem', cause: { error }, isUnsure: true };
  }
}

/**
 * Reads the standing repeatedly until `holds` returns true or LANDING_MS have passed. After this
 * time, a transaction that was sent before this call can no longer land. One last read then
 * follows, so that no such transaction is missed.
 */
async function untilStanding(
  session: Session,
  order: Offered,
  holds: (standing: Standing) => boolean,
): Promise<{ standing: Standing; isSeen: boolean }> {
  for (const deadline = Date.now() + LANDING_MS; ; await pause(POLL_MS)) {
    const at = Date.now();
    const standing = await persistently(() => readStanding(session, order));
    if (holds(standing)) return { standing, isSeen: true };
    if (at < deadline) continue;
    if (!standing.signingUp) order.departures.looked(at);
    return { standing, isSeen: false };
  }
}

/**
 * Waits until the subscription is on chain and registered. `doubt` is the error of a wallet that
 * may have sent the transaction before it failed.
 */
async function landed(session: Session, order: Offered, doubt?: WalletRefusal): Promise<View> {
  const { standing, isSeen } = await untilStanding(
    session,
    order,
    ({ onChain, signingUp }) => onChain === 'live' && !signingUp,
  );
  const { subscriptionId, signingUp } = standing;
  if (!isSeen) return signingUp ? unsuccessful(unanswered) : unseen(doubt);
  if (subscriptionId === null) return registered(session, order, standing);
  const path = { subscriptionId };
  const found = await persistently(() =>
    session.client.get('/subscriber/subscriptions/{subscriptionId}', { path }),
  );
  return { at: 'done', session, subscription: found };
}

async function restored(
  session: Session,
  order: Offered,
  how: 'repair' | 'resume',
  doubt?: WalletRefusal,
): Promise<View> {
  const { standing, isSeen } = await untilStanding(session, order, ({ approval, onChain }) =>
    how === 'repair' ? approval === 'given' : onChain === 'live',
  );
  return isSeen
    ? { at: 'subscribed', standing, note: how === 'repair' ? 'approved' : 'resumed' }
    : unseen(doubt);
}
