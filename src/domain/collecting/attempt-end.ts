// Derives three things from the end of a payment attempt: the subscription's next state, the
// payment to record, and the alert to raise.
import {
  classifyPullError,
  describeTransactionError,
  failedInstruction,
  type PullFailure,
} from '../../chain/program/errors.ts';
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { pullPeriod, periodSeconds } from '../../chain/program/period.ts';
import { newestSlot } from '../../chain/rpc/responses.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { transferPlaces } from '../../chain/transactions/collection.ts';
import type { Invoice } from '../../db/invoices/invoices.ts';
import type { AttemptRow, Resolution } from '../../db/money/payment-attempts.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import { asChanged, closeUnpaid, isInterrupted } from '../invoices/closing.ts';
import { drawUp } from '../invoices/draw-up.ts';
import type { Pull, ViewOrError } from './chain-view.ts';
import { registeredAccount } from './decide.ts';
import type { Rules } from './decision.ts';
import { closingDue, noteRead } from './ending.ts';
import { keeperRetryAt } from './keeper-backoff.ts';
import { type KnownPull, nextAfter, nextDueAfter, recordPull } from './pulls.ts';
import type { Assessment } from './settlement.ts';
import { applyFailure, isLive, type SubscriptionUpdate, termsOf, updateOf } from './transitions.ts';

/** How one payment attempt ended. */
export type AttemptEnd =
  /**
   * The attempt's transaction landed, and `pull` is its payment. If the transaction landed late,
   * `pull` may pay a later period than the attempt. `earlier` then has the on-chain payments of the
   * periods in between, beginning with the attempt's period.
   */
  | { readonly kind: 'paid'; readonly pull: Pull; readonly earlier: readonly Pull[] }
  | { readonly kind: 'failed'; readonly failure: PullFailure; readonly error: string }
  /**
   * Another payment in the same transaction failed, so the transaction had no effect. This payment
   * is signed again in a new transaction.
   */
  | { readonly kind: 'signed_again'; readonly error: string }
  | { readonly kind: 'expired' }
  /**
   * The on-chain account counts a payment that no RPC history shows, so it is unknown whether the
   * attempt landed.
   */
  | { readonly kind: 'unexplained' };

/**
 * Returns whether this payment counts as the cause of its transaction's failure `err`. True (1) if
 * `err` names an instruction of this payment, (2) if `err` names no instruction, or (3) if the
 * transaction has no other payment.
 */
export function isCharged(
  programId: string,
  { attempt, row }: { attempt: AttemptRow; row: KeeperSubscription },
  err: unknown,
): boolean {
  const failedIndex = failedInstruction(err);
  if (attempt.payments === 1 || failedIndex === null) return true;
  return transferPlaces(attempt.transaction, programId, row.subscriptionPda).includes(failedIndex);
}

/**
 * Returns how one payment of a failed transaction ended. `err` is the transaction's failure. A
 * payment that caused the failure (isCharged) has failed. Every other payment is signed again.
 */
export function failedEnd(
  programId: string,
  { attempt, row }: { attempt: AttemptRow; row: KeeperSubscription },
  err: unknown,
  view: ViewOrError,
): AttemptEnd {
  const error = describeTransactionError(err);
  if (!isCharged(programId, { attempt, row }, err)) return { kind: 'signed_again', error };
  const pulls = transferPlaces(attempt.transaction, programId, row.subscriptionPda);
  const failure = classifyPullError(err, {
    layout: { pulls },
    logs: null,
    gross: attempt.amountGross,
    subscriberAccount: view instanceof Error ? undefined : view.subscriberTokens,
  });
  return { kind: 'failed', failure, error };
}

/** The chain state from which the result of an ended attempt is derived. */
interface AttemptView {
  /** The subscription's accounts, read after the attempt ended. */
  view: ViewOrError;
  /** The chain's clock when the accounts were read, in Unix seconds. */
  now: bigint;
  /**
   * Adds to an on-chain payment whether it is recorded and whether its period is paid
   * (Books.mark()).
   */
  mark: (pull: Pull) => KnownPull;
}

/**
 * Derives the resolution of an attempt and the changes of its subscription, and closes the
 * attempt's invoice if the subscription changed meanwhile. `row` is the subscription as it is now.
 * `signed` is the subscription as it was when the attempt was signed. Pure.
 */
export function outcomeOf(
  rules: Rules,
  row: KeeperSubscription,
  signed: { attempt: AttemptRow; row: KeeperSubscription },
  end: AttemptEnd,
  seen: AttemptView,
): Assessment & { alert?: string } {
  const outcome = endOf(rules, row, signed, end, seen);
  const { update } = outcome;
  const invoice = asChanged(update, signed.attempt.invoice);
  if (invoice.state !== 'open') return outcome;
  // An invoice stays open while its attempt is. What has changed meanwhile closes it now.
  const at = timeOf(seen.now);
  if (!isLive(update.state) || isInterrupted(row, invoice))
    closeUnpaid(update, invoice, 'ended', at);
  else if (row.status === 'past_due' && hasNewPrice(update, invoice, rules))
    closeUnpaid(update, invoice, 'replaced', at);
  return outcome;
}

