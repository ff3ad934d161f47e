// Decides what the keeper does with a subscription, from its row and one read of its accounts.
// Pure. settlement.ts writes the decision if the row has not changed since. Idempotent: a second
// decision from the written row and the same accounts changes nothing.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { periodSeconds, pullPeriod, type PullPeriod } from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { KeeperSubscription } from '../../db/subscription-work.ts';
import { split, type Split } from '../money.ts';
import type { ChainView } from './chain-view.ts';
import {
  awaitFinality,
  awaitSlot,
  type Decision,
  keeperFailure,
  pullNotFound,
  retryAt,
  retrySoon,
  type Rules,
} from './decision.ts';
import { failedOnChain, tryEarly } from './early-tries.ts';
import { afterTheEnd, end, planEnd } from './ending.ts';
import {
  isDueSoon,
  nextRead,
  noticesUntil,
  renewalIssue,
  type RenewalIssue,
} from './look-ahead.ts';
import {
  delegationObstacle,
  feeReceiver,
  planObstacle,
  pullerAmong,
  subscriberObstacle,
} from './obstacles.ts';
import { amountDue, amountToCollect, notInTrial } from './price.ts';
import {
  type LookupResult,
  hasUnknownPull,
  isGivenUp,
  isPaid,
  pullLookup,
  recordPulls,
  startOfNext,
} from './pulls.ts';
import { failUnsent } from './refusal.ts';
import {
  applyCancelSeen,
  applyDelegation,
  applyResume,
  applyUncollected,
  type SubscriptionUpdate,
  updateOf,
  isLive,
  setNextDue,
} from './transitions.ts';
import { CLOSING_SECONDS, collectAt } from './window.ts';

/**
 * Seconds between reads of a paused subscription. Streams and the sweep report a cancellation
 * sooner.
 */
const PAUSED_READ_SECONDS = 86_400n;
/** Seconds between reads of an account that one RPC endpoint lacks but others may have. */
const DOUBT_SECONDS = 60n;
/**
 * If the account of a registration younger than this (seconds) is missing, the RPC endpoint may
 * just lag. From this age on, the account counts as missing.
 */
export const YOUNG_SECONDS = 120;

/**
 * Decides about one subscription. `lookups` contains the results that an earlier decision asked for
 * in `needs`.
 */
export function decide(
  row: KeeperSubscription,
  view: ChainView,
  rules: Rules,
  lookups: LookupResult = {},
): Decision {
  const update = updateOf(row);
  const { state } = update;
  if (view.slot < row.observedSlot) return awaitSlot(update, view);
  if (lookups.absenceDoubted === true) return retrySoon(update, view, DOUBT_SECONDS);
  state.observedSlot = view.slot;
  const account = registeredAccount(row, view.subscription);
  if (account !== null) state.periodAnchor ??= timeOf(account.periodStart);
  const known = pullLookup(row, lookups);
  const ends = { account, rules, known, isClosable: lookups.closingFailed !== true };
  if (!isLive(state)) return afterTheEnd(update, view, ends);
  if (account === null && !missingIsBelieved(row, view)) return retrySoon(update, view, 10n);

  const period = account === null ? null : pullPeriod(account, view.plan, view.now);
  let unread: Pick<Decision, 'alert'> | undefined;
  if (account !== null && period !== null) {
    if (hasUnknownPull(state, account)) {
      if (known.kind === 'too_long')
        return { ...keeperFailure(update, view), ...pullNotFound(row) };
      if (known.kind === 'not_final') return awaitFinality(update, view);
      if (known.kind === 'needed') return { update, needs: 'pulls' };
      recordPulls(update, known.pulls, account, period);
      if (hasUnknownPull(state, account)) {
        unread = pullNotFound(row);
        if (!known.isFinal) return { ...awaitFinality(update, view), ...unread };
        // In a paid period, the unknown pull is a further pull. After three keeper failures, the
        // unknown pull no longer delays later payments.
        if (row.setbacks >= 3 && isPaid(state, account)) state.periodPulled = account.amountPulled;
        // The RPC history lacks the pull, perhaps for good. Once the keeper has given up, an
        // unknown pull of a past period no longer blocks the current period's payment.
        if (!isGivenUp(row) || account.periodStart >= period.start)
          return { ...keeperFailure(update, view), ...unread };
      }
    }
    observeDelegation(update, view, account);
    observeRepair(update, view, account, period);
  }
  observeCancel(update, view, account, period);

  if (state.cancelRequestedAt !== null) return end(update, view, ends, null);
  const endReason = planEnd(row, view, account, period);
  if (endReason !== null) return end(update, view, ends, endReason);
  // A subscription whose account is missing is cancelled or ended. Both cases have returned above.
  if (account === null || period === null)
    throw new Error('a live subscription without an account');
  const decision = collection(update, view, account, period, { rules, lookups });
  return unread === undefined ? decision : { ...unread, ...decision };
}

/**
 * Returns the account if it is the account of this registration, else null. An account can be
 * closed and reopened at the same address with other periods or terms.
 */
