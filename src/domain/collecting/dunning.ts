// The schedule on which payments of past-due subscriptions are retried. docs/contract.md
// (Subscription status) promises this schedule to merchants.

/**
 * Default retry times in hours after the first failed payment, for plans without retry times of
 * their own.
 */
export const RETRY_HOURS = [1, 6, 24, 72, 120] as const;

const HOUR_MS = 3_600_000;

/**
 * Returns when a past-due subscription expires: `days` after its first failed payment, by the
 * chain's clock.
 */
export function expiryOf(pastDueSince: Date, days: number): Date {
  return new Date(pastDueSince.getTime() + days * 24 * HOUR_MS);
}

/**
 * Returns the time of the next try after a payment failed at `now`: the next scheduled retry, the
 * start of the next period, or the expiry, whichever is first. A retry is not later than the start
 * of the next period, because an unpaid period cannot be collected after its end. The last try is
 * at the expiry. Returns null if `now` is not before the expiry.
 */
export function nextAttemptAt(
  now: Date,
  {
    pastDueSince,
    days,
    nextPeriod,
    retryHours = RETRY_HOURS,
  }: {
    pastDueSince: Date;
    days: number;
    nextPeriod: Date | null;
    /** The plan's own retry times in hours after the first failed payment, in ascending order. */
    retryHours?: readonly number[];
  },
): Date | null {
  const expiry = expiryOf(pastDueSince, days);
  if (now >= expiry) return null;
  if (nextPeriod !== null && nextPeriod <= now) return now;
  const retry = retryHours
    .map((hours) => new Date(pastDueSince.getTime() + hours * HOUR_MS))
    .find((at) => at > now);
  return [retry ?? expiry, nextPeriod ?? expiry].reduce(
    (earliest, at) => (at < earliest ? at : earliest),
    expiry,
  );
}
