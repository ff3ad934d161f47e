// The steps between the button and the subscription. The state comes from the chain: a page that was closed midway continues.
import { useEffect, useRef, useState } from 'react';
import type { components } from '../../client/openapi.ts';
import { isCode, WalletRefusal, wordsOf } from '../shared/errors.ts';
import {
  openSession,
  type PublicPlan,
  type Session,
  submit,
  type Submitted,
  type Subscription,
} from '../shared/session.ts';
import { knowsNetwork, onSwitch, type SolanaWallet } from '../shared/wallets.ts';

export type Standing = components['schemas']['Standing'];
export type Step = 'connect' | 'signIn' | 'check' | 'sign' | 'send' | 'confirm';

export type View =
  | { at: 'offer' }
  | { at: 'busy'; step: Step; wallet: string }
  | { at: 'problem'; title: string; text: string; kind: 'error' | 'warning' }
  | { at: 'wrongNetwork'; wallet: string }
  | { at: 'switched' }
  | { at: 'short'; standing: Standing }
  | { at: 'closed'; why: string }
  | { at: 'subscribed'; standing: Standing; note?: string }
  | { at: 'done'; subscription: Subscription };

export interface Flow {
  view: View;
  session: Session | undefined;
  /** Connects the wallet where needed, and goes as far as the chain allows. */
  start: (wallet: SolanaWallet) => void;
  /** The same with the wallet that is signed in. */
  again: () => void;
  /** Gives up waiting for the wallet; its answer is ignored when it comes. */
  stop: () => void;
  /** Approves payments again, or takes a cancellation back. */
  mend: (standing: Standing, how: 'repair' | 'resume') => void;
}

/** Stops a run that was given up or replaced. */
class Superseded extends Error {}

const pollMs = 1500;
/** Longer than a blockhash lives. */
const landingMs = 100_000;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** What is subscribed to, and the checkout session in which. */
export interface Order {
  plan: PublicPlan;
  checkoutSessionId: string | undefined;
}

export function useFlow(order: Order): Flow {
  const { plan } = order;
  const [view, setView] = useState<View>({ at: 'offer' });
  const [session, setSession] = useState<Session>();
  const runs = useRef(0);

  useEffect(() => {
    if (session === undefined) return;
    return onSwitch(session, () => {
      runs.current += 1;
      setSession(undefined);
      setView({ at: 'switched' });
    });
  }, [session]);

  /** Runs `work` alone: after a later run or stop() its results are ignored. */
  const run = (wallet: string, work: (show: (step: Step) => void) => Promise<View>) => {
    runs.current += 1;
    const mine = runs.current;
    const show = (step: Step) => {
      if (runs.current !== mine) throw new Superseded();
      setView({ at: 'busy', step, wallet });
    };
    work(show).then(
      (shown) => runs.current === mine && setView(shown),
      (error: unknown) => {
        if (runs.current !== mine || error instanceof Superseded) return;
        if (isCode(error, 'UNAUTHORIZED')) setSession(undefined);
        setView(problemOf(error));
      },
    );
  };

  const start = (wallet: SolanaWallet) => {
    if (!knowsNetwork(wallet)) {
      setView({ at: 'wrongNetwork', wallet: wallet.name });
      return;
    }
    run(wallet.name, async (show) => {
      const signedIn = await openSession(wallet, 'subscriber', show);
      if (!knowsNetwork(signedIn.account)) return { at: 'wrongNetwork', wallet: wallet.name };
      show('check');
      setSession(signedIn);
      return proceed(order, signedIn, show);
    });
  };

  return {
    view,
    session,
    start,
    again() {
      if (session === undefined) setView({ at: 'offer' });
      else run(session.wallet.name, (show) => proceed(order, session, show));
    },
    stop() {
      runs.current += 1;
      setView({ at: 'offer' });
    },
    mend(standing, how) {
      const { subscriptionId } = standing;
      if (session === undefined || subscriptionId === null) return;
      run(session.wallet.name, (show) => mend(plan, session, subscriptionId, how, show));
    },
  };
}

/** Subscribes a signed-in wallet, as far as the chain allows. */
async function proceed(order: Order, signedIn: Session, show: (step: Step) => void): Promise<View> {
  const { plan, checkoutSessionId } = order;
  show('check');
  const standing = await readStanding(signedIn, plan);
  const place = await placeOf(signedIn, order, standing);
  if (place !== undefined) return place;
  const { transaction } = await signedIn.client.post('/subscriber/plans/{planId}/subscribe', {
    path: { planId: plan.id },
    ...(checkoutSessionId !== undefined && { body: { checkoutSessionId } }),
  });
  const submitted = await submit(signedIn, 'subscriber', transaction, show);
  if (submitted.status !== 'confirmed' && submitted.status !== 'sent')
    return unsuccessful(submitted);
  show('confirm');
  return landed(signedIn, order);
}

