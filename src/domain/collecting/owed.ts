// What a wallet owes to other plans before a payment, for the look-ahead: its balance must cover
// all of it. Pure.
import type { WalletDue } from '../../db/wallet-dues.ts';
import { amountPastDue, nextAmount } from './price.ts';

/** The payment whose wallet is asked. */
export interface AskedPayment {
  readonly id: string;
  readonly subscriberWallet: string;
  readonly mint: string;
  readonly nextPaymentDue: Date | null;
}

/**
 * The sum (base units) of the next payments that the wallet owes earlier than this one, or at the
 * same time to an older subscription.
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
    .reduce((sum, other) => sum + (amountPastDue(other) ?? nextAmount(other) ?? 0n), 0n);
}
