// What the keeper does with a subscription, from its row and one read of its accounts: pure, so that every path can be tried. It is run on the
// locked row, in the transaction that writes the outcome (settlement.ts); the same row and accounts always give the same outcome, and the row
// that it gives, with the same accounts, changes nothing more.
import type { SubscriptionAccount } from '../chain/layouts.ts';
import { periodSeconds, pullPeriod, type PullPeriod } from '../chain/period.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import type { ChainView } from './chain-view.ts';
import { awaitFinality, type Decision, type Findings, ourSetback, retryAt, retrySoon, type Rules } from './decision.ts';
import { afterTheEnd, closingDue, end, planEnd } from './ending.ts';
import { hasUnknownPull, isGivenUp, isPaid, recordPulls, startOfNext } from './found-pulls.ts';
import { split } from './money.ts';
import { timeOf, unixSeconds } from './network.ts';
import { delegationObstacle, missingReceivers, ourObstacle, subscriberObstacle } from './obstacles.ts';
import { applyCancelSeen, applyDelegation, applyFailure, applyResume, type Draft, draftOf, isLive } from './transitions.ts';

/** Seconds after which a new registration's account is believed to be missing rather than not yet seen by the endpoint that we asked. */
const YOUNG_SECONDS = 120;

/** The decision for one subscription. `findings` answers an earlier `needs`. */
export function decide(row: HeldSubscription, view: ChainView, rules: Rules, findings: Findings = {}): Decision {
  const draft = draftOf(row);
  const { state } = draft;
  if (view.slot < row.observedSlot) return retrySoon(draft, view, 1n);
  state.observedSlot = view.slot;
  const account = sameInstance(row, view.subscription);
  if (account !== null) state.periodAnchor ??= timeOf(account.periodStart);
  if (!isLive(state)) return afterTheEnd(draft, view, account, rules, findings);
  if (account === null && !missingIsBelieved(row, view)) return retrySoon(draft, view, 10n);

  const period = account === null ? null : pullPeriod(account, view.plan, view.now);
  let unread: Pick<Decision, 'alert'> | undefined;
  if (account !== null && period !== null) {
    if (hasUnknownPull(state, account)) {
      if (findings.tooMany === true) return { ...ourSetback(draft, view), alert: { reason: 'pull_not_found' } };
      if (findings.pulls === undefined) return { draft, needs: 'pulls' };
      recordPulls(draft, findings.pulls, account, period);
      if (hasUnknownPull(state, account)) {
        unread = row.setbacks < 3 ? undefined : { alert: { reason: 'pull_not_found' } };
        if (findings.pulledFinally !== true) return { ...awaitFinality(draft, view), ...unread };
        // A further pull that nobody can read holds nothing up for long: the period is paid.
        if (row.setbacks >= 3 && isPaid(state, account)) state.periodPulled = account.amountPulled;
        // The endpoint's history does not have the pull yet. An endpoint that keeps no history that long never will: a period that is over does
        // not keep the next one from being paid, which the chain does not count as pulled.
        if (!isGivenUp(row) || account.periodStart >= period.start) return { ...ourSetback(draft, view), ...unread };
      }
    }
    const repaired = observeDelegation(draft, view, account);
    if (repaired && state.status === 'past_due') state.nextPaymentDue = timeOf(view.now);
  }
  observeCancel(draft, view, account, period);

  if (state.cancelRequestedAt !== null) return end(draft, view, account, rules, findings, null);
  const endReason = planEnd(row, view, account, period);
  if (endReason !== null) return end(draft, view, account, rules, findings, endReason);
  // Without an account the subscription was cancelled or has ended: both have returned.
  if (account === null || period === null) throw new Error('a live subscription without an account');
  const decision = collection(draft, view, account, period, rules, findings);
  return unread === undefined ? decision : { ...unread, ...decision };
}

/** The account as long as it is the one that was registered: an address can be closed and subscribed anew, with other period boundaries or terms. */
export function sameInstance(row: HeldSubscription, account: SubscriptionAccount | null): SubscriptionAccount | null {
  if (account === null) return null;
  if (account.amount !== row.amount || account.periodHours !== BigInt(row.periodHours)) return null;
  if (row.planCreatedAt !== null && account.planCreatedAt !== unixSeconds(row.planCreatedAt)) return null;
  if (row.periodAnchor === null) return account;
  const apart = account.periodStart - unixSeconds(row.periodAnchor);
  return apart >= 0n && apart % periodSeconds(account.periodHours) === 0n ? account : null;
}

