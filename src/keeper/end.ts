// What the end of an attempt means for the books: the subscription's next state, and whom to alert.
import type { PullFailure } from '../chain/errors.ts';
import { pullPeriod, periodSeconds } from '../chain/period.ts';
import type { Resolution } from '../db/payment-attempts.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import type { Pull } from '../domain/chain-view.ts';
import { sameInstance } from '../domain/decide.ts';
import { closingDue } from '../domain/ending.ts';
import { nextAfter, recordPull } from '../domain/found-pulls.ts';
import { timeOf, unixSeconds } from '../domain/network.ts';
import { setbackUntil } from '../domain/setbacks.ts';
import type { Outcome } from '../domain/settlement.ts';
import { applyCover, applyFailure, applyPayment, draftOf, isLive } from '../domain/transitions.ts';
import type { Context } from './context.ts';
import type { Fees } from './fees.ts';
import type { Flying } from './in-flight.ts';
import type { View } from './read.ts';
import { anatomyOf } from './sign.ts';

/** What became of one attempt. */
export type End =
  /** `earlier`: what others pulled in the periods between that it was signed for and that in which it landed. */
  | { readonly kind: 'paid'; readonly pull: Pull; readonly earlier: readonly Pull[] }
  | { readonly kind: 'failed'; readonly failure: PullFailure; readonly error: string }
  | { readonly kind: 'expired' };

/** What is known when the books are written. */
interface Seen {
  /** The accounts, read after the end. */
  view: View;
  /** The chain's clock at that read, Unix seconds. */
  now: bigint;
  /** Whether the books have this payment already. */
  isRecorded: (signature: string) => boolean;
}

/** What `end` makes of its attempt and its subscription; `fees` learns of an exceeded compute limit. */
export function outcomeOf(
  { metrics, rules }: Context,
  fees: Fees,
  row: HeldSubscription,
  { attempt, row: signed }: Flying,
  end: End,
  { view, now, isRecorded }: Seen,
): Outcome & { alert?: string } {
  const draft = draftOf(row);
  const { state } = draft;
  // What it was signed by was not written then (settlement.ts).
  if (signed.observedSlot > state.observedSlot) state.observedSlot = signed.observedSlot;
  const account = view instanceof Error ? null : sameInstance(row, view.subscription);
  const period = account === null || view instanceof Error ? null : pullPeriod(account, view.plan, now);
  const resolve = (resolved: Resolution['state'], error: string | null) => ({ id: attempt.id, state: resolved, error });

  if (end.kind === 'paid') {
    const { pull, earlier } = end;
    for (const other of earlier) recordPull(draft, { ...other, recorded: isRecorded(other.signature) }, timeOf(pull.periodStart));
    // Without the account the next read decides; until then the paid period counts.
    const next = account === null || period === null ? timeOf(pull.periodEnd) : nextAfter(pull.periodStart, account, period);
    if (isRecorded(pull.signature)) applyCover(draft, pull, next);
    else applyPayment(draft, pull, next);
    const created = anatomyOf(attempt).shape.creations > 0;
    return { draft, resolution: resolve('landed', null), ...(created && { accountPaidFor: row.merchantWallet }) };
  }
  const live = isLive(state) && state.cancelRequestedAt === null;
  if (end.kind === 'expired') {
    metrics.payments.inc({ outcome: 'expired', source: 'keeper' });
    return { draft, resolution: resolve('expired', 'never landed, and its blockhash expired') };
  }

  const { failure, error } = end;
  const resolution = resolve('failed', error);
  if (failure.kind === 'subscriber' && live) {
    const periodStart = unixSeconds(attempt.periodStart);
    const length = periodSeconds(BigInt(row.periodHours));
    applyFailure(
      draft,
      {
        reason: failure.reason,
        now,
        periodStart,
        periodEnd: account === null || view instanceof Error ? periodStart + length : pullPeriod(account, view.plan, periodStart).end,
        nextPeriod: account === null || period === null ? null : nextAfter(periodStart, account, period),
        amounts: { gross: attempt.amountGross, fee: attempt.platformFee, net: attempt.amountNet },
        signature: attempt.signature,
      },
      rules.pastDueDays,
    );
    if (!isLive(state)) state.dueAt = closingDue({ now }, account, rules);
    return { draft, resolution };
  }
  if (failure.kind === 'ours' || failure.kind === 'unknown') {
    if (failure.kind === 'ours' && failure.reason === 'compute_budget') fees.exceeded(anatomyOf(attempt).shape);
    if (live) {
      state.setbacks += 1;
      state.dueAt = setbackUntil(now, state.setbacks);
    }
    return { draft, resolution, alert: failure.kind === 'ours' ? failure.reason : 'unknown_error' };
  }
  // Collected, cancelled, closed or changed meanwhile: no failure. The accounts are read again at once and tell what to do.
  if (isLive(state)) state.dueAt = timeOf(now);
  return { draft, resolution };
}
