// The steps from the subscribe button to the subscription. Each step reads the state from the
// chain, so a page that was closed midway can continue.
import { useEffect, useRef, useState } from 'react';
import { isCode } from '../shared/errors.ts';
import {
  openSession,
  type PublicPlan,
  type Session,
  submit,
  type Standing,
  type Submitted,
  type Subscription,
} from '../shared/session.ts';
import { knowsNetwork, onSwitch, type SolanaWallet } from '../shared/wallets.ts';
import { isShort } from './missing.ts';
import type { Problem } from './problems.ts';

export type Step = 'connect' | 'signIn' | 'check' | 'sign' | 'send' | 'confirm';

/**
 * The reason why a wallet cannot subscribe. The value is also the key of the text that explains the
 * reason.
 */
type Closed = 'endedByMerchant' | 'ownWallet' | 'frozen' | 'planBlocked' | 'planClosed';

export type View =
  | { at: 'offer' }
  | { at: 'busy'; step: Step; wallet: string }
  | Problem
  | { at: 'wrongNetwork'; wallet: string }
  | { at: 'switched' }
  | { at: 'short'; standing: Standing }
  | { at: 'otherTerms'; standing: Standing }
  | { at: 'closed'; why: Closed }
  | { at: 'subscribed'; standing: Standing; note?: 'approved' | 'resumed' }
  | { at: 'done'; subscription: Subscription };

/** The terms that depend on the wallet. A wallet gets one trial in each app. */
export type Terms = Pick<PublicPlan, 'trialHours' | 'schedule'>;

export interface Flow {
  view: View;
  /** The terms that the page shows. Until a wallet is connected, these are the plan's terms. */
  terms: Terms;
  session: Session | undefined;
  /** Connects the wallet, signs in, and subscribes if the state on chain allows it. */
  start: (wallet: SolanaWallet) => void;
  /** Subscribes with the wallet that is signed in. */
  again: () => void;
  /** Reads the balances of a wallet that lacks money. Subscribes when the wallet has enough. */
  watch: () => void;
  /** Stops waiting for the wallet. A later response of the wallet is ignored. */
  stop: () => void;
  /** Approves payments again (`repair`) or withdraws a cancellation (`resume`). */
  restore: (standing: Standing, how: 'repair' | 'resume') => void;
}

/** Thrown to end a run that the user stopped or that a later run replaced. */
class Superseded extends Error {}

const POLL_MS = 1500;
/**
 * Maximum time (ms) to wait until a transaction is on chain. After this time the transaction's
 * blockhash has expired.
 */
const LANDING_MS = 100_000;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** The plan to subscribe to, and the checkout session if there is one. */
export interface Order {
  plan: PublicPlan;
  checkoutSessionId: string | undefined;
}

/**
 * Calls `left` when the session ends. The argument is `switched` if the wallet switched accounts,
 * otherwise `offer`.
 */
function useEnd(session: Session | undefined, left: (why: 'offer' | 'switched') => void): void {
  useEffect(() => {
    if (session === undefined) return;
    const ended = () => left('offer');
    session.ended.addEventListener('abort', ended);
    const off = onSwitch(session, () => {
      session.end();
      left('switched');
    });
    return () => {
      session.ended.removeEventListener('abort', ended);
      off();
    };
  }, [session]);
}

/**
 * Runs one piece of work at a time. A call of stop() or a later run supersedes the running work.
 */
function useRuns(shown: (view: View) => void) {
  const runs = useRef(0);
  /**
   * Returns a function that returns true until stop() or a later run supersedes the current work.
   */
  const current = () => {
    const mine = runs.current;
    return () => runs.current === mine;
  };
  return {
    current,
    stop: () => {
      runs.current += 1;
    },
    /** Runs `work` and shows its result, unless stop() or a later run supersedes the work. */
    run: (wallet: string, work: (show: (step: Step) => void) => Promise<View>) => {
      runs.current += 1;
      const isCurrent = current();
      const show = (step: Step) => {
        if (!isCurrent()) throw new Superseded();
        shown({ at: 'busy', step, wallet });
      };
      work(show).then(
        (next) => isCurrent() && shown(next),
        (error: unknown) => {
          if (isCurrent() && !(error instanceof Superseded))
            shown({ at: 'problem', cause: { error } });
        },
      );
    },
  };
}

