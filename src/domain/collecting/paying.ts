// Marks periods as paid: (1) by a landed payment, (2) by a payment that an earlier registration
// recorded, (3) by a credit, or (4) without a payment. Pure; settlement.ts writes the update.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { Invoice } from '../../db/invoices/invoices.ts';
import type { PaymentRow } from '../../db/money/payments.ts';
import type { SubscriptionState } from '../../db/subscriptions/state.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import { allocate, attemptInvoice, foreignInvoice, openOf } from '../invoices/allocate.ts';
import { closeUnpaid, newInvoice, pay } from '../invoices/closing.ts';
import type { Period } from '../invoices/cover.ts';
import { drawUp, totalOf } from '../invoices/draw-up.ts';
import type { Pull } from './chain-view.ts';
import { billedFromOf } from './late.ts';
import { nextRead } from './look-ahead.ts';
import {
  coverOf,
  isLive,
  parties,
  setNextDue,
  type SubscriptionUpdate,
  termsOf,
} from './transitions.ts';

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
 * in flight. If Postgres has lost the attempt, it has also lost from when the period was charged:
 * this is derived from the time of the payment.
 */
export function applyPayment(update: SubscriptionUpdate, pull: Pull, next: Date | null): void {
  const { row, state, events, payments } = update;
  const period = { start: pull.periodStart, end: pull.periodEnd };
  const isLost = pull.source === 'keeper' && attemptInvoice(update, pull) === undefined;
  if (isLost && openOf(update, period) === null)
    state.billedFrom = billedFromOf(termsOf(update), pull.periodStart, pull.at);
  const invoice = allocate(update, termsOf(update), pull);
  const { creditApplied: creditSpent } = invoice;
  const success = successOf(row, pull, state.failedAttempts + 1);
  const { periodStart, periodEnd } = success;
  payments.push({ ...success, invoice });
  // A pull that was found late may belong to a period before paidThrough. Such a pull changes
  // neither paidThrough nor the status.
  if (state.paidThrough === null || state.paidThrough < periodEnd)
    settleUp(update, periodEnd, pull.gross, next);
  events.push({
    type: 'payment_success',
    invoice,
    extra: {
      amountGross: pull.gross,
      platformFee: pull.fee,
      amountNet: pull.net,
      txSignature: pull.signature,
      nextPaymentDue: state.nextPaymentDue,
      periodStart,
      periodEnd,
      source: pull.source,
      ...(creditSpent > 0n && { creditSpent }),
    },
  });
}

/**
 * Records a payment that is made entirely from credit, and adds its event. Nothing is pulled for
 * the period. `next` is the due time of the following payment.
 */
export function applyCredit(
  update: SubscriptionUpdate,
  period: Period,
  { invoice, now, next }: { invoice: Invoice; now: bigint; next: Date | null },
): void {
  settleUp(update, timeOf(period.end), 0n, next);
  recordCredit(update, period, { invoice, at: now });
}

function recordCredit(
  update: SubscriptionUpdate,
  period: Period,
  { invoice: drawn, at }: { invoice: Invoice; at: bigint },
): void {
  const { row, state, events, payments } = update;
  const occurredAt = timeOf(at);
  const { creditApplied: amount } = drawn;
  const [periodStart, periodEnd] = [timeOf(period.start), timeOf(period.end)];
  const none = { amountGross: 0n, platformFee: 0n, amountNet: 0n };
  const invoice = pay(update, drawn, occurredAt);
  payments.push({
    ...parties(row),
    ...none,
    invoice,
    status: 'succeeded',
    source: 'credit',
    further: false,
    periodStart,
    periodEnd,
    feeOwed: 0n,
    txSignature: null,
    failureReason: null,
    attempt: 1,
    occurredAt,
  });
  const { nextPaymentDue } = state;
  const about = { txSignature: null, nextPaymentDue, periodStart, periodEnd };
  events.push({
    type: 'payment_success',
    invoice,
    extra: { ...none, ...about, source: 'credit', creditSpent: amount },
  });
}

/**
 * Marks a period as paid by a payment that an earlier registration of the same address has recorded
 * and reported. If this payment was refunded or turned into credit, the period gives no access.
 * Exception: one change of plan turned the payment into credit, and a later one brought the wallet
 * back to this plan. The chain then allows no more pulls in this period, so the credit from the
 * later change pays for the rest of it.
 */
