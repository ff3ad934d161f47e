// Input and result types of decide.ts, and helpers that reschedule a subscription.
import type { OursReason } from '../../chain/program/errors.ts';
import { timeOf } from '../../chain/time.ts';
import type { KeeperSubscription } from '../../db/subscription-work.ts';
import type { Split } from '../money.ts';
import type { BlockReason } from '../reasons.ts';
import type { ChainView } from './chain-view.ts';
import { keeperRetryAt } from './keeper-backoff.ts';
import type { SubscriptionUpdate } from './transitions.ts';

export interface Rules {
  /** Wallets that this keeper signs with, the preferred wallet first. */
  readonly keepers: readonly string[];
  /** Whether a keeper wallet cannot pay for a transaction. */
  readonly isOutOfSol: (keeper: string) => boolean;
  readonly pastDueDays: number;
  /** The operator's default fee, for merchants that have no fee of their own. */
  readonly feeBps: number;
  /**
   * Minimum amount in base units (PLAN_MINIMUM_AMOUNT). A smaller amount for a part of a period is
   * not collected.
   */
  readonly minimumAmount: bigint;
}

/** A payment to collect now. Times are Unix seconds. */
export interface Collectable {
  /** The keeper wallet that pulls. The plan names this wallet as a puller. */
  readonly keeper: string;
  readonly periodStart: bigint;
  readonly periodEnd: bigint;
  readonly amounts: Split;
  /** The wallet that takes the fee. */
  readonly treasury: string;
  /** The fee that is not collected because no treasury can receive it. */
  readonly feeOwed: bigint;
  /**
   * An earlier payment of this period failed on chain because of the subscriber. This payment is
   * therefore simulated first and sent in its own transaction.
   */
  readonly isDoubted: boolean;
}

export interface Decision {
  readonly update: SubscriptionUpdate;
  readonly collect?: Collectable;
  /**
   * The look-up or action that is needed before a decision is possible. decide() then runs again
   * with its result.
   */
  readonly needs?: 'pulls' | 'closing';
  /**
   * The reason why no payment of the plan can be collected. Settling marks the plan as blocked, and
   * its subscriptions wait until the plan is unblocked.
   */
  readonly blocks?: BlockReason;
  /** An alert to the operator about a failure that the subscriber did not cause. */
  readonly alert?: {
    readonly reason: OursReason | 'pull_not_found' | 'period_mismatch' | 'slot_not_reached';
    readonly detail?: string;
  };
}

/**
 * Seconds between reads of a state that is confirmed but not finalized (some 13 s on a cluster).
 * The wait is not a keeper failure.
 */
const FINALITY_READ_SECONDS = 4n;

/**
 * Counts a failure of the keeper and retries with backoff. The subscription's status does not
 * change.
 */
export function keeperFailure(update: SubscriptionUpdate, { now }: ChainView): Decision {
  update.state.setbacks += 1;
  update.state.dueAt = keeperRetryAt(now, update.state.setbacks);
  return { update };
}

/** Slots by which endpoints may lag behind a row without an alert: about a minute. */
const MAX_BEHIND = 150n;

/**
 * Waits until an endpoint reaches the row's slot. If the endpoints are more than MAX_BEHIND slots
 * behind, either they or the row's slot is wrong, and an alert is raised.
 */
export function awaitSlot(update: SubscriptionUpdate, view: ChainView): Decision {
  const { observedSlot } = update.row;
  if (observedSlot - view.slot <= MAX_BEHIND) return retrySoon(update, view, 1n);
  const detail = `seen at slot ${observedSlot}, the endpoints are at ${view.slot}`;
  return { ...keeperFailure(update, view), alert: { reason: 'slot_not_reached', detail } };
}

/** Reschedules the subscription by `seconds` of chain time. */
export function retrySoon(
  update: SubscriptionUpdate,
  { now }: ChainView,
  seconds: bigint,
): Decision {
  return retryAt(update, now + seconds);
}

/** Reschedules the subscription to `at` (chain time, Unix seconds). */
export function retryAt(update: SubscriptionUpdate, at: bigint): Decision {
  update.state.dueAt = timeOf(at);
  return { update };
}

/** Reschedules the subscription to the time when the confirmed state may be finalized. */
export function awaitFinality(update: SubscriptionUpdate, view: ChainView): Decision {
  return retrySoon(update, view, FINALITY_READ_SECONDS);
}

/** Number of failed look-ups after which an alert reports a pull that no history shows. */
const REPORTED_AFTER = 3;

/**
 * The alert about a pull that no history shows. Raised only after several failed look-ups, because
 * one look-up may just be slow.
 */
export function pullNotFound({
  setbacks,
}: Pick<KeeperSubscription, 'setbacks'>): Pick<Decision, 'alert'> {
  return setbacks < REPORTED_AFTER ? {} : { alert: { reason: 'pull_not_found' } };
}
