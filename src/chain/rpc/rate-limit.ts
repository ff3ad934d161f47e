/**
 * Rate limit of an endpoint, including pauses that the endpoint requests. Times are milliseconds of
 * one clock.
 */
export interface RateLimit {
  /** Milliseconds until the next request is allowed. */
  delay(now: number): number;
  /** Number of requests allowed now. */
  allowed(now: number): number;
  /** Counts a request sent now. */
  take(now: number): void;
  /** Blocks all requests until `until`. */
  pauseUntil(until: number): void;
}

/** A second plus 50 ms of jitter: requests sent a second apart may arrive closer together. */
const WINDOW_MS = 1050;

/** Allows at most `perSecond` requests in any second; without `perSecond` only pauses limit. */
export function createRateLimit(perSecond = Infinity): RateLimit {
  // Send times of the requests in the last window.
  const times: number[] = [];
  let pausedUntil = -Infinity;
  const forget = (now: number) => {
    while ((times[0] ?? now) <= now - WINDOW_MS) times.shift();
  };
  return {
    delay(now) {
      forget(now);
      const before = times[times.length - perSecond];
      return Math.max(0, before === undefined ? 0 : before + WINDOW_MS - now, pausedUntil - now);
    },
    allowed(now) {
      forget(now);
      return now < pausedUntil ? 0 : Math.max(0, perSecond - times.length);
    },
    take(now) {
      if (perSecond !== Infinity) times.push(now);
    },
    pauseUntil(until) {
      pausedUntil = Math.max(pausedUntil, until);
    },
  };
}
