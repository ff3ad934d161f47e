/** Spaces requests to an endpoint: its rate limit, and the pauses that it asks for. Times are milliseconds of one clock. */
export interface RateLimit {
  /** Milliseconds until the next request may go out. */
  delay(now: number): number;
  /** How many requests may go out at once now. */
  allowed(now: number): number;
  /** Counts a request that goes out now. */
  take(now: number): void;
  /** Lets nothing out until `until`. */
  pauseUntil(until: number): void;
}

/** Up to `perSecond` requests at once, then evenly spaced (a virtual schedule, GCRA); without `perSecond` only pauses count. */
export function createRateLimit(perSecond?: number): RateLimit {
  const interval = perSecond === undefined ? 0 : 1000 / perSecond;
  const burst = perSecond === undefined ? 0 : 1000 - interval;
  // When the schedule's next slot comes if requests went out evenly.
  let due = -Infinity;
  let pausedUntil = -Infinity;
  return {
    delay: (now) => Math.max(0, due - burst - now, pausedUntil - now),
    allowed(now) {
      if (now < pausedUntil || due - burst > now) return 0;
      return perSecond === undefined
        ? Infinity
        : 1 + Math.floor((now - Math.max(due - burst, now - burst)) / interval);
    },
    take(now) {
      due = Math.max(due, now) + interval;
    },
    pauseUntil(until) {
      pausedUntil = Math.max(pausedUntil, until);
    },
  };
}
