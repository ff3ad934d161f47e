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

/** A second, and what the way to the endpoint may take off it: requests that went out a second apart may arrive closer together. */
const WINDOW_MS = 1050;

/** At most `perSecond` requests in any second; without `perSecond` only pauses count. */
export function createRateLimit(perSecond = Infinity): RateLimit {
  // When the requests of the last window went out.
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
