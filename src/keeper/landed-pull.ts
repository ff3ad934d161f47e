// Derives the pull of a landed payment without reading its transaction. The transaction is atomic,
// so it moved exactly the signed amounts. Only the period that it paid has to be determined.
import type { SubscriptionAccount } from '../chain/program/layouts.ts';
import { pullPeriod } from '../chain/program/period.ts';
import { unixSeconds } from '../chain/time.ts';
import type { AttemptRow } from '../db/payment-attempts.ts';
import type { Pull, View } from '../domain/collecting/chain-view.ts';

/** The finalized accounts, read after the payment landed. */
export interface StateAfter {
  readonly view: View;
  /**
   * The on-chain account that was registered. Null when this account is gone: the payment may then
   * belong to another account at the same address.
   */
  readonly account: SubscriptionAccount | null;
  /** Block time of the payment in Unix seconds; null when no RPC endpoint returns it. */
  readonly at: bigint | null;
}

/**
 * The pull, or undefined when its period is uncertain. Period starts never move back, so an account
 * still in the signed period was paid for that period. With `signedEnd` (Unix seconds), a later
 * period or another end is uncertain. Without `signedEnd`, the block time determines a later
 * period.
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
  // The account shows only the newest period. The payment must belong to this period or an earlier
  // one.
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
 * The pull of an attempt, with the period from the chain's event and the fee and net as signed. The
 * events do not separate fee and net when the merchant is the treasury. They also do not show that
 * the signer was another keeper wallet.
 */
export const asSigned = (
  pull: Pull,
  { amountGross, platformFee: fee, amountNet: net, feeOwed }: AttemptRow,
): Pull => (pull.gross === amountGross ? { ...pull, fee, net, feeOwed, source: 'keeper' } : pull);
