// Retry schedule of past-due subscriptions (docs/contract.md, Subscription status).

/** Default retry times in hours after the first failure, for plans that set no retry times. */
export const RETRY_HOURS = [1, 6, 24, 72, 120] as const;

const HOUR_MS = 3_600_000;

/** Chain time at which an unpaid subscription expires: `days` after its first failure. */
export function expiryOf(pastDueSince: Date, days: number): Date {
  return new Date(pastDueSince.getTime() + days * 24 * HOUR_MS);
}

/**
 * Chain time of the next attempt after a failure at `now`: the next scheduled retry, the start of
 * the next period or the expiry, whichever comes first. When the next period starts, the unpaid
 * period is lost and the next one is due. The expiry is the last attempt; after it the result is
 * null.
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
    /** The plan's own retry times in hours after the first failure, ascending. */
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
