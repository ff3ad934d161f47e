// Compares a subscription's accounts with its row. The caller makes a changed subscription due, and
// a collect loop claims it and decides.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { periodSeconds } from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { UnderWay } from '../../db/payment-attempts.ts';
import type { KeeperSubscription } from '../../db/subscription-work.ts';
import type { View } from './chain-view.ts';
import { decide, registeredAccount } from './decide.ts';
import type { Rules } from './decision.ts';
import { hasUnknownPull } from './pulls.ts';

/** Whether the chain shows a change that is not recorded in the row. Pure. */
export function hasChanged(row: KeeperSubscription, view: View, rules: Rules): boolean {
  if (view instanceof Error) return false;
  const { update, needs } = decide(row, view, rules);
  // If an earlier look-up did not find a pull, this is no new change: the look-up is repeated after
  // its backoff, also when the account is gone.
  const isSeen =
    registeredAccount(row, view.subscription) !== null || row.cancelRequestedAt !== null;
  const isKnown = needs === 'pulls' && row.setbacks > 0 && isSeen;
  if (needs !== undefined) return !isKnown;
  const { nextPaymentDue, delegationRevokedAt } = update.state;
  const hasEvent = update.events.some(({ type }) => type !== 'payment_failed');
  const repaired = row.delegationRevokedAt !== null && delegationRevokedAt === null;
  // The wallet was topped up or approved again, so the payment is due before its scheduled retry.
  const payable =
    row.status === 'past_due' &&
    nextPaymentDue !== null &&
    (row.nextPaymentDue === null || nextPaymentDue < row.nextPaymentDue);
  return hasEvent || repaired || payable;
}

/**
 * If the account shows the payment of the open attempt and no other pull, returns the row as it
 * will be once this payment is recorded. Otherwise returns the row unchanged. A comparison then
 * ignores the keeper's own payment but finds other changes. Pure.
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

/** Whether the account in a notification shows a change that is not recorded in the row. Pure. */
export function accountChanged(row: KeeperSubscription, account: SubscriptionAccount): boolean {
  if (registeredAccount(row, account) === null) return true;
  if ((account.expiresAt !== 0n) !== (row.cancelRequestedAt !== null))
    return row.cancelRequestedBy !== 'merchant' || account.expiresAt !== 0n;
  return hasUnknownPull(row, account);
}
