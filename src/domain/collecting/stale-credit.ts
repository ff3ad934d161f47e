// Holds each customer's credit while the invoices that spend it are written.
import { lockBalances } from '../../db/invoices/credits.ts';
import type { Invoice } from '../../db/invoices/invoices.ts';
import { isUnmatched, type PaymentRow } from '../../db/money/payments.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';

interface Spending {
  readonly row: Pick<KeeperSubscription, 'customerId' | 'credit'>;
  readonly update: {
    readonly invoices: readonly Invoice[];
    readonly payments: readonly PaymentRow[];
  };
}

/**
 * Locks the balances of the customers whose credit the updates spend, give back or make. Returns
 * those that spend credit of a balance that has changed since, or that an earlier one of them
 * spends.
 */
export async function staleCredit<A extends Spending>(
  tx: Transaction,
  updates: readonly A[],
): Promise<Set<A>> {
  const moving = updates.filter(
    ({ update: { invoices, payments } }) =>
      invoices.some(({ creditApplied }) => creditApplied > 0n) || payments.some(isUnmatched),
  );
  const stale = new Set<A>();
  if (moving.length === 0) return stale;
  const balances = await lockBalances(
    tx,
    moving.flatMap(({ row, update }) => [
      row.customerId,
      ...update.invoices.flatMap(({ customerId }) => customerId ?? []),
    ]),
  );
  const spenders = new Set<string>();
  for (const one of moving) {
    const { customerId, credit } = one.row;
    if (!one.update.invoices.some(drawsCredit)) continue;
    if (spenders.has(customerId) || (balances.get(customerId) ?? 0n) !== credit) stale.add(one);
    spenders.add(customerId);
  }
  return stale;
}

/** Whether a new invoice applies credit. */
export const drawsCredit = ({ id, creditApplied }: Invoice): boolean =>
  id === null && creditApplied > 0n;
