// Limits how often a top-up makes a past-due payment due before its scheduled retry. A wallet that
// is emptied between the keeper's read and the transaction, and topped up again, costs the keeper
// the fee of a failed transaction each time. After the first one in a period, only two top-ups of
// that period count. Pure.
import { unixSeconds } from '../../chain/time.ts';
import type { SubscriptionState } from '../../db/subscription-work.ts';

const MAX_EARLY_TRIES = 2;

/**
 * Whether a payment of the period that starts at `start` (Unix seconds) failed on chain for the
 * subscriber's reason.
 */
export function failedOnChain(
  { chainFailurePeriod }: Pick<SubscriptionState, 'chainFailurePeriod'>,
  start: bigint,
): boolean {
  return chainFailurePeriod !== null && unixSeconds(chainFailurePeriod) === start;
}

/** Records that a payment of this period failed on chain for the subscriber's reason. */
export function noteChainFailure(state: SubscriptionState, periodStart: Date): void {
  if (failedOnChain(state, unixSeconds(periodStart))) return;
  state.chainFailurePeriod = periodStart;
  state.earlyTries = 0;
}

/**
 * Makes the payment of the period that starts at `start` due at `now`, before its retry, unless the
 * early tries of that period are used up.
 */
export function tryEarly(state: SubscriptionState, start: bigint, now: Date): void {
  if (state.nextPaymentDue === null || now >= state.nextPaymentDue) return;
  if (failedOnChain(state, start)) {
    if (state.earlyTries >= MAX_EARLY_TRIES) return;
    state.earlyTries += 1;
  }
  state.nextPaymentDue = now;
}
