// Decides what the keeper does with a subscription, from the subscription's row and a snapshot of
// its accounts. Pure. settlement.ts writes the decision if the row has not changed since.
// Idempotent: a second decision from the written row and the same accounts changes nothing.
import type { SubscriptionAccount, SubscriptionTerms } from '../../chain/program/layouts.ts';
import { periodSeconds, pullPeriod, type PullPeriod } from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import { openOf } from '../invoices/allocate.ts';
import { closeOpen } from '../invoices/closing.ts';
import { notInTrial } from '../invoices/cover.ts';
import { drawUp } from '../invoices/draw-up.ts';
import type { ChainView } from './chain-view.ts';
import {
  awaitFinality,
  awaitSlot,
  type Decision,
  keeperFailure,
  lookupFailure,
  pullNotFound,
  retryAt,
  retrySoon,
  type Rules,
} from './decision.ts';
import { closeInterrupted, closeOver, dueInvoice, noteTried } from './due-invoice.ts';
import { failedOnChain, tryEarly } from './early-tries.ts';
import { afterTheEnd, end, planEnd } from './ending.ts';
import { receivable } from './fee.ts';
import { delegationObstacle, planObstacle, pullerAmong, subscriberObstacle } from './obstacles.ts';
import { applyCredit, applyUncollected } from './paying.ts';
import {
  type LookupResult,
  hasUnknownPull,
  isGivenUp,
  isLeftToReconcile,
  isPaid,
  type PullLookup,
  pullLookup,
  recordPulls,
  startOfNext,
} from './pulls.ts';
import { failUnsent } from './refusal.ts';
import {
  applyCancelSeen,
  applyDelegation,
  applyResume,
  CHANGE_SECONDS,
  type SubscriptionUpdate,
  updateOf,
  isLive,
  setNextDue,
  termsOf,
} from './transitions.ts';
import { type Ahead, awaitDue, awaitNextPeriod } from './waiting.ts';
import { CLOSING_SECONDS, collectAt } from './window.ts';

/**
 * A paused subscription is read again after this many seconds. Streams and the sweep report a
 * cancellation sooner.
 */
const PAUSED_READ_SECONDS = 86_400n;
/** Seconds until the next read if an RPC endpoint did not have an account that may still exist. */
const DOUBT_SECONDS = 60n;
/**
 * If a registration is older than this (seconds), a missing account counts as closed, even if no
 * keeper has read the account before.
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
  if (account !== null) observeIdentity(update, account);
  const lookup = pullLookup(row, lookups);
  const ends = { account, rules, lookup, isClosable: lookups.closingFailed !== true };
  if (!isLive(state)) {
    const decision = { ...leftPulls(row, lookup), ...afterTheEnd(update, view, ends) };
    closeOpen(update, 'ended', timeOf(view.now));
    return decision;
  }
  if (account === null && !missingIsBelieved(row, view)) return retrySoon(update, view, 10n);
  closeInterrupted(update, view.now);

  const period = account === null ? null : pullPeriod(account, view.plan, view.now);
  let unread: Pick<Decision, 'alert'> | undefined;
  if (account !== null && period !== null) {
    if (hasUnknownPull(state, account)) {
      if (lookup.kind === 'too_long')
        return { ...lookupFailure(update, view), ...pullNotFound(row) };
      if (lookup.kind === 'not_final') return awaitFinality(update, view);
      if (lookup.kind === 'needed') return { update, needs: 'pulls' };
      recordPulls(update, lookup, account, period);
      if (hasUnknownPull(state, account)) {
        unread = pullNotFound(row);
        if (!lookup.isFinal) return { ...awaitFinality(update, view), ...unread };
        // The look-up did not find every pull that the account counts. If the account's period is
        // paid, the missing pull is an additional payment in a paid period. After three failed
        // look-ups, the missing pull counts as known, so that it no longer delays later payments.
        if (row.failedLookups >= 3 && isPaid(state, account))
          state.periodPulled = account.amountPulled;
        // The RPC history may never show the missing pull. After the keeper has stopped searching
        // for it, the missing pull delays a payment only if both are in the current period.
        if (!isGivenUp(row) || account.periodStart >= period.start)
          return { ...lookupFailure(update, view), ...unread };
      }
    }
    if (!hasUnknownPull(state, account)) state.failedLookups = 0;
    observeDelegation(update, view, account);
    observeRepair(update, view, account, { period, rules });
  }
  observeCancel(update, view, account, period);

  if (state.cancelRequestedAt !== null) return end(update, view, ends, null);
  const endReason = planEnd(row, view, account, period);
  if (endReason !== null) return end(update, view, ends, endReason);
  // A missing account is either a cancellation or the end of the subscription. decide() has
  // returned in both cases.
  if (account === null || period === null)
    throw new Error('a live subscription without an account');
  closeOver(update, view.now);
  const decision = collection(update, view, account, period, { rules, lookups });
  return unread === undefined ? decision : { ...unread, ...decision };
}

/**
 * Returns the account if it is the account of this registration, else null. An account can be
 * closed and reopened at the same address with other periods or terms.
 */
