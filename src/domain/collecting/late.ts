// Decides from when a period is charged if the service was late. Until its payment is tried for the
// first time, the subscriber had access only as long as access.ts grants it. If the first try is
// later, only the time from this try on is charged (charged_from). This also applies to retries.
// Pure.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import { lateAccess } from '../accounts/access.ts';
import { chargeStart } from '../invoices/cover.ts';
import { collectAt } from './window.ts';

const SECONDS_PER_HOUR = 3600n;
/** Maximum of promptSeconds(). */
const MAX_PROMPT_SECONDS = 600n;

/**
 * Grace (s) after an account opens, or after its first payment becomes due, in which the whole
 * period is charged: a sixtieth of the period, at most MAX_PROMPT_SECONDS.
 */
export function promptSeconds(periodHours: bigint): bigint {
  const share = (periodHours * SECONDS_PER_HOUR) / 60n;
  return share < MAX_PROMPT_SECONDS ? share : MAX_PROMPT_SECONDS;
}

/**
 * Whether a payment of the period that starts at `start` is late if its first try is at `now`. It
 * is late after the end of the access that a late collection keeps, but not within promptSeconds of
 * a registration. Without such access (before a first payment without a trial, after a refunded
 * period), it is late promptSeconds after the time from which the period is charged. A payment
 * after a pause is never late: it is charged from the end of the pause. Times are in Unix seconds.
 */
export function isLate(row: KeeperSubscription, start: bigint, now: bigint): boolean {
  const { status, nextPaymentDue, paidThrough, unpausedAt, chargedFrom } = row;
  if (status !== 'active' || nextPaymentDue === null) return false;
  const charged = chargeStart(row, start);
  if (unpausedAt !== null && unixSeconds(unpausedAt) === charged) return false;
  const isPrompt = (from: bigint) => now - from <= promptSeconds(BigInt(row.periodHours));
  const access = lateAccess(row);
  if (access !== null)
    return timeOf(now) > access.until && !(chargedFrom && isPrompt(unixSeconds(chargedFrom)));
  // A renewal waits for the end of its window, also after a refunded period.
  const collectedAt = paidThrough === null ? null : collectAt(row, row);
  return !isPrompt(charged) && !(collectedAt && isPrompt(unixSeconds(collectedAt)));
}

/**
 * Returns charged_from for a payment of the period at `start` that is tried at `now`.
 * `lastTriedPeriod` is the start of the newest period with an earlier try, or null.
 */
export function chargedFromOf(
  row: KeeperSubscription,
  { start, now, lastTriedPeriod }: { start: bigint; now: bigint; lastTriedPeriod: Date | null },
): Date | null {
  const isFirst = lastTriedPeriod === null || unixSeconds(lastTriedPeriod) < start;
  return isFirst && isLate(row, start, now) ? timeOf(now) : row.chargedFrom;
}
