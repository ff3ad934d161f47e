// Who receives the platform fee of a payment. Pure.
import { split, type Split } from '../money.ts';
import { feeReceiver, type Receivers } from './obstacles.ts';

/** What a pull moves. Amounts are base units. */
export interface Receivable {
  readonly amounts: Split;
  /** The wallet that receives the fee. */
  readonly treasury: string;
  /** The fee that the merchant receives and owes, because no treasury can receive it. */
  readonly feeOwed: bigint;
}

/**
 * Splits a pull of `gross` (base units). If no treasury can receive the fee, the merchant receives
 * all of it, and the fee is owed.
 */
export function receivable(
  gross: bigint,
  { feeBps, treasury }: { feeBps: number; treasury: string },
  view: Receivers,
): Receivable {
  const amounts = split(gross, feeBps);
  if (amounts.fee === 0n) return { amounts, treasury, feeOwed: 0n };
  const receiver = feeReceiver(view, treasury);
  if (receiver !== undefined) return { amounts, treasury: receiver, feeOwed: 0n };
  return { amounts: { gross, fee: 0n, net: gross }, treasury, feeOwed: amounts.fee };
}