export function registeredAccount<T extends SubscriptionTerms>(
  row: KeeperSubscription,
  account: T | null,
): T | null {
  if (account === null) return null;
  if (account.amount !== row.amount || account.periodHours !== BigInt(row.periodHours)) return null;
  if (row.planCreatedAt !== null && account.planCreatedAt !== unixSeconds(row.planCreatedAt))
    return null;
  if (row.periodAnchor === null) return account;
  const apart = account.periodStart - unixSeconds(row.periodAnchor);
  return apart >= 0n && apart % periodSeconds(account.periodHours) === 0n ? account : null;
}

/**
 * Whether the registered account, which `view` lacks, counts as closed. If another account has the
 * address, the registered account is closed. If no account has the address, the RPC endpoint may
 * only lag behind. The registered account then counts as closed if (1) `view` is from a newer slot
 * than the row, and (2) a keeper has read the account before or the registration is older than
 * YOUNG_SECONDS.
 */
function missingIsBelieved(row: KeeperSubscription, view: ChainView): boolean {
  if (view.subscription !== null) return true;
  return (
    view.slot > row.observedSlot && (row.periodAnchor !== null || row.ageSeconds > YOUNG_SECONDS)
  );
}

/** Returns the alert about pulls of a keeper that are left to `billing reconcile`. */
function leftPulls(row: KeeperSubscription, lookup: PullLookup): Pick<Decision, 'alert'> {
  const left =
    lookup.kind === 'known'
      ? lookup.pulls.filter((pull) => !pull.recorded && isLeftToReconcile(row, pull))
      : [];
  if (left.length === 0) return {};
  const detail = `run "billing reconcile": ${left.map(({ signature }) => signature).join(', ')}`;
  return { alert: { reason: 'history_missing', detail } };
}

/**
 * Gives a live registration the identity of the account from which it collects. The registration
 * may have read another one: an endpoint lagged behind a reopening, or after a fork the opening
 * transaction landed again in another slot.
 */
function observeIdentity({ row, state }: SubscriptionUpdate, account: SubscriptionAccount): void {
  state.periodAnchor ??= timeOf(account.periodStart);
  if (!isLive(row)) return;
  state.chainInitId = account.initId;
  if (state.chainPeriodStart?.getTime() !== state.periodAnchor.getTime())
    state.chainPeriodStart = state.periodAnchor;
}

function observeDelegation(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
): void {
  const obstacle = delegationObstacle(view, account);
  // A missing token account does not show whether the approval was revoked or restored, so the row
  // stays as it is.
  if (obstacle === undefined && view.subscriberTokens === null) return;
  applyDelegation(update, obstacle, view.now);
}

/**
 * Makes a past-due payment due before its next scheduled retry, once the subscriber can pay it
 * (early-tries.ts limits how often).
 */