export function useFlow(order: Order): Flow {
  const [view, setView] = useState<View>({ at: 'offer' });
  const [session, setSession] = useState<Session>();
  const [terms, setTerms] = useState<Terms>(order.plan);
  const offered = { ...order, terms };
  const { run, stop, current } = useRuns((next) => {
    if (next.at === 'otherTerms') setTerms(next.standing);
    setView(next);
  });

  useEnd(session, (why) => {
    stop();
    setSession(undefined);
    setView({ at: why });
  });

  const start = (wallet: SolanaWallet) => {
    const wrong = { at: 'wrongNetwork', wallet: wallet.name } as const;
    if (!knowsNetwork(wallet)) {
      setView(wrong);
      return;
    }
    run(wallet.name, async (show) => {
      const signedIn = await openSession(wallet, 'subscriber', show);
      if (!knowsNetwork(signedIn.account)) return wrong;
      show('check');
      setSession(signedIn);
      return proceed(offered, signedIn, show);
    });
  };

  const again = () => {
    if (session === undefined) setView({ at: 'offer' });
    else run(session.wallet.name, (show) => proceed(offered, session, show));
  };

  const watch = () => {
    if (session === undefined) return;
    const isCurrent = current();
    readStanding(session, order).then(
      (standing) => {
        if (!isCurrent()) return;
        if (isShort(standing)) setView({ at: 'short', standing });
        else again();
      },
      // A failed read has no effect, because the page reads the balances again soon.
      () => undefined,
    );
  };

  return {
    view,
    terms,
    session,
    start,
    again,
    watch,
    stop() {
      stop();
      setView({ at: 'offer' });
    },
    restore(standing, how) {
      const { subscriptionId } = standing;
      if (session === undefined || subscriptionId === null) return;
      run(session.wallet.name, (show) => restore(order, session, subscriptionId, how, show));
    },
  };
}

/**
 * Subscribes a signed-in wallet to the terms that the page shows. If the state on chain prevents
 * subscribing, returns a view with the reason.
 */
async function proceed(
  order: Order & Pick<Flow, 'terms'>,
  signedIn: Session,
  show: (step: Step) => void,
): Promise<View> {
  const { plan, checkoutSessionId } = order;
  show('check');
  const standing = await readStanding(signedIn, order);
  const place = await placeOf(signedIn, order, standing);
  if (place !== undefined) return place;
  const ask = () =>
    signedIn.client.post('/subscriber/plans/{planId}/subscribe', {
      path: { planId: plan.id },
      ...(checkoutSessionId !== undefined && { body: { checkoutSessionId } }),
    });
  const submitted = await submit(signedIn, ask, show);
  if (submitted.status !== 'confirmed' && submitted.status !== 'sent')
    return unsuccessful(submitted);
  show('confirm');
  return landed(signedIn, order);
}

/**
 * Approves payments again (`repair`) or withdraws a cancellation (`resume`), and waits for the
 * effect on chain.
 */
async function restore(
  order: Order,
  session: Session,
  subscriptionId: string,
  how: 'repair' | 'resume',
  show: (step: Step) => void,
): Promise<View> {
  const ask = () =>
    session.client.post(`/subscriber/subscriptions/{subscriptionId}/${how}`, {
      path: { subscriptionId },
    });
  const submitted = await submit(session, ask, show);
  if (submitted.status !== 'confirmed' && submitted.status !== 'sent')
    return unsuccessful(submitted);
  show('confirm');
  return restored(session, order, how);
}

