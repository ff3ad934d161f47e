// Sums up the payments of a wallet that are due before a given payment. The look-ahead checks that
// the wallet's balance covers this sum and the payment. Pure.
import type { WalletDue } from '../../db/subscriptions/wallet-dues.ts';
import { amountPastDue, nextAmount, openOf } from '../invoices/upcoming.ts';

/** A payment for which owedBefore() finds the wallet's earlier payments. */
export interface AskedPayment {
  readonly id: string;
  readonly subscriberWallet: string;
  readonly mint: string;
  readonly nextPaymentDue: Date | null;
}

/**
 * The sum (base units) of the wallet's payments that precede `payment`. These are payments with an
 * earlier due time, and payments of older subscriptions with the same due time.
 */
export function owedBefore(payment: AskedPayment, dues: readonly WalletDue[]): bigint {
  const { id, subscriberWallet, mint, nextPaymentDue: at } = payment;
  if (at === null) return 0n;
  return dues
    .filter(
      (other) =>
        other.subscriberWallet === subscriberWallet && other.mint === mint && other.id !== id,
    )
    .filter(({ id: other, nextPaymentDue: due }) =>
      due.getTime() === at.getTime() ? other < id : due < at,
    )
    .reduce((sum, other) => {
      const open = openOf(other);
      return sum + (amountPastDue(other, open) ?? nextAmount(other, open) ?? 0n);
    }, 0n);
}
