// Compares a subscription's on-chain accounts with its row in the database. When they differ, the
// caller makes the subscription due. A collect loop then claims the subscription and decides what
// to do.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { periodSeconds } from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { UnderWay } from '../../db/payment-attempts.ts';
import type { KeeperSubscription } from '../../db/subscription-work.ts';
import type { View } from './chain-view.ts';
import { decide, registeredAccount } from './decide.ts';
import type { Rules } from './decision.ts';
import { hasUnknownPull } from './pulls.ts';

/**
 * Returns whether the accounts show a change that the subscription's row does not have yet. Pure.
 */
export function hasChanged(row: KeeperSubscription, view: View, rules: Rules): boolean {
  if (view instanceof Error) return false;
  const { update, needs } = decide(row, view, rules);
  // An on-chain payment that an earlier look-up did not find is not a new change. The look-up is
  // repeated after its backoff, even when the account has been closed.
  const isSeen =
    registeredAccount(row, view.subscription) !== null || row.cancelRequestedAt !== null;
  const isKnown = needs === 'pulls' && row.setbacks > 0 && isSeen;
  if (needs !== undefined) return !isKnown;
  const { nextPaymentDue, delegationRevokedAt } = update.state;
  const hasEvent = update.events.some(({ type }) => type !== 'payment_failed');
  const repaired = row.delegationRevokedAt !== null && delegationRevokedAt === null;
  // The subscriber topped up the wallet or approved again, so the payment can be collected before
  // its scheduled retry.
  const payable =
    row.status === 'past_due' &&
    nextPaymentDue !== null &&
    (row.nextPaymentDue === null || nextPaymentDue < row.nextPaymentDue);
  return hasEvent || repaired || payable;
}

/**
 * Returns the row as it will be once the payment of the open attempt is recorded. This applies only
 * if the account shows this payment and no other payment; otherwise returns the row unchanged. With
 * the returned row, hasChanged() ignores the keeper's own payment but finds other changes. Pure.
 */
export function withPayment(
  row: KeeperSubscription,
  subscription: SubscriptionAccount | null,
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
export function accountChanged(row: KeeperSubscription, account: SubscriptionAccount): boolean {
  if (registeredAccount(row, account) === null) return true;
  if ((account.expiresAt !== 0n) !== (row.cancelRequestedAt !== null))
    return row.cancelRequestedBy !== 'merchant' || account.expiresAt !== 0n;
  return hasUnknownPull(row, account);
}
