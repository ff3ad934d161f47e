// Decides when renewal_upcoming announces a payment. Each due time is announced once, while the
// subscription is active. Pure.
import type { SubscriberReason } from '../../chain/program/errors.ts';
import type { SubscriptionState } from '../../db/subscription-work.ts';
import type { renewalIssues } from '../reasons.ts';
import { collectAt, windowEnd, type WindowTerms } from './window.ts';

const HOUR_MS = 3_600_000;
const MAX_MS = 72 * HOUR_MS;

export type RenewalIssue = keyof typeof renewalIssues;

/**
 * Chain time at which a payment is announced: a quarter of a period before `due`, but at most 3
 * days.
 */
export function lookAheadAt(due: Date, periodHours: number): Date {
  return new Date(due.getTime() - Math.min((periodHours * HOUR_MS) / 4, MAX_MS));
}

/**
 * Whether the next payment must still be announced. A past-due payment is not announced, because
 * payment_failed has reported it.
 */
export function isToAnnounce({
  status,
  cancelRequestedAt,
  nextPaymentDue,
  announcedDue,
}: SubscriptionState): boolean {
  return (
    status === 'active' &&
    cancelRequestedAt === null &&
    nextPaymentDue !== null &&
    nextPaymentDue.getTime() !== announcedDue?.getTime()
  );
}

/** Whether the next payment must be announced at `now`. */
export function isDueSoon(state: SubscriptionState, periodHours: number, now: Date): boolean {
  const { nextPaymentDue: due } = state;
  if (due === null || due <= now || !isToAnnounce(state)) return false;
  return lookAheadAt(due, periodHours) <= now;
}

/**
 * Chain time at which the keeper next reads a subscription with nothing due. The first read
 * announces the next payment, and the second read collects it. Both reads are at the end of a
 * window (window.ts). Null when there is no next payment.
 */
export function nextRead(state: SubscriptionState, terms: WindowTerms): Date | null {
  const { nextPaymentDue } = state;
  return nextPaymentDue !== null && isToAnnounce(state)
    ? windowEnd(lookAheadAt(nextPaymentDue, terms.periodHours), terms)
    : collectAt(terms, state);
}

/** The `issue` of renewal_upcoming for an obstacle (obstacles.ts). */
export function renewalIssue(obstacle: SubscriberReason): RenewalIssue {
  switch (obstacle) {
    case 'insufficient_funds':
    case 'account_closed':
    case 'account_owner_changed':
      return 'insufficient_balance';
    case 'account_frozen':
      return 'account_frozen';
    case 'allowance_exhausted':
    case 'delegate_replaced':
    case 'authority_closed':
    case 'authority_replaced':
      return 'approval_missing';
  }
}
