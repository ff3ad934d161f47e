// Limits the payments of one batch to the funds of each wallet and to the credit of each customer.
// Each payment is decided on its own, but several payments of one wallet may together exceed the
// wallet's balance or approval, and several subscriptions of one customer his credit.
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import type { ViewOrError } from '../../domain/collecting/chain-view.ts';
import { type Decision, retrySoon } from '../../domain/collecting/decision.ts';
import { drawsCredit } from '../../domain/collecting/stale-credit.ts';
import { updateOf } from '../../domain/collecting/transitions.ts';
import type { InFlightPayment } from '../track/in-flight.ts';

/**
 * Delay (seconds) of a payment that the wallet cannot afford now. After this delay the earlier
 * payments have landed, and the chain shows the remaining balance.
 */
const PUT_OFF_SECONDS = 20n;
/** Delay (seconds) of a subscription whose customer's credit another one spends now. */
const NEXT_SPENDER_SECONDS = 1n;

/** Whether the decision draws up an invoice that credit pays or helps to pay. */
const spendsCredit = ({ update, collect }: Decision): boolean =>
  update.invoices.some(drawsCredit) || (collect !== undefined && drawsCredit(collect.invoice));

interface Decided<Row> {
  readonly row: Row;
  readonly decision: Decision;
}

/**
 * Reschedules the payments that a wallet cannot afford. The wallet must first pay its payments in
 * `signed`, then its payments in `decided` in their order. A rescheduled payment does not count as
 * failed. The keeper decides about this payment again after the other payments have landed. Of the
 * subscriptions of one customer that spend credit, the first does it, and the others wait.
 */
export function withinFunds<Row extends KeeperSubscription>(
  decided: readonly Decided<Row>[],
  signed: readonly Pick<InFlightPayment, 'row' | 'attempt'>[],
  viewOf: (row: Row) => ViewOrError,
): Decided<Row>[] {
  const spentByWallet = new Map<string, bigint>();
  const take = (wallet: string, gross: bigint) =>
    spentByWallet.set(wallet, (spentByWallet.get(wallet) ?? 0n) + gross);
  for (const { row, attempt } of signed) take(row.subscriberWallet, attempt.amountGross);
  const spenders = new Set<string>();
  return decided.map((one) => {
    const { row, decision } = one;
    const { collect, update, alert } = decision;
    const view = viewOf(row);
    if (view instanceof Error) return one;
    if (spendsCredit(decision)) {
      const { customerId } = row;
      if (spenders.has(customerId))
        return { row, decision: retrySoon(updateOf(row), view, NEXT_SPENDER_SECONDS) };
      spenders.add(customerId);
    }
    if (collect === undefined) return one;
    const { amount = 0n, delegatedAmount = 0n } = view.subscriberTokens ?? {};
    const all = (spentByWallet.get(row.subscriberWallet) ?? 0n) + collect.amounts.gross;
    if (all > amount || all > delegatedAmount)
      return {
        row,
        decision: { ...retrySoon(update, view, PUT_OFF_SECONDS), ...(alert && { alert }) },
      };
    take(row.subscriberWallet, collect.amounts.gross);
    return one;
  });
}
