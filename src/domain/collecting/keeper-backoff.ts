// Backoff after keeper failures. A keeper failure never changes the subscription's status: the
// payment stays due and is retried.
import { timeOf, unixSeconds } from '../../chain/time.ts';

const FIRST_SECONDS = 10;
const MAX_SECONDS = 900;
const PUT_OFF_SECONDS = 30n;
const HELD_SECONDS = 60n;

/**
 * Chain time of the next try, when the last of `setbacks` consecutive failures was at `now` (Unix
 * seconds). The delay is 10 s, 20 s, 40 s and so on, up to 15 min.
 */
export function keeperRetryAt(now: bigint, setbacks: number): Date {
  return timeOf(
    now + BigInt(Math.min(MAX_SECONDS, FIRST_SECONDS * 2 ** Math.min(setbacks - 1, 20))),
  );
}

/**
 * Chain time at which postponed work is due again. Work is postponed at `now` when a queue is full
 * or the chain cannot be reached. This does not count as a keeper failure, because nothing was
 * read.
 */
export function putOffUntil(now: Date): Date {
  return timeOf(unixSeconds(now) + PUT_OFF_SECONDS);
}

/**
 * Chain time at which a payment that was held at `now` (Unix seconds) is decided again. All held
 * payments are thus collected within a minute after the end of the hold.
 */
export function heldUntil(now: bigint): Date {
  return timeOf(now + HELD_SECONDS);
}
