// Payments of one batch that take from the same wallet. Each is decided as if it were alone; together they may exceed what the wallet has.
import type { HeldSubscription } from '../db/subscriptions.ts';
import type { View } from './chain-view.ts';
import { type Decision, retrySoon } from './decision.ts';
import type { OpenAttempt } from './in-flight.ts';

/** By then the chain shows what the payments before it left (seconds). */
const PUT_OFF_SECONDS = 20n;

interface Decided<Row> {
  readonly row: Row;
  readonly decision: Decision;
}

/**
 * Puts off the payments that a wallet cannot pay beside those before them, and beside those that are `signed` already. It is no failure: they are decided
 * again once the others have landed.
 */
export function withinFunds<Row extends HeldSubscription>(
  decided: readonly Decided<Row>[],
  signed: readonly Pick<OpenAttempt, 'row' | 'attempt'>[],
  viewOf: (row: Row) => View,
): Decided<Row>[] {
  const taken = new Map<string, bigint>();
  const take = (wallet: string, gross: bigint) =>
    taken.set(wallet, (taken.get(wallet) ?? 0n) + gross);
  for (const { row, attempt } of signed) take(row.subscriberWallet, attempt.amountGross);
  return decided.map((one) => {
    const { row, decision } = one;
    const { collect, draft, alert } = decision;
    const view = viewOf(row);
    if (collect === undefined || view instanceof Error) return one;
    const { amount = 0n, delegatedAmount = 0n } = view.subscriberTokens ?? {};
    const all = (taken.get(row.subscriberWallet) ?? 0n) + collect.amounts.gross;
    if (all > amount || all > delegatedAmount)
      return {
        row,
        decision: { ...retrySoon(draft, view, PUT_OFF_SECONDS), ...(alert && { alert }) },
      };
    take(row.subscriberWallet, collect.amounts.gross);
    return one;
  });
}
