// What a landed payment moved, told without its transaction. The transaction is atomic: it moved exactly what was signed, under this
// subscription. Only the period in which it landed has to be found.
import type { SubscriptionAccount } from '../chain/layouts.ts';
import { pullPeriod } from '../chain/period.ts';
import { unixSeconds } from '../chain/time.ts';
import type { AttemptRow } from '../db/payment-attempts.ts';
import type { Pull, View } from './chain-view.ts';

/** What was read after the payment landed, at finalized. */
export interface Afterwards {
  readonly view: View;
  /** The subscription that was registered, null when it is gone: another one at its address may have been paid. */
  readonly account: SubscriptionAccount | null;
  /** The payment's block time in Unix seconds, null when no endpoint gives it. */
  readonly at: bigint | null;
}

/**
 * The pull, where its period is certain, else undefined. A period start never goes back: an account that still counts the period that was signed for was
 * paid for that very period. With `signedEnd` (Unix seconds) nothing else counts, and the period must still end there; without it the block time tells
 * the period as the program counts it.
 */
export function landedPull(
  { signature, periodStart, amountGross, platformFee, amountNet, feeOwed }: AttemptRow,
  { view, account, at }: Afterwards,
  signedEnd?: bigint,
): Pull | undefined {
  if (view instanceof Error || account === null) return undefined;
  const signedFor = unixSeconds(periodStart);
  const atSigning = { ...account, periodStart: signedFor, amountPulled: 0n };
  const isSame = account.periodStart === signedFor;
  if (!isSame && (signedEnd !== undefined || at === null)) return undefined;
  const { start, end } = pullPeriod(atSigning, view.plan, isSame ? signedFor : (at ?? signedFor));
  if (signedEnd !== undefined && end !== signedEnd) return undefined;
  // The account shows the newest period: the payment is of this one or of one before.
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
 * What our transaction moved: the period from the chain's event, fee and net as signed. The events do not tell fee from net where the merchant is
 * the treasury, nor do they show that another key of ours signed.
 */
export const asSigned = (
  pull: Pull,
  { amountGross, platformFee: fee, amountNet: net, feeOwed }: AttemptRow,
): Pull => (pull.gross === amountGross ? { ...pull, fee, net, feeOwed, source: 'keeper' } : pull);
