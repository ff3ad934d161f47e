// Compares a subscription's on-chain accounts with its row in the database. When they differ, the
// caller makes the subscription due. A collect loop then claims the subscription and decides what
// to do.
import type { SubscriptionTerms } from '../../chain/program/layouts.ts';
import { periodSeconds } from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { UnderWay } from '../../db/money/payment-attempts.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import type { ViewOrError } from './chain-view.ts';
import { decide, registeredAccount } from './decide.ts';
import type { Rules } from './decision.ts';
import { hasUnknownPull } from './pulls.ts';
import { isLive } from './transitions.ts';

/**
 * Returns whether the accounts show a change that the subscription's row does not have yet. Pure.
 */
export function hasChanged(row: KeeperSubscription, view: ViewOrError, rules: Rules): boolean {
  if (view instanceof Error) return false;
  const { update, needs } = decide(row, view, rules);
  // A decision with further work (`needs`) counts as a change, with one exception. If an earlier
  // look-up of payments failed, the keeper already repeats it after a backoff, so the look-up is no
  // change. An account whose cancellation is not recorded yet is a change in any case.
  const isSeen =
    registeredAccount(row, view.subscription) !== null || row.cancelRequestedAt !== null;
  const isKnown = needs === 'pulls' && row.failedLookups > 0 && isSeen;
  if (needs !== undefined) return !isKnown;
  const { nextPaymentDue, delegationRevokedAt, cancelRequestedBy } = update.state;
  const hasEvent = update.events.some(({ type }) => type !== 'payment_failed');
  const repaired = row.delegationRevokedAt !== null && delegationRevokedAt === null;
  // True if a past-due payment is due before its scheduled retry, because the subscriber has topped
  // up the wallet or restored the approval.
  const payable =
    row.status === 'past_due' &&
    nextPaymentDue !== null &&
    (row.nextPaymentDue === null || nextPaymentDue < row.nextPaymentDue);
  const isOnChain =
    row.cancelRequestedBy === 'subscriber_here' && cancelRequestedBy !== row.cancelRequestedBy;
  const isOver = update.state.pullable !== row.pullable;
  return hasEvent || repaired || payable || isOnChain || isOver;
}

/**
 * If the account shows the payment of the open attempt and no other payment, returns the row as it
 * will be when this payment is recorded. Otherwise returns the row unchanged. With the returned
 * row, hasChanged() ignores the keeper's own payment but finds other changes. Pure.
 */
export function withPayment(
  row: KeeperSubscription,
  subscription: SubscriptionTerms | null,
  underWay: UnderWay | undefined,
): KeeperSubscription {
  const account = registeredAccount(row, subscription);
  if (account === null || underWay === undefined) return row;
  const isIt =
    account.periodStart === unixSeconds(underWay.periodStart) &&
    account.amountPulled === underWay.amountGross;
  if (!isIt || (row.paidThrough !== null && row.paidThrough > underWay.periodStart)) return row;
  const paidThrough = timeOf(account.periodStart + periodSeconds(account.periodHours));
  return { ...row, paidThrough, periodPulled: account.amountPulled };
}

/**
 * Returns whether the account in a notification shows a change that the subscription's row does not
 * have yet. Pure.
 */
export function accountChanged(row: KeeperSubscription, account: SubscriptionTerms): boolean {
  if (registeredAccount(row, account) === null) return true;
  if (hasUnknownPull(row, account)) return true;
  if (!isLive(row)) return false;
  const isCancelled = account.expiresAt !== 0n;
  if (isCancelled && row.cancelRequestedBy === 'subscriber_here') return true;
  if (isCancelled === (row.cancelRequestedAt !== null)) return false;
  return row.cancelRequestedBy === 'subscriber' || isCancelled;
}
