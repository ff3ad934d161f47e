// The state of the subscribe page: its view and its session. A run executes the steps in attempt.ts
// and changes the view. There is at most one run at a time.
import { useEffect, useRef, useState } from 'react';
import { isShort } from '../shared/missing.ts';
import type { Session, Standing } from '../shared/session.ts';
import { type Connected, onSwitch, type SolanaWallet } from '../shared/wallets.ts';
import { connectFirst, readStanding, restore, subscribe } from './attempt.ts';
import { Departures } from './departures.ts';
import { isSecond } from './problems.ts';
import type { Terms } from './terms.ts';
import type { Order, Step, View } from './view.ts';

export interface Flow {
  view: View;
  /** The terms that the page shows. Until a wallet is connected, these are the plan's terms. */
  terms: Terms;
  session: Session | undefined;
  /**
   * Connects the wallet and subscribes. If the service does not sponsor the wallet, the wallet
   * first signs in.
   */
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

/**
 * Calls `left` when the session ends, with `switched` if the wallet switched accounts, otherwise
 * with `offer`. Before there is a session, watches the account `met` in the same way.
 */
function useEnd(
  session: Session | undefined,
  met: Connected | undefined,
  left: (why: 'offer' | 'switched') => void,
): void {
  const latest = useRef(left);
  latest.current = left;
  const only = session === undefined ? met : undefined;
  useEffect(
    () => (only === undefined ? undefined : onSwitch(only, () => latest.current('switched'))),
    [only],
  );
  useEffect(() => {
    if (session === undefined) return;
    const ended = () => latest.current('offer');
    session.ended.addEventListener('abort', ended);
    const off = onSwitch(session, () => {
      session.ended.removeEventListener('abort', ended);
      session.end();
      latest.current('switched');
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
    /** Runs `work`. If neither stop() nor a later run supersedes the work, shows its result. */
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
          if (!isCurrent() || error instanceof Superseded) return;
          shown(
            isSecond(error) ? { at: 'closed', why: 'second' } : { at: 'problem', cause: { error } },
          );
        },
      );
    },
  };
}

/** The terms that the page has shown. The user has to confirm them. Part of Offered. */
function useShown(order: Order) {
  const [terms, setTerms] = useState<Terms>(order.plan);
  const [replacing, setReplacing] = useState<string>();
  const [asked, setAsked] = useState<string>();
  const note = (view: View) => {
    if (view.at === 'otherTerms' || view.at === 'unregistered') setTerms(view.standing);
    if (view.at === 'unregistered') setAsked(view.standing.subscriptionPda);
    // A registration after the end of this subscription has another amount, which must be shown
    // again.
    if (view.at === 'done' || view.at === 'subscribed') setAsked(undefined);
    if (view.at === 'otherApproval') setReplacing(view.approval.delegate);
  };
  return { shown: { terms, replacing, asked }, note };
}

/**
 * Returns the view. If the view is a problem and a transaction may still land, `isUnsure` is set.
 */
function withDoubt(view: View, { isOpen }: Departures): View {
  return view.at === 'problem' ? { ...view, isUnsure: view.isUnsure === true || isOpen } : view;
}

/**
 * Reads the balances of a wallet that lacks money. Calls `stays` with the new balances, or
 * `suffices` when the wallet has enough. Calls neither if `isCurrent` returns false by then.
 */
function watchBalances(
  session: Session,
  order: Order,
  { needsSol, isLate }: Extract<View, { at: 'short' }>,
  {
    isCurrent,
    stays,
    suffices,
  }: { isCurrent: () => boolean; stays: (view: View) => void; suffices: () => void },
): void {
  readStanding(session, order).then(
    (standing) => {
      if (!isCurrent()) return;
      if (isShort(standing, needsSol)) stays({ at: 'short', standing, needsSol, isLate });
      else suffices();
    },
    // A failed request is ignored, because the page soon requests the balances again.
    () => undefined,
  );
}

export function useFlow(order: Order): Flow {
  const [view, setView] = useState<View>({ at: 'offer' });
  const [session, setSession] = useState<Session>();
  const { shown, note } = useShown(order);
  const [met, setMet] = useState<Connected>();
  const [departures] = useState(() => new Departures());
  const offered = { ...order, ...shown, departures };
  const { run, stop, current } = useRuns((next) => {
    note(next);
    if (next.at === 'done' || next.at === 'subscribed') departures.registered();
    setView(withDoubt(next, departures));
  });

  useEnd(session, met, (why) => {
    setSession(undefined);
    setMet(undefined);
    // The wallet switched to another account, but the page shows a subscription or waits for a
    // transaction that was sent. The shown content is still true, so it stays. A run that waits for
    // the transaction continues with its own session.
    const isSaid = view.at === 'done' || view.at === 'subscribed' || departures.isOpen;
    if (why === 'switched' && isSaid) return;
    stop();
    setView({ at: why });
  });

  const begin = (next: Session | undefined) => {
    if (next?.ended.aborted !== true) setSession(next);
  };

  const again = () => {
    if (session === undefined) setView({ at: 'offer' });
    else {
      const party = { connected: session, session, begin };
      run(session.wallet.name, (show) => subscribe(offered, party, show));
    }
  };

  const watch = () => {
    if (session === undefined || view.at !== 'short') return;
    const then = { isCurrent: current(), stays: setView, suffices: again };
    watchBalances(session, order, view, then);
  };

  return {
    view,
    terms: shown.terms,
    session,
    start: (wallet) =>
      run(wallet.name, (show) => {
        const isCurrent = current();
        const follow = (connected: Connected) => {
          if (isCurrent()) setMet(connected);
        };
        return connectFirst(offered, wallet, { met: follow, begin }, show);
      }),
    again,
    watch,
    stop() {
      stop();
      setMet(undefined);
      setView({ at: 'offer' });
    },
    restore(standing, how) {
      if (session === undefined) return;
      const shownState = { shown: standing, how };
      run(session.wallet.name, (show) => restore(offered, session, shownState, show));
    },
  };
}