function readStanding({ client }: Session, { plan, checkoutSessionId }: Order): Promise<Standing> {
  return client.get('/subscriber/plans/{planId}/standing', {
    path: { planId: plan.id },
    query: checkoutSessionId === undefined ? {} : { checkoutSessionId },
  });
}

/**
 * Returns the view for a wallet that cannot subscribe or is already subscribed. Returns undefined
 * for a wallet that can subscribe.
 */
async function placeOf(
  session: Session,
  order: Order & Pick<Flow, 'terms'>,
  standing: Standing,
): Promise<View | undefined> {
  const { plan, terms } = order;
  const { onChain, subscriptionId } = standing;
  if (standing.endedByMerchant) return { at: 'closed', why: 'endedByMerchant' };
  if (onChain === 'live' && standing.approval !== 'replaced' && subscriptionId === null)
    return { at: 'done', subscription: await register(session, order, standing) };
  // A cancelled on-chain account without a live subscription does not count as live. The wallet can
  // resume this account by subscribing again.
  const isLive = onChain === 'live' || (onChain === 'cancelled' && subscriptionId !== null);
  if (isLive) return { at: 'subscribed', standing };
  if (session.address === plan.merchantWallet) return { at: 'closed', why: 'ownWallet' };
  if (standing.frozen) return { at: 'closed', why: 'frozen' };
  if (standing.planBlocked !== null) return { at: 'closed', why: 'planBlocked' };
  if (!standing.planOpen) return { at: 'closed', why: 'planClosed' };
  if (standing.trialHours !== terms.trialHours) return { at: 'otherTerms', standing };
  return isShort(standing) ? { at: 'short', standing } : undefined;
}

/**
 * Registers a subscription that is on chain. If the subscription is already registered, reads it
 * from the service.
 */
async function register(
  { client }: Session,
  { plan: { id: planId, appId }, checkoutSessionId }: Order,
  { subscriptionPda }: Standing,
): Promise<Subscription> {
  try {
    return await client.post('/subscriber/subscriptions', {
      body: {
        appId,
        planId,
        subscriptionPda,
        ...(checkoutSessionId !== undefined && { checkoutSessionId }),
      },
    });
  } catch (error) {
    if (!isCode(error, 'CONFLICT')) throw error;
    for await (const one of client.list('/subscriber/subscriptions', { query: { limit: 100 } }))
      if (one.subscriptionPda === subscriptionPda && isOpen(one)) return one;
    throw error;
  }
}

/** Returns the screen for a transaction that lapsed or failed. */
const unsuccessful = (cause: Submitted): Problem => ({ at: 'problem', cause });

const isOpen = ({ status }: Subscription) => status === 'active' || status === 'past_due';

/** Waits until the subscription is on chain and registered. */
async function landed(session: Session, order: Order): Promise<View> {
  for (const deadline = Date.now() + LANDING_MS; Date.now() < deadline; await pause(POLL_MS)) {
    const standing = await readStanding(session, order);
    if (standing.onChain !== 'live') continue;
    if (standing.subscriptionId === null)
      return { at: 'done', subscription: await register(session, order, standing) };
    const path = { subscriptionId: standing.subscriptionId };
    const found = await session.client.get('/subscriber/subscriptions/{subscriptionId}', { path });
    return { at: 'done', subscription: found };
  }
  return unsuccessful({ status: 'lapsed', reason: null, signature: '' });
}

async function restored(session: Session, order: Order, how: 'repair' | 'resume'): Promise<View> {
  for (const deadline = Date.now() + LANDING_MS; Date.now() < deadline; await pause(POLL_MS)) {
    const standing = await readStanding(session, order);
    const done = how === 'repair' ? standing.approval === 'given' : standing.onChain === 'live';
    if (!done) continue;
    return { at: 'subscribed', standing, note: how === 'repair' ? 'approved' : 'resumed' };
  }
  return unsuccessful({ status: 'lapsed', reason: null, signature: '' });
}
