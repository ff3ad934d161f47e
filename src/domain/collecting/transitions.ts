// The state machine of a subscription (docs/contract.md, Subscription status), as changes of an
// update. Pure; settlement.ts writes the update.
//
//   registered -> active <-> past_due -> expired
//   cancel requested -> unchanged until paidThrough -> cancelled
//   plan gone        -> unchanged until paidThrough -> expired
//
// In any status, no payment is due during a trial (trialEndsAt) or a pause (pausedAt, set by the
// API).
import { timeOf } from '../../chain/time.ts';
import type { PaymentRow } from '../../db/payments.ts';
import type { KeeperSubscription, SubscriptionState } from '../../db/subscription-work.ts';
import { coveredUntil } from '../accounts/access.ts';
import type { NewEvent } from '../outbox/events.ts';
import type { Pull } from './chain-view.ts';
import { nextAttemptAt } from './dunning.ts';
import { noteChainFailure } from './early-tries.ts';
import { nextRead } from './look-ahead.ts';
import { notInTrial, usesDiscount } from './price.ts';

/** A change of a subscription: its new state, the events in order, and the payments to record. */
export interface SubscriptionUpdate {
  readonly row: KeeperSubscription;
  readonly state: SubscriptionState;
  readonly events: Omit<NewEvent, 'subscriptionId'>[];
  readonly payments: PaymentRow[];
}

/** Creates an update without changes. */
export function updateOf(row: KeeperSubscription): SubscriptionUpdate {
  const state: SubscriptionState = {
    status: row.status,
    paidThrough: row.paidThrough,
    nextPaymentDue: row.nextPaymentDue,
    announcedDue: row.announcedDue,
    announcedNotices: row.announcedNotices,
    cancelRequestedAt: row.cancelRequestedAt,
    cancelRequestedBy: row.cancelRequestedBy,
    cancelledAt: row.cancelledAt,
    pastDueSince: row.pastDueSince,
    failedAttempts: row.failedAttempts,
    delegationRevokedAt: row.delegationRevokedAt,
    endReason: row.endReason,
    dueAt: row.dueAt,
    periodAnchor: row.periodAnchor,
    observedSlot: row.observedSlot,
    periodPulled: row.periodPulled,
    refundedThrough: row.refundedThrough,
    setbacks: row.setbacks,
    failedPacks: row.failedPacks,
    chainFailurePeriod: row.chainFailurePeriod,
    earlyTries: row.earlyTries,
    discountPeriods: row.discountPeriods,
  };
  return { row, state, events: [], payments: [] };
}

/** Whether the subscription is active or past due; the other states are final. */
export function isLive({ status }: Pick<SubscriptionState, 'status'>): boolean {
  return status === 'active' || status === 'past_due';
}

/**
 * Sets nextPaymentDue. `next` is the earliest time at which the chain allows a payment (null:
 * never). A trial delays nextPaymentDue; a cancel request or a pause clears it. Retries after a
 * failure set nextPaymentDue without this function.
 */
export function setNextDue(
  { row, state }: Pick<SubscriptionUpdate, 'row' | 'state'>,
  next: Date | null,
): void {
  const isDue = next !== null && state.cancelRequestedAt === null && row.pausedAt === null;
  state.nextPaymentDue = isDue ? notInTrial(row, next) : null;
}

/** End of the time that the subscriber has paid for, or end of the trial. */
export const coverOf = ({ row, state }: Pick<SubscriptionUpdate, 'row' | 'state'>): Date | null =>
  coveredUntil({ ...row, ...state });

/**
 * Marks the subscription as paid until `periodEnd`. The next payment is due at `next`; null when no
 * further payment is due.
 */
function settleUp(
  { row, state }: Pick<SubscriptionUpdate, 'row' | 'state'>,
  periodEnd: Date,
  pulled: bigint,
  next: Date | null,
): void {
  if (state.paidThrough === null || state.paidThrough < periodEnd) {
    state.paidThrough = periodEnd;
    state.periodPulled = pulled;
  }
  if (!isLive(state)) return;
  state.status = 'active';
  state.pastDueSince = null;
  state.failedAttempts = 0;
  state.failedPacks = 0;
  state.setbacks = 0;
  setNextDue({ row, state }, next);
  state.dueAt = nextRead(state, row) ?? coverOf({ row, state });
}