export function registeredAccount(
  row: KeeperSubscription,
  account: SubscriptionAccount | null,
): SubscriptionAccount | null {
  if (account === null) return null;
  if (account.amount !== row.amount || account.periodHours !== BigInt(row.periodHours)) return null;
  if (row.planCreatedAt !== null && account.planCreatedAt !== unixSeconds(row.planCreatedAt))
    return null;
  if (row.periodAnchor === null) return account;
  const apart = account.periodStart - unixSeconds(row.periodAnchor);
  return apart >= 0n && apart % periodSeconds(account.periodHours) === 0n ? account : null;
}

/**
 * Whether a missing account counts as closed: (1) another account has replaced it, (2) a keeper has
 * read it before, or (3) its registration is old enough. Otherwise the RPC endpoint may just lag
 * behind the chain.
 */
function missingIsBelieved(row: KeeperSubscription, view: ChainView): boolean {
  if (view.subscription !== null) return true;
  return (
    view.slot > row.observedSlot && (row.periodAnchor !== null || row.ageSeconds > YOUNG_SECONDS)
  );
}

function observeDelegation(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
): void {
  const obstacle = delegationObstacle(view, account);
  // If the token account is missing, the delegation is unknown: it counts neither as revoked nor as
  // restored.
  if (obstacle === undefined && view.subscriberTokens === null) return;
  applyDelegation(update, obstacle, view.now);
}

/**
 * Makes a past-due payment due before its next scheduled retry, once the subscriber can pay it
 * (early-tries.ts limits how often).
 */
function observeRepair(
  { row, state }: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
  period: PullPeriod,
): void {
  if (state.status !== 'past_due' || state.nextPaymentDue === null) return;
  if (period.end - view.now <= CLOSING_SECONDS) return;
  const gross = amountDue(row, period);
  if (subscriberObstacle(view, account, gross) !== undefined) return;
  tryEarly(state, period.start, timeOf(view.now));
}

function observeCancel(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount | null,
  period: PullPeriod | null,
): void {
  const { state, row } = update;
  if (account?.expiresAt === 0n) {
    // A merchant's cancellation is not on chain, so a live account does not undo it.
    if (state.cancelRequestedBy === 'subscriber' && period !== null)
      applyResume(update, dueAgain(update, period));
    return;
  }
  if (state.cancelRequestedAt !== null) return;
  // A missing account was closed, either after a cancellation that no keeper saw, or because its
  // plan is gone.
  if (account !== null || planEnd(row, view, account, period) === null)
    applyCancelSeen(update, view.now);
}

/**
 * Due time of a resumed subscription: the start of the current period, or of the next period when
 * the current period is paid.
 */
function dueAgain({ state }: SubscriptionUpdate, period: PullPeriod): Date | null {
  const { paidThrough } = state;
  return paidThrough !== null && unixSeconds(paidThrough) > period.start
    ? startOfNext(period)
    : timeOf(period.start);
}

/**
 * Waits for the next period, because the plan is blocked. If the plan is unblocked earlier,
 * plan-block.ts makes the subscription due at once.
 */
function awaitPlan(update: SubscriptionUpdate, period: PullPeriod): Decision {
  update.state.dueAt = startOfNext(period) ?? timeOf(period.end + 1n);
  return { update };
}

/**
 * The amounts to collect and the treasury that receives the fee. If no treasury can receive the
 * fee, only the net amount is collected and the fee stays owed.
 */
function receivable(
  gross: bigint,
  row: KeeperSubscription,
  view: ChainView,
  rules: Rules,
): { amounts: Split; treasury: string; feeOwed: bigint } {
  const amounts = split(gross, row.feeBps ?? rules.feeBps);
  if (amounts.fee === 0n) return { amounts, treasury: row.treasury, feeOwed: 0n };
  const treasury = feeReceiver(view, row.treasury);
  if (treasury !== undefined) return { amounts, treasury, feeOwed: 0n };
  const { net, fee: feeOwed } = amounts;
  return { amounts: { gross: net, fee: 0n, net }, treasury: row.treasury, feeOwed };
}

/**
 * The decision when nothing can be collected now: (1) the subscription is paused, paid or in a
 * trial, (2) its renewal waits for the end of the window, or (3) the chain contradicts the row.
 * Otherwise undefined.
 */
function notYet(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
  period: PullPeriod,
  ahead: Ahead,
): Decision | undefined {
  const { state, row } = update;
  const { now } = view;
  if (row.pausedAt !== null) {
    setNextDue(update, null);
    return retryAt(update, now + PAUSED_READ_SECONDS);
  }
  const paidUntil = state.paidThrough === null ? null : unixSeconds(state.paidThrough);
  if (paidUntil !== null && paidUntil > period.start) {
    setNextDue(update, startOfNext(period));
    state.setbacks = 0;
    return awaitDue(update, view, account, ahead);
  }
  if (period.verdict === 'not_started') return retryAt(update, account.periodStart);
  // The database has recorded all known pulls of this period, and the period is unpaid. The chain
  // contradicts the row if the chain counts a pull in this period.
  if (period.verdict !== 'collectable' || period.pulled !== 0n) {
    return {
      ...keeperFailure(update, view),
      alert: {
        reason: 'period_mismatch',
        detail: `${period.verdict}, ${period.pulled.toString()} pulled`,
      },
    };
  }
  const due = notInTrial(row, state.nextPaymentDue ?? timeOf(now));
  if (due > timeOf(now)) {
    state.nextPaymentDue = due;
    return awaitDue(update, view, account, ahead);
  }
  const collectedAt = collectAt(row, { ...state, nextPaymentDue: due });
  return collectedAt !== null && collectedAt > timeOf(now)
    ? retryAt(update, unixSeconds(collectedAt))
    : undefined;
}

