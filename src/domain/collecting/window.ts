// Renewals are collected in windows: a renewal waits from its due time until the next multiple of
// COLLECTION_WINDOW_SECONDS of chain time. Payments of one window share transactions. First
// payments, retries and payments after a pause are collected as soon as they are due. Pure.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { SubscriptionState } from '../../db/subscriptions/state.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import { graceMs } from '../accounts/access.ts';
import { periodAt } from '../invoices/cover.ts';

/**
 * No payment is signed in the last CLOSING_SECONDS of a period, because the payment could land in
 * the next period.
 */
export const CLOSING_SECONDS = 60n;

/** The fields of a subscription from which its window is computed. */
export type WindowTerms = Pick<
  KeeperSubscription,
  'collectionWindow' | 'periodHours' | 'graceHours' | 'billedFrom' | 'planEndsAt'
>;

/**
 * The length of the subscription's window in seconds. This is the installation's window, but at
 * most a fortieth of the period, and at most a quarter of the grace period. If it is 0, payments
 * are collected as soon as they are due.
 */
export function windowSeconds(terms: WindowTerms): bigint {
  const { collectionWindow, periodHours } = terms;
  const limits = [collectionWindow, (periodHours * 3600) / 40, graceMs(terms) / 4000];
  return BigInt(Math.floor(Math.min(...limits)));
}

/** The first multiple of the subscription's window at or after `time` (chain time). */
export function windowEnd(time: Date, terms: WindowTerms): Date {
  const seconds = windowSeconds(terms);
  if (seconds === 0n) return time;
  // Rounded up, so that the end is never before `time`.
  const from = BigInt(Math.ceil(time.getTime() / 1000));
  return timeOf(((from + seconds - 1n) / seconds) * seconds);
}

/**
 * Returns the chain time at which the next payment is collected; null when no payment is due. A
 * renewal is collected at the end of its window, unless the period or the plan would end less than
 * CLOSING_SECONDS later. Such a renewal, and every other payment, is collected at nextPaymentDue.
 */
export function collectAt(
  terms: WindowTerms,
  {
    status,
    paidThrough,
    nextPaymentDue: due,
    periodAnchor,
  }: Pick<SubscriptionState, 'status' | 'paidThrough' | 'nextPaymentDue' | 'periodAnchor'>,
): Date | null {
  const { billedFrom, planEndsAt } = terms;
  if (due === null || status !== 'active' || paidThrough === null || periodAnchor === null)
    return due;
  if (billedFrom !== null && due <= billedFrom) return due;
  const end = windowEnd(due, terms);
  const lastSecond = unixSeconds(end) + CLOSING_SECONDS;
  const period = periodAt(terms, periodAnchor, unixSeconds(due));
  const isCut = planEndsAt !== null && unixSeconds(planEndsAt) <= lastSecond;
  return isCut || period.end <= lastSecond ? due : end;
}
