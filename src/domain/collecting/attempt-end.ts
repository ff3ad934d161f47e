// Derives from the end of an attempt the subscription's next state, the payment to record and the
// alert to raise.
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
   * The attempt landed. `earlier` lists foreign pulls of periods before the one in which it landed,
   * from the signed period on.
   */
  | { readonly kind: 'paid'; readonly pull: Pull; readonly earlier: readonly Pull[] }
  | { readonly kind: 'failed'; readonly failure: PullFailure; readonly error: string }
  /** Another payment of the same transaction failed, so this payment is signed again. */
  | { readonly kind: 'signed_again'; readonly error: string }
  | { readonly kind: 'expired' }
  /**
   * It stays unknown whether the attempt landed: the account counts a pull that no RPC history
   * shows.
   */
  | { readonly kind: 'unexplained' };

/**
 * Whether this payment is charged with the failure `err` of its transaction. True if `err` names an
 * instruction of this payment, or names no instruction.
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
 * Returns the end of one payment of a transaction that failed with `err`. Only the payment of the
 * failed instruction counts as failed.
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
  /**
   * Marks a pull of the subscription: whether the pull is recorded, and whether its period is paid.
   */
  mark: (pull: Pull) => KnownPull;
}

/** Derives the attempt's resolution and the changes of its subscription. Pure. */
export function outcomeOf(
  rules: Rules,
  row: KeeperSubscription,
  { attempt, row: signed }: { attempt: AttemptRow; row: KeeperSubscription },
  end: AttemptEnd,
  { view, now, mark }: Seen,
): Assessment & { alert?: string } {
  const update = updateOf(row);
  const { state } = update;
  // Later reads of the accounts must not be older than the attempt's end. An older state could lack
  // the payment, and the payment would be signed again.
  const slots = [signed.observedSlot, view instanceof Error ? 0n : view.slot];
  state.observedSlot = newestSlot([state.observedSlot, ...slots]);
  const resolve = (resolved: Resolution['state'], error: string | null) => ({
    id: attempt.id,
    state: resolved,
    error,
  });
  if (end.kind === 'signed_again') {
    // This payment did not fail itself, so it is due again at once.
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
    // If the account is unknown, the next payment is due at the end of the paid period, until the
    // next read corrects this.
    const next =
      account === null || period === null
        ? timeOf(pull.periodEnd)
        : nextAfter(pull.periodStart, account, period);
    // `recordPull` sets the due time only if the period was unpaid. Otherwise the subscription is
    // read again at once.
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
 * Adds the consequences of a payment that failed on chain to the update. Returns the alert when the
 * subscriber did not cause the failure.
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
  // The period was collected or the subscription changed meanwhile. This does not count as a
  // failure, and the accounts are read again at once.
  if (isLive(state)) state.dueAt = timeOf(now);
  return undefined;
}