/** Approves payments again, or takes a cancellation back. */
async function mend(
  plan: PublicPlan,
  session: Session,
  subscriptionId: string,
  how: 'repair' | 'resume',
  show: (step: Step) => void,
): Promise<View> {
  const { transaction } = await session.client.post(
    `/subscriber/subscriptions/{subscriptionId}/${how}`,
    { path: { subscriptionId } },
  );
  const submitted = await submit(session, 'subscriber', transaction, show);
  if (submitted.status !== 'confirmed' && submitted.status !== 'sent')
    return unsuccessful(submitted);
  show('confirm');
  return mended(session, plan, how);
}

function readStanding({ client }: Session, { id }: PublicPlan): Promise<Standing> {
  return client.get('/subscriber/plans/{planId}/standing', { path: { planId: id } });
}

/** The screen of a wallet that cannot subscribe, or need not; undefined when it can. */
async function placeOf(
  session: Session,
  order: Order,
  standing: Standing,
): Promise<View | undefined> {
  const { plan } = order;
  const { onChain, subscriptionId } = standing;
  if (onChain === 'live' && standing.approval !== 'replaced' && subscriptionId === null)
    return { at: 'done', subscription: await register(session, order, standing) };
  if (onChain === 'live' || onChain === 'cancelled') return { at: 'subscribed', standing };
  if (session.address === plan.merchantWallet)
    return {
      at: 'closed',
      why: 'This is the merchant’s own wallet. Use another one to subscribe.',
    };
  if (!standing.planOpen)
    return { at: 'closed', why: 'The plan takes no new subscriptions on chain any more.' };
  const short =
    BigInt(standing.usdc) < BigInt(standing.usdcNeeded) ||
    BigInt(standing.lamports) < BigInt(standing.lamportsNeeded);
  return short ? { at: 'short', standing } : undefined;
}

/** Registers a subscription that is on chain; one that is registered already is read. */
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
      if (one.subscriptionPda === subscriptionPda) return one;
    throw error;
  }
}

/** Waits until the chain shows the subscription. */
async function landed(session: Session, order: Order): Promise<View> {
  const { plan } = order;
  for (const deadline = Date.now() + landingMs; Date.now() < deadline; await pause(pollMs)) {
    const standing = await readStanding(session, plan);
    if (standing.onChain !== 'live') continue;
    if (standing.subscriptionId === null)
      return { at: 'done', subscription: await register(session, order, standing) };
    const path = { subscriptionId: standing.subscriptionId };
    const found = await session.client.get('/subscriber/subscriptions/{subscriptionId}', { path });
    return { at: 'done', subscription: found };
  }
  return unsuccessful({ status: 'lapsed', reason: null, signature: '' });
}

async function mended(session: Session, plan: PublicPlan, how: 'repair' | 'resume'): Promise<View> {
  for (const deadline = Date.now() + landingMs; Date.now() < deadline; await pause(pollMs)) {
    const standing = await readStanding(session, plan);
    const done = how === 'repair' ? standing.approval === 'given' : standing.onChain === 'live';
    if (!done) continue;
    const note =
      how === 'repair'
        ? 'Payments are approved again.'
        : 'Your cancellation is taken back. The subscription goes on.';
    return { at: 'subscribed', standing, note };
  }
  return unsuccessful({ status: 'lapsed', reason: null, signature: '' });
}

function unsuccessful({ status, reason }: Submitted): View {
  return status === 'lapsed'
    ? {
        at: 'problem',
        kind: 'warning',
        title: 'The transaction lapsed',
        text: 'A transaction is good for about half a minute. Nothing was paid. Try again and confirm in your wallet sooner.',
      }
    : {
        at: 'problem',
        kind: 'error',
        title: 'The transaction failed',
        text: reason ?? 'The network refused it. Nothing was paid.',
      };
}

function problemOf(error: unknown): View {
  if (error instanceof WalletRefusal) {
    const title = {
      connect: 'Your wallet is not connected',
      signIn: 'You are not signed in',
      sign: 'You have not subscribed',
    }[error.step];
    return { at: 'problem', kind: 'warning', title, text: `${wordsOf(error)} Nothing was paid.` };
  }
  if (isCode(error, 'VALIDATION_ERROR'))
    return {
      at: 'problem',
      kind: 'error',
      title: 'Your wallet changed the transaction',
      text: 'It signed something else than this page asked for. Nothing was sent.',
    };
  if (isCode(error, 'FORBIDDEN'))
    return {
      at: 'problem',
      kind: 'warning',
      title: 'This wallet cannot use this checkout',
      text: `${wordsOf(error)} Nothing was paid.`,
    };
  if (isCode(error, 'UNAUTHORIZED'))
    return {
      at: 'problem',
      kind: 'warning',
      title: 'Your sign-in was not accepted',
      text: `${wordsOf(error)} Sign in again.`,
    };
  return { at: 'problem', kind: 'error', title: 'That did not work', text: wordsOf(error) };
}