export function applyCover(
  update: SubscriptionUpdate,
  pull: Pick<Pull, 'periodStart' | 'periodEnd' | 'gross'> & {
    readonly isRefunded?: boolean;
    readonly isCredited?: boolean;
  },
  next: Date | null,
): void {
  const { row, state } = update;
  settleUp(update, timeOf(pull.periodEnd), pull.gross, next);
  const { isRefunded = false, isCredited = false } = pull;
  const period = { start: pull.periodStart, end: pull.periodEnd };
  const terms = termsOf(update);
  const isTakenBack = isCredited && row.replaces !== null && row.replacedBy === null;
  const isDue = isTakenBack && totalOf(terms, period) > 0n;
  if (isRefunded || (isCredited && !isDue)) state.refundedThrough = timeOf(pull.periodEnd);
  else if (isDue) {
    const drawn = drawUp(terms, period, { minimum: 0n, room: 0n });
    const at = row.billedFrom === null ? period.start : unixSeconds(row.billedFrom);
    const invoice = newInvoice(drawn, period, at);
    if (drawn.total > 0n) recordCredit(update, period, { invoice, at });
    else pay(update, invoice, timeOf(at));
  }
}

/**
 * Marks a period as paid although nothing is collected for it (draw-up.ts, minimum). No
 * payment is recorded and no event is sent.
 */
export function applyUncollected(
  update: SubscriptionUpdate,
  period: Period,
  { invoice, now, next }: { invoice: Invoice; now: bigint; next: Date | null },
): void {
  settleUp(update, timeOf(period.end), 0n, next);
  pay(update, invoice, timeOf(now));
}

/** Records a further pull in a paid period. The state does not change and no event is sent. */
export function applyFurther(update: SubscriptionUpdate, pull: Pull): void {
  const invoice = furtherInvoice(update, pull);
  update.payments.push({ ...successOf(update.row, pull, 1), invoice, further: true });
}

/**
 * The invoice of a pull that pays for no time: one of its own if another puller made it, else null.
 * The open invoice of a keeper's attempt is replaced, so that nobody collects it again.
 */
function furtherInvoice(update: SubscriptionUpdate, pull: Pull): Invoice | null {
  if (pull.source === 'foreign') return pay(update, foreignInvoice(pull), timeOf(pull.at));
  const invoice = attemptInvoice(update, pull);
  if (invoice?.state === 'open') closeUnpaid(update, invoice, 'replaced', timeOf(pull.at));
  return null;
}

/**
 * Handles a pull after the end of the subscription. A pull by another puller is recorded, with the
 * fee that the merchant owes for it. A pull by a keeper is left to `billing reconcile`. Neither
 * causes an event or gives access. `isPeriodPaid`: whether another payment of the period is
 * recorded.
 */
export function applyAfterEnd(
  update: SubscriptionUpdate,
  pull: Pull & { readonly recorded: boolean },
  isPeriodPaid: boolean,
): void {
  const { row, state, payments } = update;
  if (!pull.recorded && pull.source === 'foreign') {
    const invoice = furtherInvoice(update, pull);
    payments.push({ ...successOf(row, pull, 1), invoice, further: isPeriodPaid });
  }
  notePulled(state, pull);
}

/**
 * Records a pull in a period that is billed and not paid: it was forgiven, given up, or ended with
 * the subscription. The pull pays for no time.
 */
export function applyUnmatched(update: SubscriptionUpdate, pull: Pull): void {
  applyFurther(update, pull);
  notePulled(update.state, pull);
}

/** Notes that the pulls of a period are known which no payment pays. */
function notePulled(state: SubscriptionState, pull: Pull): void {
  const periodEnd = timeOf(pull.periodEnd);
  if (state.paidThrough !== null && state.paidThrough >= periodEnd) return;
  if (state.pulledThrough !== null && state.pulledThrough >= periodEnd) return;
  state.pulledThrough = periodEnd;
  state.periodPulled = pull.gross;
}

function successOf(
  row: KeeperSubscription,
  pull: Pull,
  attempt: number,
): Omit<PaymentRow, 'invoice'> {
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
