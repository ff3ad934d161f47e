// Derives the pull of a landed payment without reading its transaction. A transaction succeeds or
// fails as a whole, so a landed payment moved exactly the signed amounts. Only the paid period
// remains to be determined.
import type { SubscriptionAccount } from '../chain/program/layouts.ts';
import { pullPeriod } from '../chain/program/period.ts';
import { unixSeconds } from '../chain/time.ts';
import type { AttemptRow } from '../db/payment-attempts.ts';
import type { Pull, View } from '../domain/collecting/chain-view.ts';

/** The finalized accounts as read after the payment landed. */
export interface StateAfter {
  readonly view: View;
  /**
   * The on-chain account that belongs to the subscription row. Null when this account is gone; the
   * payment may then belong to another account at the same address.
   */
  readonly account: SubscriptionAccount | null;
  /** Block time of the payment in Unix seconds; null when no RPC endpoint returns it. */
  readonly at: bigint | null;
}

/**
 * Returns the pull, or undefined when the paid period is uncertain. An account never moves back to
 * an earlier period, so an account in the signed period shows that this period was paid. For an
 * account in a later period, the block time shows the paid period. With `signedEnd` (Unix seconds),
 * only the signed period with this end counts as certain.
 */
export function landedPull(
  { signature, periodStart, amountGross, platformFee, amountNet, feeOwed }: AttemptRow,
  { view, account, at }: StateAfter,
  signedEnd?: bigint,
): Pull | undefined {
  if (view instanceof Error || account === null) return undefined;
  const signedFor = unixSeconds(periodStart);
  const atSigning = { ...account, periodStart: signedFor, amountPulled: 0n };
  const isSame = account.periodStart === signedFor;
  if (!isSame && (signedEnd !== undefined || at === null)) return undefined;
  const { start, end } = pullPeriod(atSigning, view.plan, isSame ? signedFor : (at ?? signedFor));
  if (signedEnd !== undefined && end !== signedEnd) return undefined;
  // The account shows the amount pulled in its newest period. A payment of that period is part of
  // this amount.
  const isShown = start < account.periodStart || account.amountPulled >= amountGross;
  if (start > account.periodStart || !isShown) return undefined;
  return {
    signature,
    at: at ?? view.now,
    periodStart: start,
    periodEnd: end,
    gross: amountGross,
    fee: platformFee,
    net: amountNet,
    feeOwed,
    source: 'keeper',
  };
}

/**
 * Returns `pull`, which was read from an on-chain event, with the fee, net amount and source of the
 * attempt. The event does not separate fee and net amount when the merchant is the treasury, and
 * its puller may be a keeper wallet that this process does not know.
 */
export const asSigned = (
  pull: Pull,
  { amountGross, platformFee: fee, amountNet: net, feeOwed }: AttemptRow,
): Pull => (pull.gross === amountGross ? { ...pull, fee, net, feeOwed, source: 'keeper' } : pull);
