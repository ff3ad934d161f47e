// When a subscription that could not be paid is tried again (docs/contract.md, Subscription status).

/** Hours after the first failure at which a payment is tried again, where the plan has none of its own. */
export const RETRY_HOURS = [1, 6, 24, 72, 120] as const;

const HOUR_MS = 3_600_000;

/** Chain time from which an unpaid subscription expires: `days` after its first failure. */
export function expiryOf(pastDueSince: Date, days: number): Date {
  return new Date(pastDueSince.getTime() + days * 24 * HOUR_MS);
}

/**
 * Chain time of the next attempt after one failed at `now`: the next step of the schedule, or the start of the next period when that comes first
 * (the unpaid period is gone then, and the new one is due), or the last attempt, at the expiry. Null when the expiry has come: there is no next one.
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
    /** The plan's own, ascending. */
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
