// Turns the end of an attempt into the subscription's next state, the payment to record and the
// alert.
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
import type { AttemptRow, Resolution } from '../../db/payment-attempts.ts';
import type { KeeperSubscription } from '../../db/subscription-work.ts';
import type { Pull, View } from './chain-view.ts';
import { registeredAccount } from './decide.ts';
import type { Rules } from './decision.ts';
import { closingDue } from './ending.ts';
import { keeperRetryAt } from './keeper-backoff.ts';
import { type KnownPull, nextAfter, recordPull } from './pulls.ts';
import type { Assessment } from './settlement.ts';
import { applyFailure, type SubscriptionUpdate, updateOf, isLive } from './transitions.ts';

/** The end of one attempt. */
export type AttemptEnd =
  /**
   * `earlier`: foreign pulls between the period that the attempt was signed for and the period in
   * which it landed.
   */
  | { readonly kind: 'paid'; readonly pull: Pull; readonly earlier: readonly Pull[] }
  | { readonly kind: 'failed'; readonly failure: PullFailure; readonly error: string }
  /** Another payment of the same transaction failed. */
  | { readonly kind: 'signed_again'; readonly error: string }
  | { readonly kind: 'expired' }
  /** It is unknown whether it landed: the account counts a pull that no history shows. */
  | { readonly kind: 'unexplained' };

/**
 * Whether the failure `err` of a transaction counts against this payment: one of its instructions
 * failed, or no specific instruction did.
 */
export function isCharged(
  programId: string,
  { attempt, row }: { attempt: AttemptRow; row: KeeperSubscription },
  err: unknown,
): boolean {
  const place = failedInstruction(err);
  if (attempt.payments === 1 || place === null) return true;
  return transferPlaces(attempt.transaction, programId, row.subscriptionPda).includes(place);
}

/**
 * The end of one payment of a transaction that failed with `err`. Only the payment whose
 * instruction failed counts as failed.
 */
export function failedEnd(
  programId: string,
  { attempt, row }: { attempt: AttemptRow; row: KeeperSubscription },
  err: unknown,
  view: View,
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

/** Chain state when the end is written. */
interface Seen {
  /** The accounts, read after the attempt ended. */
  view: View;
  /** The chain's clock at that read, Unix seconds. */
  now: bigint;
  /** Marks a pull of the subscription with what the books have about it and its period. */
  mark: (pull: Pull) => KnownPull;
}

/** The resolution of the attempt and the change of its subscription. Pure. */
export function outcomeOf(
  rules: Rules,
  row: KeeperSubscription,
  { attempt, row: signed }: { attempt: AttemptRow; row: KeeperSubscription },
  end: AttemptEnd,
  { view, now, mark }: Seen,
): Assessment & { alert?: string } {
  const update = updateOf(row);
  const { state } = update;
  // Later reads must not be older than the end: an older account could lack the payment, which
  // would be signed again.
  const slots = [signed.observedSlot, view instanceof Error ? 0n : view.slot];
  state.observedSlot = newestSlot([state.observedSlot, ...slots]);
  const resolve = (resolved: Resolution['state'], error: string | null) => ({
    id: attempt.id,
    state: resolved,
    error,
  });
  if (end.kind === 'signed_again') {
    // This payment did not fail: it is due again at once.
    if (isLive(state)) state.dueAt = timeOf(now);
    state.failedPacks += 1;
    return { update, resolution: resolve('failed', `another payment failed: ${end.error}`) };
  }
  const account = view instanceof Error ? null : registeredAccount(row, view.subscription);
  const period =
    account === null || view instanceof Error ? null : pullPeriod(account, view.plan, now);

  if (end.kind === 'paid') {
    const { pull, earlier } = end;
    for (const other of earlier) recordPull(update, mark(other), timeOf(pull.periodStart));
    // Without the account the next read corrects the due time; until then it is the end of the paid
    // period.
    const next =
      account === null || period === null
        ? timeOf(pull.periodEnd)
        : nextAfter(pull.periodStart, account, period);
    // The pull of a covered period changes no other state, so the subscription is read again at
    // once.
    if (isLive(state)) state.dueAt = timeOf(now);
    recordPull(update, mark(pull), next);
    return { update, resolution: resolve('landed', null) };
  }
  if (end.kind === 'expired')
    return { update, resolution: resolve('expired', 'never landed, and its blockhash expired') };
  if (end.kind === 'unexplained')
    return {
      update,
      resolution: resolve('unexplained', 'no history shows what the account counts'),
      alert: 'attempt_unexplained',
    };
  const alert = applyFailedAttempt(update, attempt, end.failure, { view, now, account, rules });
  return {
    update,
    resolution: resolve('failed', end.error),
    ...(alert !== undefined && { alert }),
  };
}

/**
 * Applies a transaction that failed on chain to the update; returns the alert when the failure is
 * not the subscriber's.
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
  }: { view: View; now: bigint; account: SubscriptionAccount | null; rules: Rules },
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
    const { amountGross: gross, platformFee: fee, amountNet: net, signature } = attempt;
    const amounts = { gross, fee, net };
    const { reason } = failure;
    applyFailure(
      update,
      { reason, now, periodStart, periodEnd, nextPeriod, amounts, signature },
      rules.pastDueDays,
    );
    if (!isLive(state)) state.dueAt = closingDue({ now }, account, rules);
    return undefined;
  }
  if (failure.kind === 'ours' || failure.kind === 'unknown') {
    if (live) {
      state.setbacks += 1;
      state.dueAt = keeperRetryAt(now, state.setbacks);
    }
    return failure.kind === 'ours' ? failure.reason : 'unknown_error';
  }
  // The period was collected or the subscription changed meanwhile: no failure, so the accounts are
  // read again at once.
  if (isLive(state)) state.dueAt = timeOf(now);
  return undefined;
}
