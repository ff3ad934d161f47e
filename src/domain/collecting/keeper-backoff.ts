// Backoff after keeper failures. They never change the subscription's status: the payment stays due
// and is retried.
import { timeOf, unixSeconds } from '../../chain/time.ts';

const FIRST_SECONDS = 10;
const MAX_SECONDS = 900;
const PUT_OFF_SECONDS = 30n;
const HELD_SECONDS = 60n;

/**
 * Chain time of the next try after `setbacks` consecutive failures, the last at `now` (Unix
 * seconds): 10 s, 20 s, 40 s... up to 15 min.
 */
export function keeperRetryAt(now: bigint, setbacks: number): Date {
  return timeOf(
    now + BigInt(Math.min(MAX_SECONDS, FIRST_SECONDS * 2 ** Math.min(setbacks - 1, 20))),
  );
}

/**
 * Chain time at which work is due again that was postponed at `now`, for lack of room or of an
 * answer. It is not a keeper failure, because nothing was read.
 */
export function putOffUntil(now: Date): Date {
  return timeOf(unixSeconds(now) + PUT_OFF_SECONDS);
}

/**
 * Chain time at which a payment under a hold at `now` (Unix seconds) is decided again, so that
 * all are collected a minute after the end of the hold.
 */
export function heldUntil(now: bigint): Date {
  return timeOf(now + HELD_SECONDS);
}
