// Backoff after keeper failures: failures that the subscriber did not cause, such as an unreadable
// transaction history. A keeper failure never changes the subscription's status. The payment stays
// due and is retried.
import { timeOf, unixSeconds } from '../../chain/time.ts';

/** First and longest delay after keeper failures. */
const FIRST_SECONDS = 10;
const MAX_SECONDS = 900;
/** Delay of postponed work. */
const PUT_OFF_SECONDS = 30n;
/** Delay of a payment while collection is held. */
const HELD_SECONDS = 60n;

/**
 * Returns when to retry after `setbacks` consecutive keeper failures. `now` is the time of the last
 * failure in Unix seconds. Both times are by the chain's clock. The delay is 10 s, 20 s, 40 s and
 * so on, up to 15 min.
 */
export function keeperRetryAt(now: bigint, setbacks: number): Date {
  return timeOf(
    now + BigInt(Math.min(MAX_SECONDS, FIRST_SECONDS * 2 ** Math.min(setbacks - 1, 20))),
  );
}

/**
 * Returns when postponed work is due again, by the chain's clock. Work is postponed at `now` when a
 * queue is full or the chain cannot be reached. A postponement is not counted among the keeper
 * failures.
 */
export function putOffUntil(now: Date): Date {
  return timeOf(unixSeconds(now) + PUT_OFF_SECONDS);
}

/**
 * Returns when the keeper decides again about a payment, by the chain's clock. The payment was not
 * sent at `now` (Unix seconds), because collection was held. The keeper decides again every minute,
 * so all held payments are collected within a minute after the hold ends.
 */
export function heldUntil(now: bigint): Date {
  return timeOf(now + HELD_SECONDS);
}
