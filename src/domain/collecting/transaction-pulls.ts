// Reads on-chain payments (pulls) from transactions. Pure.
import { programEvents, type TransferEvent } from '../../chain/program/events.ts';
import type { ConfirmedTransaction } from '../../chain/rpc/responses.ts';
import { split } from '../money.ts';
import type { Pull } from './chain-view.ts';

export interface PullParties {
  readonly programId: string;
  /**
   * Keeper wallets, including former ones. If one of these wallets collected a payment, the
   * `source` of the payment is `keeper`.
   */
  readonly keepers: readonly string[];
  /** Wallets that receive the platform fee. */
  readonly treasuries: readonly string[];
  readonly subscriptionPda: string;
  /**
   * Platform fee in basis points of the gross amount. The merchant owes this fee when another
   * puller collects a payment. Omit the fee when owed fees do not matter.
   */
  readonly feeBps?: number;
}

/** Index of the calling wallet (the puller) among the accounts of a transfer instruction. */
const CALLER = 5;

/**
 * Returns the payments of a subscription in one transaction: one payment per period, oldest period
 * first. Throws ChainDataError for an event that cannot be decoded.
 */
export function pullsIn(
  transaction: ConfirmedTransaction,
  { programId, keepers, treasuries, subscriptionPda, feeBps = 0 }: PullParties,
): Pull[] {
  const periods = new Map<bigint, Pull>();
  for (const event of programEvents(transaction, programId)) {
    if (event.kind !== 'transfer' || event.subscription !== subscriptionPda) continue;
    const puller = pullerOf(event, transaction);
    const source = puller !== undefined && keepers.includes(puller) ? 'keeper' : 'foreign';
    const earlier = periods.get(event.periodStart);
    const gross = (earlier?.gross ?? 0n) + event.amount;
    // Only a payment that a keeper collected contains a platform fee. When another puller collects,
    // the merchant gets the whole amount.
    const fee =
      (earlier?.fee ?? 0n) +
      (source === 'keeper' && treasuries.includes(event.receiver) ? event.amount : 0n);
    periods.set(event.periodStart, {
      signature: transaction.signature,
      at: transaction.blockTime ?? event.periodStart,
      periodStart: event.periodStart,
      periodEnd: event.periodEnd,
      gross,
      fee,
      net: gross - fee,
      ...(source === 'foreign' && { feeOwed: split(gross, feeBps).fee }),
      source,
    });
  }
  return [...periods.values()].sort((a, b) => Number(a.periodStart - b.periodStart));
}

// The program's events do not name the puller in versions before 0.4.0. The instruction names the
// puller in all versions.
function pullerOf(
  event: TransferEvent & { instruction: number },
  transaction: ConfirmedTransaction,
): string | undefined {
  return event.puller ?? transaction.instructions[event.instruction]?.accounts[CALLER];
}
