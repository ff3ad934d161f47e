// Limits how often a top-up makes a past-due payment due before its scheduled retry. The subscriber
// can empty the wallet again before the transaction lands, and the keeper then pays the fee of a
// failed transaction. After the first such failure in a period, only two more top-ups lead to an
// early try. Pure.
import { unixSeconds } from '../../chain/time.ts';
import type { SubscriptionState } from '../../db/subscriptions/state.ts';

const MAX_EARLY_TRIES = 2;

/**
 * Returns whether a payment of the period that starts at `start` (Unix seconds) failed on chain
 * because of the subscriber.
 */
export function failedOnChain(
  { chainFailurePeriod }: Pick<SubscriptionState, 'chainFailurePeriod'>,
  start: bigint,
): boolean {
  return chainFailurePeriod !== null && unixSeconds(chainFailurePeriod) === start;
}

/**
 * Records that a payment of the period starting at `periodStart` failed on chain because of the
 * subscriber.
 */
export function noteChainFailure(state: SubscriptionState, periodStart: Date): void {
  if (failedOnChain(state, unixSeconds(periodStart))) return;
  state.chainFailurePeriod = periodStart;
  state.earlyTries = 0;
}

/**
 * Makes the payment of the period that starts at `start` due at `now`, before its scheduled retry.
 * If a payment of the period has failed on chain, this happens at most MAX_EARLY_TRIES times.
 */
export function tryEarly(state: SubscriptionState, start: bigint, now: Date): void {
  if (state.nextPaymentDue === null || now >= state.nextPaymentDue) return;
  if (failedOnChain(state, start)) {
    if (state.earlyTries >= MAX_EARLY_TRIES) return;
    state.earlyTries += 1;
  }
  state.nextPaymentDue = now;
}
