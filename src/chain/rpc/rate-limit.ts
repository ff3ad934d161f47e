/**
 * Rate limit of an endpoint, including pauses that the endpoint requests. All times are
 * milliseconds of the same clock.
 */
export interface RateLimit {
  /** Milliseconds until the next request is allowed. */
  delay(now: number): number;
  /** Number of requests allowed now. */
  allowed(now: number): number;
  /** Counts a request that is sent at `now`. */
  take(now: number): void;
  /** Blocks all requests until the time `until`. */
  pauseUntil(until: number): void;
}

/**
 * Length (ms) of the time window in which requests are counted. The window is 50 ms longer than a
 * second, because requests sent a second apart may arrive closer together.
 */
const WINDOW_MS = 1050;

/**
 * Requests per second: a fixed number, or a function that returns the current number. The number
 * changes, for example, when processes share a rate.
 */
export type Rate = number | (() => number);

/** When the rate is 0, the caller reads the rate again after this time (ms). */
const NO_RATE_MS = 100;

/**
 * Creates a limit of `rate` requests in any second. Without `rate`, requests wait only for pauses
 * that the endpoint requested. When the rate falls, requests sent in the last second also count
 * against the new rate.
 */
export function createRateLimit(rate: Rate = Infinity): RateLimit {
  const perSecond = typeof rate === 'number' ? () => rate : rate;
  // Times of the requests sent within the last window.
  const times: number[] = [];
  let pausedUntil = -Infinity;
  const forget = (now: number) => {
    while ((times[0] ?? now) <= now - WINDOW_MS) times.shift();
  };
  return {
    delay(now) {
      forget(now);
      const before = times[times.length - perSecond()];
      const isNone = perSecond() <= 0;
      const ownDelay = isNone ? NO_RATE_MS : before === undefined ? 0 : before + WINDOW_MS - now;
      return Math.max(0, ownDelay, pausedUntil - now);
    },
    allowed(now) {
      forget(now);
      return now < pausedUntil ? 0 : Math.max(0, perSecond() - times.length);
    },
    take(now) {
      if (perSecond() !== Infinity) times.push(now);
    },
    pauseUntil(until) {
      pausedUntil = Math.max(pausedUntil, until);
    },
  };
}

/**
 * Creates a limit for a second kind of requests to the same endpoint. These requests also count
 * against `other`, the limit of the first kind. A pause that the endpoint requests for the second
 * kind does not stop the first kind.
 */
export function createRateLimitWithin(other: RateLimit): RateLimit {
  const ownLimit = createRateLimit();
  return {
    delay: (now) => Math.max(ownLimit.delay(now), other.delay(now)),
    allowed: (now) => Math.min(ownLimit.allowed(now), other.allowed(now)),
    take: (now) => other.take(now),
    pauseUntil: (until) => ownLimit.pauseUntil(until),
  };
}
