// Input and result types of decide.ts, and functions that reschedule a subscription.
import type { OursReason } from '../../chain/program/errors.ts';
import { timeOf } from '../../chain/time.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import type { Split } from '../money.ts';
import type { BlockReason } from '../reasons.ts';
import type { ChainView } from './chain-view.ts';
import type { Due } from './due-invoice.ts';
import { keeperRetryAt } from './keeper-backoff.ts';
import type { SubscriptionUpdate } from './transitions.ts';

export interface Rules {
  /** The wallets of this keeper, in order of preference. */
  readonly keepers: readonly string[];
  /** Returns whether a keeper wallet has too little SOL to pay for a transaction. */
  readonly isOutOfSol: (keeper: string) => boolean;
  readonly pastDueDays: number;
  /**
   * The operator's default platform fee in basis points. Each merchant pays this fee unless the
   * operator has set another fee for the merchant.
   */
  readonly feeBps: number;
  /**
   * Minimum amount of a payment in base units (PLAN_MINIMUM_AMOUNT). When only a part of a period
   * is charged, a smaller amount is not collected.
   */
  readonly minimumAmount: bigint;
}

/** A payment to collect now. Times are in Unix seconds. */
export interface Collectable extends Due {
  /** The keeper wallet that collects the payment. The plan names this wallet as a puller. */
  readonly keeper: string;
  readonly periodStart: bigint;
  readonly periodEnd: bigint;
  readonly amounts: Split;
  readonly treasury: string;
  /** The fee that the merchant receives and owes, because no treasury can receive it. */
  readonly feeOwed: bigint;
  /**
   * Whether an earlier payment of this period failed on chain because of the subscriber. If so,
   * this payment is simulated first and sent in its own transaction.
   */
  readonly isDoubted: boolean;
}

export interface Decision {
  readonly update: SubscriptionUpdate;
  readonly collect?: Collectable;
  /**
   * What must be done before a decision is possible: look up on-chain payments ('pulls') or close
   * the account ('closing'). The caller then calls decide() again with the result.
   */
  readonly needs?: 'pulls' | 'closing';
  /**
   * The reason why no payment of the plan can be collected. settlement.ts then marks the plan as
   * blocked, and its subscriptions wait until the plan is unblocked.
   */
  readonly blocks?: BlockReason;
  /** An alert to the operator about a failure that the subscriber did not cause. */
  readonly alert?: {
    readonly reason:
      OursReason | 'pull_not_found' | 'period_mismatch' | 'slot_not_reached' | 'history_missing';
    readonly detail?: string;
  };
}

/**
 * Seconds until the accounts are read again if their state is confirmed but not finalized yet.
 * Finality takes about 13 s, so the accounts are read several times. These waits do not count as
 * keeper failures.
 */
const FINALITY_READ_SECONDS = 4n;

/**
 * Counts a keeper failure, that is, a failure that the subscriber did not cause. Reschedules the
 * subscription with backoff. The status of the subscription does not change.
 */
export function keeperFailure(update: SubscriptionUpdate, { now }: ChainView): Decision {
  update.state.setbacks += 1;
  update.state.dueAt = keeperRetryAt(now, update.state.setbacks);
  return { update };
}

/** Counts a look-up that did not find every on-chain payment, which is also a keeper failure. */
export function lookupFailure(update: SubscriptionUpdate, view: ChainView): Decision {
  update.state.failedLookups += 1;
  return keeperFailure(update, view);
}

/**
 * Number of slots (about a minute) that the RPC endpoints may lag behind the newest slot recorded
 * in a subscription's row. Beyond this lag an alert is raised.
 */
const MAX_BEHIND = 150n;

/**
 * Waits until an RPC endpoint reaches the slot in the subscription's row. Raises an alert if the
 * endpoints lag by more than MAX_BEHIND slots, because then the endpoints or the slot are wrong.
 */
export function awaitSlot(update: SubscriptionUpdate, view: ChainView): Decision {
  const { observedSlot } = update.row;
  if (observedSlot - view.slot <= MAX_BEHIND) return retrySoon(update, view, 1n);
  const detail = `seen at slot ${observedSlot}, the endpoints are at ${view.slot}`;
  return { ...keeperFailure(update, view), alert: { reason: 'slot_not_reached', detail } };
}

/** Makes the subscription due `seconds` from now, by the chain's clock. */
export function retrySoon(
  update: SubscriptionUpdate,
  { now }: ChainView,
  seconds: bigint,
): Decision {
  return retryAt(update, now + seconds);
}

/** Makes the subscription due at `at`, in Unix seconds of the chain's clock. */
export function retryAt(update: SubscriptionUpdate, at: bigint): Decision {
  update.state.dueAt = timeOf(at);
  return { update };
}

/**
 * Makes the subscription due again in FINALITY_READ_SECONDS, when its confirmed state may be
 * finalized.
 */
export function awaitFinality(update: SubscriptionUpdate, view: ChainView): Decision {
  return retrySoon(update, view, FINALITY_READ_SECONDS);
}

/**
 * Number of failed look-ups after which an alert reports an on-chain payment that no RPC history
 * shows.
 */
const REPORTED_AFTER = 3;

/**
 * Returns the alert about an on-chain payment that no RPC history shows. Returns no alert before
 * the third failed look-up, because the history may just lag.
 */
export function pullNotFound({
  failedLookups,
}: Pick<KeeperSubscription, 'failedLookups'>): Pick<Decision, 'alert'> {
  return failedLookups < REPORTED_AFTER ? {} : { alert: { reason: 'pull_not_found' } };
}
