// What follows from one attempt (docs/contract.md, Delivery and retries).
//
//   pending --2xx--> delivered
//   pending --anything else--> pending again after 1 m, 5 m, 30 m, 2 h, 12 h --sixth attempt--> failed
//   pending --410--> failed

const minute = 60_000;
const hour = 60 * minute;

/** Milliseconds from the end of failed attempt 1, 2, 3, 4, 5 to the next. */
const retryDelays: readonly number[] = [minute, 5 * minute, 30 * minute, 2 * hour, 12 * hour];

/** Milliseconds that a Retry-After is followed at the most. */
export const longestRetryAfter = 12 * hour;

export type Verdict = { status: 'delivered' | 'failed' } | { status: 'pending'; delayMs: number };

/**
 * What attempt number `number` (1 to 6) leads to. `httpStatus` is null when there was no answer. `retryAfterMs` is what the answer asked for: it
 * lengthens the wait on 429 and 503, never shortens it, and adds no attempt.
 */
export function judge(number: number, httpStatus: number | null, retryAfterMs = 0): Verdict {
  if (httpStatus !== null && httpStatus >= 200 && httpStatus < 300) return { status: 'delivered' };
  const delayMs = retryDelays[number - 1];
  if (httpStatus === 410 || delayMs === undefined) return { status: 'failed' };
  const asked =
    httpStatus === 429 || httpStatus === 503 ? Math.min(retryAfterMs, longestRetryAfter) : 0;
  return { status: 'pending', delayMs: Math.max(delayMs, asked) };
}

/** Milliseconds that a Retry-After header asks to wait, as seconds or as an HTTP date seen at `now` (Unix ms); 0 when it says nothing usable. */
export function parseRetryAfter(value: string | undefined, now: number): number {
  const text = value?.trim() ?? '';
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  // An HTTP date ends in GMT; Date.parse alone would take many other things for dates.
  const at = /^[A-Z][a-z]+, .+ GMT$/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(at) ? 0 : Math.max(0, at - now);
}