function observeRepair(
  update: SubscriptionUpdate,
  view: ChainView,
  account: SubscriptionAccount,
  { period, rules }: { period: PullPeriod; rules: Rules },
): void {
  const { state } = update;
  if (state.status !== 'past_due' || state.nextPaymentDue === null) return;
  if (period.end - view.now <= CLOSING_SECONDS) return;
  const limits = { minimum: rules.minimumAmount };
  const invoice = openOf(update, period) ?? drawUp(termsOf(update), period, limits);
  const { amountDue } = invoice;
  if (subscriberObstacle(view, account, amountDue) !== undefined) return;
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
    // The account is not cancelled on chain, so the subscriber has undone any on-chain
    // cancellation. Cancellations through the API stay. The cancellation of a replaced subscription
    // stays too, because the live account belongs to a newer subscription.
    const { replacedBy } = row;
    if (state.cancelRequestedBy === 'subscriber' && replacedBy === null && period !== null)
      applyResume(update, dueAgain(update, period));
    return;
  }
  if (state.cancelRequestedBy === 'subscriber_here') state.cancelRequestedBy = 'subscriber';
  if (state.cancelRequestedAt !== null) return;
  // If the account exists, the subscriber has cancelled it. If the account is missing, the
  // subscriber has cancelled and closed it, and no keeper saw the cancellation. Exception: if the
  // account is missing and the plan has ended, the account was closed because of the plan, which is
  // no cancellation.
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
 * The decision when nothing can be collected now: (1) the subscription is paused, paid or in a
 * trial, (2) the payment is not due yet or its collection window has not ended, or (3) the chain
 * contradicts the row. Otherwise undefined.
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
  // All known pulls are recorded and the period is unpaid, so the chain should count no pull in
  // this period and allow a pull now. Otherwise the chain contradicts the row.
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
  // The wallet may have resumed this account after the change. Even so, the change replaces this
  // subscription.
  if (lookups.hasChanged === true) return retrySoon(update, view, CHANGE_SECONDS);
  // The price of a change counts the credit that the open invoice has spent.
  if (row.isChangeSigned && row.status === 'past_due')
    return retrySoon(update, view, CHANGE_SECONDS);

  const at = { now, minimum: rules.minimumAmount };
  const due = dueInvoice(update, period, at);
  const { invoice } = due;
  const { amountDue } = invoice;
  if (amountDue === 0n) {
    const how = { invoice, now, next: startOfNext(period) };
    noteTried(update, due, now);
    if (invoice.total === 0n) applyUncollected(update, period, how);
    else applyCredit(update, period, how);
    return awaitNextPeriod(update, view, account, period, ahead);
  }
  const { amounts, treasury, feeOwed } = receivable(
    amountDue,
    { feeBps: row.feeBps ?? rules.feeBps, treasury: row.treasury },
    view,
  );
  const parties = { keepers: rules.keepers, merchant: row.merchantWallet, mint: row.mint };
  const blocks = planObstacle(view, amounts.net, parties);
  const isWhole = feeOwed === 0n && treasury === row.treasury;
  const isMissing = blocks === 'receiver_account_missing' || !isWhole;
  if (isMissing && lookups.receiverDoubted === true) return retrySoon(update, view, DOUBT_SECONDS);
  if (blocks !== undefined || view.plan === null)
    return { ...awaitPlan(update, period), blocks: blocks ?? 'not_a_puller' };
  const obstacle = subscriberObstacle(view, account, amounts.gross);
  if (obstacle !== undefined) {
    const failed = { ...due, reason: obstacle, amounts };
    return failUnsent(update, view, account, period, failed, rules);
  }
  if (period.end - now <= CLOSING_SECONDS)
    return awaitNextPeriod(update, view, account, period, ahead);
  const funded = rules.keepers.filter((one) => !rules.isOutOfSol(one));
  const keeper = pullerAmong(view.plan, funded);
  // Every keeper that may collect this payment is out of SOL. No alert is raised here, because the
  // check of the keepers' balances raises one alert for all waiting subscriptions.
  if (keeper === undefined) return keeperFailure(update, view);
  const { start: periodStart, end: periodEnd } = period;
  const isDoubted = failedOnChain(state, periodStart);
  const money = { ...due, amounts, treasury, feeOwed };
  return { update, collect: { keeper, periodStart, periodEnd, ...money, isDoubted } };
}
