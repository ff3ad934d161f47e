// Decides from when a period is charged if the service was late. Until its payment is tried for the
// first time, the subscriber had access only as long as access.ts grants it. If the first try comes
// later, only the time from that try on is charged (charged_from), also by the retries. Pure.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import { lateAccess } from '../accounts/access.ts';
import { chargeStart } from '../invoices/cover.ts';
import { collectAt } from './window.ts';

const SECONDS_PER_HOUR = 3600n;
const MAX_PROMPT_SECONDS = 600n;

/**
 * How many seconds after the beginning of an account, or after its first payment became due, the
 * whole is still charged: a sixtieth of the period, at most MAX_PROMPT_SECONDS.
 */
export function promptSeconds(periodHours: bigint): bigint {
  const share = (periodHours * SECONDS_PER_HOUR) / 60n;
  return share < MAX_PROMPT_SECONDS ? share : MAX_PROMPT_SECONDS;
}

/**
 * Whether a payment of the period that starts at `start` is late if it is tried at `now` for the
 * first time. It is late after the end of the access that a late collection keeps, but not within
 * promptSeconds of a registration. If there is no such access (before a first payment without a
 * trial, after a refunded period), it is late promptSeconds after the time from which the period is
 * charged. A payment after a pause is not late: it is charged from the end of the pause. Times are
 * in Unix seconds.
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
 * Returns chargedFrom for a payment of the period that starts at `start`, tried at `now`. `tried`
 * is the start of the newest period for which a payment was tried before; null for none.
 */
export function chargedFromOf(
  row: KeeperSubscription,
  { start, now, tried }: { start: bigint; now: bigint; tried: Date | null },
): Date | null {
  const isFirst = tried === null || unixSeconds(tried) < start;
  return isFirst && isLate(row, start, now) ? timeOf(now) : row.chargedFrom;
}