/**
 * An account that no keeper has seen yet may only be unknown to the endpoint, though registering saw it; one that was seen, or another in its place,
 * is not there any more.
 */
function missingIsBelieved(row: HeldSubscription, view: ChainView): boolean {
  if (view.subscription !== null) return true;
  return view.slot > row.observedSlot && (row.periodAnchor !== null || row.ageSeconds > YOUNG_SECONDS);
}

function observeDelegation(draft: Draft, view: ChainView, account: SubscriptionAccount): boolean {
  const obstacle = delegationObstacle(view, account);
  // Without a token account nothing stands in the way and nothing is repaired.
  if (obstacle === undefined && view.subscriberTokens === null) return false;
  const repaired = applyDelegation(draft, obstacle, view.now);
  return repaired && subscriberObstacle(view, account, draft.row.amount) === undefined;
}

function observeCancel(draft: Draft, view: ChainView, account: SubscriptionAccount | null, period: PullPeriod | null): void {
  const { state, row } = draft;
  if (account?.expiresAt === 0n) {
    // A merchant's request is not on chain, so a live account says nothing against it.
    if (state.cancelRequestedBy === 'subscriber' && period !== null) applyResume(draft, dueAgain(draft, period));
    return;
  }
  if (state.cancelRequestedAt !== null) return;
  // A missing account was closed: after a cancellation that we did not see, or because its plan is no more.
  if (account !== null || planEnd(row, view, account, period) === null) applyCancelSeen(draft, view.now);
}

/** When a resumed subscription is collected next: in the period that runs, unless it is paid. */
function dueAgain({ state }: Draft, period: PullPeriod): Date | null {
  const { paidThrough } = state;
  return paidThrough !== null && unixSeconds(paidThrough) > period.start ? startOfNext(period) : timeOf(period.start);
}

function collection(
  draft: Draft,
  view: ChainView,
  account: SubscriptionAccount,
  period: PullPeriod,
  rules: Rules,
  { accountPaidFor }: Findings,
): Decision {
  const { state, row } = draft;
  const { now } = view;
  const paidUntil = state.paidThrough === null ? null : unixSeconds(state.paidThrough);
  if (paidUntil !== null && paidUntil > period.start) {
    state.nextPaymentDue = startOfNext(period);
    state.dueAt = state.nextPaymentDue ?? state.paidThrough;
    state.setbacks = 0;
    return { draft };
  }
  if (period.verdict === 'not_started') return retryAt(draft, account.periodStart);
  // Whatever the chain counts in this period was recorded above, so a period that is not paid has nothing pulled.
  if (period.verdict !== 'collectable' || period.pulled !== 0n) {
    return {
      ...ourSetback(draft, view),
      alert: { reason: 'period_mismatch', detail: `${period.verdict}, ${period.pulled.toString()} pulled` },
    };
  }
  if (state.nextPaymentDue !== null && state.nextPaymentDue > timeOf(now)) {
    state.dueAt = state.nextPaymentDue;
    return { draft };
  }

  const amounts = split(row.amount, row.feeBps ?? rules.feeBps);
  const receivers = { keeper: rules.keeper, merchant: row.merchantWallet, treasury: row.treasury, mint: row.mint };
  const ours = ourObstacle(view, amounts, receivers);
  if (ours !== undefined) return { ...ourSetback(draft, view), alert: { reason: ours } };
  const createAccountsFor = missingReceivers(view, amounts, receivers);
  if (accountPaidFor === true && createAccountsFor.includes(row.merchantWallet)) {
    return { ...ourSetback(draft, view), alert: { reason: 'receiver_account_missing', detail: 'closed after we paid for it' } };
  }
  const obstacle = subscriberObstacle(view, account, amounts.gross);
  if (obstacle !== undefined) {
    const { start: periodStart, end: periodEnd } = period;
    applyFailure(
      draft,
      { reason: obstacle, now, periodStart, periodEnd, nextPeriod: startOfNext(period), amounts, signature: null },
      rules.pastDueDays,
    );
    if (!isLive(state)) state.dueAt = closingDue(view, account, rules);
    return { draft };
  }
  return {
    draft,
    collect: { periodStart: period.start, periodEnd: period.end, amounts, createAccountsFor },
  };
}
