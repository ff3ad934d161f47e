// Applies the state machine of a subscription (docs/contract.md, Subscription status) to an update.
// Pure; settlement.ts writes the update.
//
//   registered -> active <-> past_due -> expired
//   cancel requested -> unchanged until paidThrough -> cancelled
//   plan gone        -> unchanged until paidThrough -> expired
//
// In any status, no payment is due during a trial (trialEndsAt) or a pause (pausedAt, set by the
// API).
import { timeOf } from '../../chain/time.ts';
import type { Invoice } from '../../db/invoices/invoices.ts';
import type { PaymentRow } from '../../db/money/payments.ts';
import { stateOf, type SubscriptionState } from '../../db/subscriptions/state.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import { coveredUntil } from '../accounts/access.ts';
import { closeOpen, countFailure, givenBack } from '../invoices/closing.ts';
import { notInTrial } from '../invoices/cover.ts';
import { latest } from '../invoices/credits.ts';
import type { NewEvent } from '../outbox/events.ts';
import { nextAttemptAt } from './dunning.ts';
import { noteChainFailure } from './early-tries.ts';

/** Seconds between reads of a subscription whose end waits for a change of plan. */
export const CHANGE_SECONDS = 10n;

/** An event of an update. */
export type UpdateEvent = Omit<NewEvent, 'subscriptionId'> & {
  /** The invoice that it is about, as the update has it. */
  readonly invoice?: Invoice;
};

/**
 * A change of a subscription: its new state, the events in order, the payments to record, and the
 * invoices that are drawn up or changed.
 */
export interface SubscriptionUpdate {
  readonly row: KeeperSubscription;
  readonly state: SubscriptionState;
  readonly events: UpdateEvent[];
  readonly payments: PaymentRow[];
  readonly invoices: Invoice[];
}

/** Creates an update without changes. */
export function updateOf(row: KeeperSubscription): SubscriptionUpdate {
  return { row, state: stateOf(row), events: [], payments: [], invoices: [] };
}

/** Whether the subscription is active or past due. All other statuses are final. */
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

/** The row's terms, with what this update has changed: for computing prices. */
export function termsOf({
  row,
  state,
  invoices,
}: Pick<SubscriptionUpdate, 'row' | 'state' | 'invoices'>) {
  const { discountId, discountPeriods: left } = row;
  const paid = invoices.filter((one) => one.state === 'paid' && one.discountId === discountId);
  const discountPeriods = left === null ? null : Math.max(left - paid.length, 0);
  return { ...row, ...state, discountPeriods, credit: creditLeft({ row, invoices }) };
}

/**
 * The customer's credit (base units) after the update: less what new invoices apply, and with what
 * those had spent that are closed without a payment.
 */
const creditLeft = ({ row, invoices }: Pick<SubscriptionUpdate, 'row' | 'invoices'>) =>
  invoices.reduce((left, invoice) => {
    const { id, state, creditApplied } = invoice;
    if (state === 'void' || state === 'uncollectible') return left + givenBack({ row }, invoice);
    return id === null ? left - creditApplied : left;
  }, row.credit);

/** The later of the end of the paid time and the end of the trial (access.ts). */
export const coverOf = ({ row, state }: Pick<SubscriptionUpdate, 'row' | 'state'>): Date | null =>
  coveredUntil({ ...row, ...state });

/** A failed attempt to collect the payment of a period. Times are in Unix seconds. */
export interface FailedTry {
  readonly invoice: Invoice;
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
 * expires after the last attempt. While a signed change of plan may still land, the last attempt is
 * repeated instead, because a change can only take over from a live subscription.
 */
export function applyFailure(
  update: SubscriptionUpdate,
  failed: FailedTry,
  pastDueDays: number,
): void {
  const { row, state, events, payments } = update;
  const now = timeOf(failed.now);
  const pastDueSince = state.pastDueSince ?? now;
  state.setbacks = 0;
  if (failed.signature !== null) noteChainFailure(state, timeOf(failed.periodStart));
  const next = nextAttemptAt(now, {
    pastDueSince,
    days: row.pastDueDays ?? pastDueDays,
    ...(row.retryHours !== null && { retryHours: row.retryHours }),
    nextPeriod: failed.nextPeriod,
  });
  if (next === null && row.isChangeSigned) {
    state.dueAt = timeOf(failed.now + CHANGE_SECONDS);
    return;
  }
  state.pastDueSince = pastDueSince;
  state.failedAttempts += 1;
  state.nextPaymentDue = next;
  state.dueAt = next;
  if (next === null) {
    state.status = 'expired';
    state.pastDueSince = null;
    state.endReason = 'past_due';
  } else state.status = 'past_due';
  const invoice = countFailure(update, failed.invoice, { at: now, next });
  payments.push({
    ...parties(row),
    invoice,
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
    invoice,
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
 * Records that the subscriber resumed on chain. The next payment is due at `next`, but not before
 * the end of the wait for the wallet (unclaimed.ts), which is stored in announcedDue. If the
 * payment of the paid period was refunded before the resume, the period gives no access.
 */
export function applyResume({ row, state, events }: SubscriptionUpdate, next: Date | null): void {
  state.cancelRequestedAt = null;
  state.cancelRequestedBy = null;
  if (row.isRefunded) state.refundedThrough = state.paidThrough;
  const waitsUntil = row.isWithoutOffer && row.paidThrough === null ? row.announcedDue : null;
  setNextDue({ row, state }, next === null ? null : latest(next, waitsUntil));
  const extra = { nextPaymentDue: state.nextPaymentDue };
  events.push({ type: 'subscription_resumed', extra });
}

/**
 * If `obstacle` is undefined, records that the delegation is in place. Otherwise records and
 * reports that the delegation is revoked, unless this is already recorded.
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
 * Ends the subscription after its paid time. If the plan is gone, `endReason` says why, and the
 * status becomes `expired`. If `endReason` is null, the status becomes `cancelled`. If a change of
 * plan has replaced a subscription that becomes `cancelled`, the stored end reason is `replaced`.
 */
export function applyEnd(
  update: SubscriptionUpdate,
  {
    now,
    endReason,
    accountClosed,
    dueAt,
  }: { now: bigint; endReason: string | null; accountClosed: boolean; dueAt: Date | null },
): void {
  const { row, state, events } = update;
  const { replacedBy } = row;
  closeOpen(update, 'ended', timeOf(now));
  const credit = creditLeft(update);
  if (endReason === null) {
    state.status = 'cancelled';
    state.cancelledAt = timeOf(now);
    if (replacedBy !== null) state.endReason = 'replaced';
  } else {
    state.status = 'expired';
    state.endReason = endReason;
  }
  state.pastDueSince = null;
  state.nextPaymentDue = null;
  state.setbacks = 0;
  state.failedLookups = 0;
  state.dueAt = dueAt;
  events.push({
    type: 'cancel_finalized',
    extra: {
      accountClosed,
      cancelledAt: state.cancelledAt,
      ...(state.endReason === null ? {} : { endReason: state.endReason }),
      ...(replacedBy === null ? {} : { replacedBy }),
      ...(credit > 0n && { credit }),
    },
  });
}

/** The columns of a payment that name its parties. */
export function parties(row: KeeperSubscription) {
  return {
    appId: row.appId,
    planId: row.planId,
    subscriptionId: row.id,
    subscriptionPda: row.subscriptionPda,
    subscriberWallet: row.subscriberWallet,
  };
}
