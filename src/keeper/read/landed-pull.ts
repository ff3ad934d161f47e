// Derives the pull (the on-chain payment) of a landed attempt without reading the transaction. A
// transaction succeeds or fails as a whole, so a landed attempt moved exactly the signed amounts.
// Only the paid period remains to be determined.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { pullPeriod } from '../../chain/program/period.ts';
import { unixSeconds } from '../../chain/time.ts';
import type { AttemptRow } from '../../db/money/payment-attempts.ts';
import { type Pull, signedAmounts, type ViewOrError } from '../../domain/collecting/chain-view.ts';

/** The finalized accounts as read after the payment landed. */
export interface StateAfter {
  readonly view: ViewOrError;
  /**
   * The on-chain account that belongs to the subscription row. Null when this account is gone; the
   * payment may then belong to another account at the same address.
   */
  readonly account: SubscriptionAccount | null;
  /** Block time of the payment in Unix seconds; null when no RPC endpoint returns it. */
  readonly at: bigint | null;
}

/**
 * Returns the pull, or undefined when it is uncertain which period was paid. If the account's
 * current period is the signed period, the payment paid it. Otherwise the block time shows the paid
 * period. With `signedEnd` (Unix seconds), the block time is not used. The pull is then returned
 * only if the account's current period is the signed period and ends at `signedEnd`.
 */
export function landedPull(
  attempt: AttemptRow,
  { view, account, at }: StateAfter,
  signedEnd?: bigint,
): Pull | undefined {
  const { signature, periodStart, amountGross } = attempt;
  if (view instanceof Error || account === null) return undefined;
  const signedFor = unixSeconds(periodStart);
  const atSigning = { ...account, periodStart: signedFor, amountPulled: 0n };
  const isSame = account.periodStart === signedFor;
  if (!isSame && (signedEnd !== undefined || at === null)) return undefined;
  const { start, end } = pullPeriod(atSigning, view.plan, isSame ? signedFor : (at ?? signedFor));
  if (signedEnd !== undefined && end !== signedEnd) return undefined;
  // `amountPulled` is the sum of the pulls in the account's current period. If this payment paid
  // that period, the sum is at least the payment's amount.
  const isShown = start < account.periodStart || account.amountPulled >= amountGross;
  if (start > account.periodStart || !isShown) return undefined;
  return {
    signature,
    at: at ?? view.now,
    periodStart: start,
    periodEnd: end,
    ...signedAmounts(attempt),
  };
}

/**
 * Returns `pull` with the fee, net amount and source of the stored attempt. In a pull from an
 * on-chain event these values can be wrong: the fee is missing if the merchant is the treasury, and
 * the source is wrong if this process does not know the keeper wallet.
 */
export const asSigned = (pull: Pull, attempt: AttemptRow): Pull =>
  pull.gross === attempt.amountGross ? { ...pull, ...signedAmounts(attempt) } : pull;
