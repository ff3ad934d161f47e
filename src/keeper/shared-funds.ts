// Limits the payments of one batch to the funds of their wallet. Each is decided on its own;
// together they may exceed the wallet's balance or approval.
import type { KeeperSubscription } from '../db/subscription-work.ts';
import type { View } from '../domain/collecting/chain-view.ts';
import { type Decision, retrySoon } from '../domain/collecting/decision.ts';
import type { InFlightPayment } from './in-flight.ts';

/** Delay in seconds after which the chain shows the balance left by the earlier payments. */
const PUT_OFF_SECONDS = 20n;

interface Decided<Row> {
  readonly row: Row;
  readonly decision: Decision;
}

/**
 * Reschedules payments that the wallet cannot afford besides earlier payments of the batch and
 * payments already `signed`. This is no failure: they are decided again once the others have
 * landed.
 */
export function withinFunds<Row extends KeeperSubscription>(
  decided: readonly Decided<Row>[],
  signed: readonly Pick<InFlightPayment, 'row' | 'attempt'>[],
  viewOf: (row: Row) => View,
): Decided<Row>[] {
  const taken = new Map<string, bigint>();
  const take = (wallet: string, gross: bigint) =>
    taken.set(wallet, (taken.get(wallet) ?? 0n) + gross);
  for (const { row, attempt } of signed) take(row.subscriberWallet, attempt.amountGross);
  return decided.map((one) => {
    const { row, decision } = one;
    const { collect, update, alert } = decision;
    const view = viewOf(row);
    if (collect === undefined || view instanceof Error) return one;
    const { amount = 0n, delegatedAmount = 0n } = view.subscriberTokens ?? {};
    const all = (taken.get(row.subscriberWallet) ?? 0n) + collect.amounts.gross;
    if (all > amount || all > delegatedAmount)
      return {
        row,
        decision: { ...retrySoon(update, view, PUT_OFF_SECONDS), ...(alert && { alert }) },
      };
    take(row.subscriberWallet, collect.amounts.gross);
    return one;
  });
}
