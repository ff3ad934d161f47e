// The next state of a delivery after an attempt (docs/contract.md, Delivery and retries).
//
//   pending --2xx--> delivered
//   pending --failure--> pending again after 1 m, 5 m, 30 m, 2 h, 12 h --sixth failure--> failed
//   pending --410--> failed

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/**
 * Delays in milliseconds after failed attempts. The first delay is the time from the end of attempt
 * 1 to attempt 2, the last delay the time from the end of attempt 5 to attempt 6.
 */
const retryDelays: readonly number[] = [MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 12 * HOUR];

/**
 * Maximum delay in milliseconds that a Retry-After header can cause. A longer Retry-After is
 * shortened to this delay.
 */
export const MAX_RETRY_AFTER = 12 * HOUR;

export type Verdict = { status: 'delivered' | 'failed' } | { status: 'pending'; delayMs: number };

/**
 * Decides the next state of a delivery after attempt `number` (1 to 6). `httpStatus` is null when
 * there was no response. After a 429 or 503, a `retryAfterMs` that is longer than the scheduled
 * delay replaces that delay. The maximum number of attempts stays the same.
 */
export function judge(number: number, httpStatus: number | null, retryAfterMs = 0): Verdict {
  if (httpStatus !== null && httpStatus >= 200 && httpStatus < 300) return { status: 'delivered' };
  const delayMs = retryDelays[number - 1];
  if (httpStatus === 410 || delayMs === undefined) return { status: 'failed' };
  const retryAfter =
    httpStatus === 429 || httpStatus === 503 ? Math.min(retryAfterMs, MAX_RETRY_AFTER) : 0;
  return { status: 'pending', delayMs: Math.max(delayMs, retryAfter) };
}

/**
 * Parses a Retry-After header, which contains seconds or an HTTP date. Returns the milliseconds
 * from `now` (Unix milliseconds), or 0 when the header is unusable.
 */
export function parseRetryAfter(value: string | undefined, now: number): number {
  const text = value?.trim() ?? '';
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  // An HTTP date ends in GMT. Date.parse alone would accept many other formats.
  const at = /^[A-Z][a-z]+, .+ GMT$/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(at) ? 0 : Math.max(0, at - now);
}
