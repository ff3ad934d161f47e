// Decides from when a period is charged if the service collects late. Until the first try of a
// payment, the subscriber has access only as long as access.ts grants it. If the first try is
// later, only the time from this try on is billed (billedFrom), also in retries. Pure.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import { lateAccess } from '../accounts/access.ts';
import { chargeStart } from '../invoices/cover.ts';
import { collectAt } from './window.ts';

const SECONDS_PER_HOUR = 3600n;
/** Maximum of promptSeconds(). */
const MAX_PROMPT_SECONDS = 600n;

/**
 * Time (s) within which a first try still charges the whole period. It begins when an account opens
 * or its first payment becomes due. A sixtieth of the period, at most MAX_PROMPT_SECONDS.
 */
export function promptSeconds(periodHours: bigint): bigint {
  const share = (periodHours * SECONDS_PER_HOUR) / 60n;
  return share < MAX_PROMPT_SECONDS ? share : MAX_PROMPT_SECONDS;
}

/**
 * Whether a first try at `now` is late for a payment of the period that starts at `start`. (1) If a
 * late collection keeps access, the try is late after this access ends, but never within
 * promptSeconds of a registration or of the end of a pause. (2) Otherwise it is late promptSeconds
 * after the time from which the period is charged. Times are in Unix seconds.
 */
function isLate(row: KeeperSubscription, start: bigint, now: bigint): boolean {
  const { status, nextPaymentDue, paidThrough, billedFrom } = row;
  if (status !== 'active' || nextPaymentDue === null) return false;
  const charged = chargeStart(row, start);
  const isPrompt = (from: bigint) => now - from <= promptSeconds(BigInt(row.periodHours));
  const access = lateAccess(row);
  if (access !== null)
    return timeOf(now) > access.until && !(billedFrom && isPrompt(unixSeconds(billedFrom)));
  // A renewal waits for the end of its window, also after a refunded period.
  const collectedAt = paidThrough === null ? null : collectAt(row, row);
  return !isPrompt(charged) && !(collectedAt && isPrompt(unixSeconds(collectedAt)));
}

/**
 * Returns billedFrom for an invoice of the period at `start` that is drawn up at `now`. A retry
 * collects the invoice that stands, so each one is drawn up with a first try.
 */
export const billedFromOf = (row: KeeperSubscription, start: bigint, now: bigint): Date | null =>
  isLate(row, start, now) ? timeOf(now) : row.billedFrom;