/**
 * Records a landed payment and adds its event, even if the subscription ended while the payment was
 * in flight.
 */
export function applyPayment(update: SubscriptionUpdate, pull: Pull, next: Date | null): void {
  const { row, state, events, payments } = update;
  const payment = successOf(row, pull, state.failedAttempts + 1);
  const { periodStart, periodEnd } = payment;
  payments.push(payment);
  const period = { start: pull.periodStart, end: pull.periodEnd };
  const due = pull.gross + (pull.feeOwed ?? 0n);
  const terms = { ...row, discountPeriods: state.discountPeriods };
  if (pull.source === 'keeper' && usesDiscount(terms, period, due))
    state.discountPeriods = (state.discountPeriods ?? 1) - 1;
  // A pull of an earlier period that was found late is recorded, but paidThrough and the status do
  // not change.
  if (state.paidThrough === null || state.paidThrough < periodEnd)
    settleUp(update, periodEnd, pull.gross, next);
  events.push({
    type: 'payment_success',
    extra: {
      amountGross: pull.gross,
      platformFee: pull.fee,
      amountNet: pull.net,
      txSignature: pull.signature,
      nextPaymentDue: state.nextPaymentDue,
      periodStart,
      periodEnd,
      source: pull.source,
    },
  });
}

/**
 * Marks a period as paid by a payment that an earlier registration of the same address has recorded
 * and reported. If that payment was refunded, the period gives no access.
 */
export function applyCover(
  update: SubscriptionUpdate,
  pull: Pick<Pull, 'periodEnd' | 'gross'> & { readonly isRefunded?: boolean },
  next: Date | null,
): void {
  settleUp(update, timeOf(pull.periodEnd), pull.gross, next);
  if (pull.isRefunded === true) update.state.refundedThrough = timeOf(pull.periodEnd);
}

/**
 * Marks a period as paid although nothing is collected for it (price.ts, amountToCollect). No
 * payment is recorded and no event is sent.
 */
export function applyUncollected(
  update: SubscriptionUpdate,
  periodEnd: bigint,
  next: Date | null,
): void {
  settleUp(update, timeOf(periodEnd), 0n, next);
}

/** Records a further pull in a paid period. The state does not change and no event is sent. */
export function applyFurther({ row, payments }: SubscriptionUpdate, pull: Pull): void {
  payments.push({ ...successOf(row, pull, 1), further: true });
}

function successOf(row: KeeperSubscription, pull: Pull, attempt: number): PaymentRow {
  return {
    status: 'succeeded',
    source: pull.source,
    further: false,
    periodStart: timeOf(pull.periodStart),
    periodEnd: timeOf(pull.periodEnd),
    amountGross: pull.gross,
    platformFee: pull.fee,
    amountNet: pull.net,
    feeOwed: pull.feeOwed ?? 0n,
    txSignature: pull.signature,
    failureReason: null,
    attempt,
    occurredAt: timeOf(pull.at),
    ...parties(row),
  };
}

/** A failed attempt to collect a period at `now`. */
export interface FailedTry {
  readonly reason: string;
  readonly now: bigint;
  readonly periodStart: bigint;
  readonly periodEnd: bigint;
  readonly nextPeriod: Date | null;
  readonly amounts: { readonly gross: bigint; readonly fee: bigint; readonly net: bigint };
  /** Signature of the transaction that failed on chain; null when no transaction was sent. */
  readonly signature: string | null;
}

/**
 * Records an attempt that failed because of the subscriber. The subscription becomes past due, or
 * expires after the last attempt.
 */
