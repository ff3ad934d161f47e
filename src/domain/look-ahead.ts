// When a payment is announced before it is due (renewal_upcoming): once for each due time, while the subscription is active. Pure.
import type { SubscriberReason } from '../chain/errors.ts';
import type { SubscriptionState } from '../db/subscriptions.ts';
import type { renewalIssues } from './reasons.ts';

const HOUR_MS = 3_600_000;
const MOST_MS = 72 * HOUR_MS;

export type RenewalIssue = keyof typeof renewalIssues;

/** Chain time from which a payment due at `due` is announced: a quarter of the period before, at most 3 days. */
export function lookAheadAt(due: Date, periodHours: number): Date {
  return new Date(due.getTime() - Math.min((periodHours * HOUR_MS) / 4, MOST_MS));
}

/** Whether the next payment is still to be announced. One that is past due is not: payment_failed has reported it. */
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

/** Whether the next payment is to be announced at `now`. */
export function isDueSoon(state: SubscriptionState, periodHours: number, now: Date): boolean {
  const { nextPaymentDue: due } = state;
  if (due === null || due <= now || !isToAnnounce(state)) return false;
  return lookAheadAt(due, periodHours) <= now;
}

/** When the keeper looks at a subscription next that owes nothing now: to announce the next payment, then to collect it. Null when none is due. */
export function nextLook(state: SubscriptionState, periodHours: number): Date | null {
  const { nextPaymentDue } = state;
  return nextPaymentDue !== null && isToAnnounce(state)
    ? lookAheadAt(nextPaymentDue, periodHours)
    : nextPaymentDue;
}

/** The `issue` for what stands against a payment now (domain/obstacles.ts). */
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
