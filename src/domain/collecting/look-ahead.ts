// Decides when renewal_upcoming announces a payment. Each notice of a payment is sent once, while
// the subscription is active. Pure.
import type { SubscriberReason } from '../../chain/program/errors.ts';
import type { SubscriptionState } from '../../db/subscriptions/state.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
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
 * Chain times of a payment's notices, ascending. Each of the plan's noticeHours gives one notice
 * before `due`. If noticeHours is null, lookAheadAt() gives the only notice.
 */
function noticeTimes(
  due: Date,
  periodHours: number,
  noticeHours: readonly number[] | null,
): Date[] {
  if (noticeHours === null) return [lookAheadAt(due, periodHours)];
  return noticeHours
    .map((hours) => new Date(due.getTime() - hours * HOUR_MS))
    .sort((a, b) => a.getTime() - b.getTime());
}

/** Counts the notices of the payment due at `due` whose time has come by `now`. */
export function noticesUntil(
  now: Date,
  due: Date,
  periodHours: number,
  noticeHours: readonly number[] | null,
): number {
  return noticeTimes(due, periodHours, noticeHours).filter((time) => time <= now).length;
}

/**
 * Whether a notice of the next payment has yet to be sent. `notices` is the number of notices per
 * payment. A past-due payment is not announced, because payment_failed has reported it.
 */
export function isToAnnounce(
  { status, cancelRequestedAt, nextPaymentDue, announcedDue, announcedNotices }: SubscriptionState,
  notices = 1,
): boolean {
  if (status !== 'active' || cancelRequestedAt !== null || nextPaymentDue === null) return false;
  return nextPaymentDue.getTime() !== announcedDue?.getTime() || announcedNotices < notices;
}

/** The time of the next notice; undefined when all notices of the next payment were sent. */
function nextNotice(
  state: SubscriptionState,
  periodHours: number,
  noticeHours: readonly number[] | null,
): Date | undefined {
  const { nextPaymentDue: due, announcedDue, announcedNotices } = state;
  if (due === null || !isToAnnounce(state, noticeHours?.length)) return undefined;
  const sent = announcedDue?.getTime() === due.getTime() ? announcedNotices : 0;
  return noticeTimes(due, periodHours, noticeHours)[sent];
}

/** Whether the next payment must be announced at `now`. */
export function isDueSoon(
  state: SubscriptionState,
  periodHours: number,
  now: Date,
  noticeHours: readonly number[] | null = null,
): boolean {
  const { nextPaymentDue: due } = state;
  if (due === null || due <= now) return false;
  const notice = nextNotice(state, periodHours, noticeHours);
  return notice !== undefined && notice <= now;
}

/**
 * Returns the chain time at which the keeper next reads a subscription with nothing due:
 * - If there is no next payment: null.
 * - If all notices of the next payment were sent: the time at which the payment is collected.
 * - If the next notice's window (window.ts) ends before the payment is due: the end of this window.
 * - Otherwise: the time of the next notice.
 */
export function nextRead(
  state: SubscriptionState,
  terms: WindowTerms & Pick<KeeperSubscription, 'noticeHours'>,
): Date | null {
  const { nextPaymentDue: due } = state;
  const notice = nextNotice(state, terms.periodHours, terms.noticeHours);
  if (due === null || notice === undefined) return collectAt(terms, state);
  const end = windowEnd(notice, terms);
  return end < due ? end : notice;
}

/** The `issue` of renewal_upcoming for an obstacle (obstacles.ts). */
export function renewalIssue(obstacle: SubscriberReason): RenewalIssue {
  switch (obstacle) {
    case 'insufficient_funds':
      return 'insufficient_balance';
    case 'account_frozen':
    case 'account_closed':
    case 'account_owner_changed':
      return obstacle;
    case 'allowance_exhausted':
    case 'delegate_replaced':
    case 'authority_closed':
    case 'authority_replaced':
      return 'approval_missing';
  }
}