function collection(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
  period: PullPeriod,
  { rules, lookups }: { rules: Rules; lookups: LookupResult },
): Decision {
  const { state, row } = update;
  const { now } = view;
  const ahead = { minimumAmount: rules.minimumAmount, owed: lookups.owed ?? 0n };
  const waiting = notYet(update, view, account, period, ahead);
  if (waiting !== undefined) return waiting;

  const gross = amountToCollect(row, period, rules.minimumAmount);
  if (gross === 0n) {
    applyUncollected(update, period.end, startOfNext(period));
    return awaitNextPeriod(update, view, account, period, ahead);
  }
  const { amounts, treasury, feeOwed } = receivable(gross, row, view, rules);
  const parties = { keepers: rules.keepers, merchant: row.merchantWallet, mint: row.mint };
  const blocks = planObstacle(view, amounts.net, parties);
  const isWhole = feeOwed === 0n && treasury === row.treasury;
  const isMissing = blocks === 'receiver_account_missing' || !isWhole;
  if (isMissing && lookups.receiverDoubted === true) return retrySoon(update, view, DOUBT_SECONDS);
  if (blocks !== undefined || view.plan === null)
    return { ...awaitPlan(update, period), blocks: blocks ?? 'not_a_puller' };
  if (amounts.gross === 0n)
    return { ...keeperFailure(update, view), alert: { reason: 'destination_refused' } };
  const obstacle = subscriberObstacle(view, account, amounts.gross);
  if (obstacle !== undefined)
    return failUnsent(update, view, account, period, { reason: obstacle, amounts }, rules);
  if (period.end - now <= CLOSING_SECONDS)
    return awaitNextPeriod(update, view, account, period, ahead);
  const funded = rules.keepers.filter((one) => !rules.isOutOfSol(one));
  const keeper = pullerAmong(view.plan, funded);
  // No alert here: the balance check raises one alert for all waiting subscriptions.
  if (keeper === undefined) return keeperFailure(update, view);
  const { start: periodStart, end: periodEnd } = period;
  const isDoubted = failedOnChain(state, periodStart);
  return {
    update,
    collect: { keeper, periodStart, periodEnd, amounts, treasury, feeOwed, isDoubted },
  };
}
/** `owed`: base units that the wallet owes to other plans before the next payment. */
type Ahead = Pick<Rules, 'minimumAmount'> & { readonly owed: bigint };

// The functions below decide when the keeper next reads a subscription with nothing due, and
// whether the next payment is announced.
/**
 * Waits for nextPaymentDue. Shortly before that time, announces the payment and whether the wallet
 * could pay it now.
 */
function awaitDue(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
  { minimumAmount, owed }: Ahead,
): Decision {
  const { state, row } = update;
  const { nextPaymentDue: due, discountPeriods } = state;
  const [{ periodHours, noticeHours }, now] = [row, timeOf(view.now)];
  if (due !== null && isDueSoon(state, periodHours, now, noticeHours)) {
    const period = pullPeriod(account, view.plan, unixSeconds(due));
    const gross = amountToCollect({ ...row, discountPeriods }, period, minimumAmount);
    const obstacle = subscriberObstacle(view, account, owed + gross);
    const issue = obstacle === undefined ? null : renewalIssue(obstacle);
    applyUpcoming(update, gross, issue, noticesUntil(now, due, periodHours, noticeHours));
  }
  state.dueAt = nextRead(state, row) ?? state.paidThrough;
  return { update };
}

/**
 * Waits for the next period. Used when nothing is charged for the current period, or when a payment
 * signed now could land in the next period.
 */
function awaitNextPeriod(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
  period: PullPeriod,
  ahead: Ahead,
): Decision {
  setNextDue(update, startOfNext(period));
  return update.state.nextPaymentDue === null
    ? retryAt(update, period.end + 1n)
    : awaitDue(update, view, account, ahead);
}

/**
 * Announces the next payment, unless `amount` is 0. `issue`: why the wallet could not pay now.
 * `notices`: number of notices whose time has come. Several such notices are sent as one event.
 */
function applyUpcoming(
  { state, events }: SubscriptionUpdate,
  amount: bigint,
  issue: RenewalIssue | null,
  notices: number,
): void {
  state.announcedDue = state.nextPaymentDue;
  state.announcedNotices = notices;
  if (amount > 0n)
    events.push({
      type: 'renewal_upcoming',
      extra: { dueAt: state.nextPaymentDue, amount, canPay: issue === null, issue },
    });
}