/** Whether the invoice of its period would have another total with the terms of now. */
function hasNewPrice(update: SubscriptionUpdate, invoice: Invoice, rules: Rules): boolean {
  const { periodStart, periodEnd, total } = invoice;
  if (periodStart === null || periodEnd === null) return false;
  const period = { start: unixSeconds(periodStart), end: unixSeconds(periodEnd) };
  return drawUp(termsOf(update), period, { minimum: rules.minimumAmount }).total !== total;
}

/** What the end of the attempt itself changes. */
function endOf(
  rules: Rules,
  row: KeeperSubscription,
  { attempt, row: signed }: { attempt: AttemptRow; row: KeeperSubscription },
  end: AttemptEnd,
  { view, now, mark }: AttemptView,
): Assessment & { alert?: string } {
  const update = updateOf(row);
  const { state } = update;
  // Stores the newest slot, so that the keeper ignores accounts from an older slot. Such accounts
  // could lack this payment, and the keeper would sign the payment again.
  const slots = [signed.observedSlot, view instanceof Error ? 0n : view.slot];
  state.observedSlot = newestSlot([state.observedSlot, ...slots]);
  const resolve = (resolved: Resolution['state'], error: string | null) => ({
    id: attempt.id,
    state: resolved,
    error,
  });
  if (end.kind === 'signed_again') {
    // Another payment of the transaction failed. This payment is therefore due again at once.
    if (isLive(state)) state.dueAt = timeOf(now);
    state.failedPacks += 1;
    return { update, resolution: resolve('failed', `another payment failed: ${end.error}`) };
  }
  const account = view instanceof Error ? null : registeredAccount(row, view.subscription);
  if (end.kind === 'paid') {
    const { pull, earlier } = end;
    for (const other of earlier) recordPull(update, mark(other), timeOf(pull.periodStart));
    const plan = view instanceof Error ? null : view.plan;
    const next = nextDueAfter(pull, account, { plan, now });
    // If the period was unpaid until now, recordPull() sets the next due time. If the period was
    // already paid, the subscription stays due now, and its accounts are read again.
    if (isLive(state)) state.dueAt = timeOf(now);
    recordPull(update, mark(pull), next);
    return { update, resolution: resolve('landed', null) };
  }
  if (end.kind === 'expired')
    return { update, resolution: resolve('expired', 'never landed, and its blockhash expired') };
  if (end.kind === 'unexplained') {
    closeUnpaid(update, attempt.invoice, 'uncollectible', timeOf(now));
    const resolution = resolve('unexplained', 'no history shows whether it landed');
    return { update, resolution, alert: 'attempt_unexplained' };
  }
  const alert = applyFailedAttempt(update, attempt, end.failure, { view, now, account, rules });
  return {
    update,
    resolution: resolve('failed', end.error),
    ...(alert !== undefined && { alert }),
  };
}

/**
 * Adds the consequences of a failed on-chain payment to `update`. Returns an alert when the service
 * caused the failure or the cause is unknown.
 */
function applyFailedAttempt(
  update: SubscriptionUpdate,
  attempt: AttemptRow,
  failure: PullFailure,
  {
    view,
    now,
    account,
    rules,
  }: { view: ViewOrError; now: bigint; account: SubscriptionAccount | null; rules: Rules },
): string | undefined {
  const { row, state } = update;
  const live = isLive(state) && state.cancelRequestedAt === null && row.pausedAt === null;
  const plan = view instanceof Error ? null : view.plan;
  if (failure.kind === 'subscriber' && live) {
    const periodStart = unixSeconds(attempt.periodStart);
    const periodEnd =
      account === null
        ? periodStart + periodSeconds(BigInt(row.periodHours))
        : pullPeriod(account, plan, periodStart).end;
    const nextPeriod =
      account === null ? null : nextAfter(periodStart, account, pullPeriod(account, plan, now));
    const { amountGross: gross, platformFee: fee, amountNet: net, signature, invoice } = attempt;
    const amounts = { gross, fee, net };
    const { reason } = failure;
    applyFailure(
      update,
      { invoice, reason, now, periodStart, periodEnd, nextPeriod, amounts, signature },
      rules.pastDueDays,
    );
    if (!isLive(state)) {
      state.dueAt = closingDue({ now }, account, rules);
      if (account !== null) noteRead(update, { plan, now }, account);
    }
    return undefined;
  }
  if (failure.kind === 'ours' || failure.kind === 'unknown') {
    if (live) {
      state.setbacks += 1;
      state.dueAt = keeperRetryAt(now, state.setbacks);
    }
    return failure.kind === 'ours' ? failure.reason : 'unknown_error';
  }
  // The period was already collected, or the subscription changed after the signing. The failure is
  // not counted. The subscription is due now, so that its accounts are read again.
  if (isLive(state)) state.dueAt = timeOf(now);
  return undefined;
}