export function applyFailure(
  { row, state, events, payments }: SubscriptionUpdate,
  failed: FailedTry,
  pastDueDays: number,
): void {
  const now = timeOf(failed.now);
  state.pastDueSince ??= now;
  state.failedAttempts += 1;
  state.setbacks = 0;
  if (failed.signature !== null) noteChainFailure(state, timeOf(failed.periodStart));
  const next = nextAttemptAt(now, {
    pastDueSince: state.pastDueSince,
    days: row.pastDueDays ?? pastDueDays,
    ...(row.retryHours !== null && { retryHours: row.retryHours }),
    nextPeriod: failed.nextPeriod,
  });
  state.nextPaymentDue = next;
  state.dueAt = next;
  if (next === null) {
    state.status = 'expired';
    state.pastDueSince = null;
    state.endReason = 'past_due';
  } else state.status = 'past_due';
  payments.push({
    ...parties(row),
    status: 'failed',
    source: 'keeper',
    further: false,
    periodStart: timeOf(failed.periodStart),
    periodEnd: timeOf(failed.periodEnd),
    amountGross: failed.amounts.gross,
    platformFee: failed.amounts.fee,
    amountNet: failed.amounts.net,
    feeOwed: 0n,
    txSignature: failed.signature,
    failureReason: failed.reason,
    attempt: state.failedAttempts,
    occurredAt: now,
  });
  events.push({
    type: 'payment_failed',
    extra: {
      failureReason: failed.reason,
      attempt: state.failedAttempts,
      nextAttemptAt: next,
      nextPaymentDue: next,
      final: next === null,
      ...(failed.signature === null ? {} : { txSignature: failed.signature }),
    },
  });
}

/** Records that the subscriber cancelled on chain. Nothing more is collected. */
export function applyCancelSeen({ state, events }: SubscriptionUpdate, now: bigint): void {
  state.cancelRequestedAt = timeOf(now);
  state.cancelRequestedBy = 'subscriber';
  state.nextPaymentDue = null;
  events.push({
    type: 'cancel_requested',
    extra: { cancelRequestedAt: state.cancelRequestedAt, cancelRequestedBy: 'subscriber' },
  });
}

/**
 * Records that the subscriber resumed on chain. The next payment is due at `next`. If the payment
 * of the paid period was refunded before the resume, the period gives no access.
 */
export function applyResume({ row, state, events }: SubscriptionUpdate, next: Date | null): void {
  state.cancelRequestedAt = null;
  state.cancelRequestedBy = null;
  if (row.isRefunded) state.refundedThrough = state.paidThrough;
  setNextDue({ row, state }, next);
  const extra = { nextPaymentDue: state.nextPaymentDue };
  events.push({ type: 'subscription_resumed', extra });
}

/**
 * Reports a revoked delegation once. If `obstacle` is undefined, the delegation is in place
 * (again).
 */
export function applyDelegation(
  { state, events }: SubscriptionUpdate,
  obstacle: string | undefined,
  now: bigint,
): void {
  if (obstacle === undefined) state.delegationRevokedAt = null;
  else if (state.delegationRevokedAt === null) {
    state.delegationRevokedAt = timeOf(now);
    events.push({
      type: 'delegation_revoked',
      extra: { delegationRevokedAt: state.delegationRevokedAt, reason: obstacle },
    });
  }
}

/**
 * Ends the subscription after its paid time. The status becomes `cancelled` after a cancel request,
 * or `expired` if `endReason` is given because the plan is gone.
 */
export function applyEnd(
  { state, events }: SubscriptionUpdate,
  {
    now,
    endReason,
    accountClosed,
    dueAt,
  }: { now: bigint; endReason: string | null; accountClosed: boolean; dueAt: Date | null },
): void {
  if (endReason === null) {
    state.status = 'cancelled';
    state.cancelledAt = timeOf(now);
  } else {
    state.status = 'expired';
    state.endReason = endReason;
  }
  state.pastDueSince = null;
  state.nextPaymentDue = null;
  state.setbacks = 0;
  state.dueAt = dueAt;
  events.push({
    type: 'cancel_finalized',
    extra: {
      accountClosed,
      cancelledAt: state.cancelledAt,
      ...(endReason === null ? {} : { endReason }),
    },
  });
}

function parties(row: KeeperSubscription) {
  return {
    appId: row.appId,
    planId: row.planId,
    subscriptionId: row.id,
    subscriptionPda: row.subscriptionPda,
    subscriberWallet: row.subscriberWallet,
  };
}
