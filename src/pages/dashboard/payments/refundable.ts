// Computes how much of a payment can still be refunded, like the API (src/db/money/refunds.ts).
import type { components } from '../../../client/openapi.ts';

type Transaction = components['schemas']['Transaction'];
type Refund = components['schemas']['Refund'];

/**
 * Returns the amount left to refund, in base units: the net amount minus recorded refunds, pending
 * refunds and the part that a change of plan turned into a credit.
 */
export function refundable(
  payment: Pick<Transaction, 'status' | 'amountNet' | 'amountRefunded' | 'amountCredited'>,
  refunds: readonly Pick<Refund, 'status' | 'amount'>[] = [],
): bigint {
  if (payment.status !== 'succeeded') return 0n;
  const { amountNet, amountRefunded, amountCredited } = payment;
  const left =
    BigInt(amountNet) - BigInt(amountRefunded) - BigInt(amountCredited) - pendingRefunds(refunds);
  return left > 0n ? left : 0n;
}

/** The sum of requested refunds that are not final, in base units. */
export function pendingRefunds(refunds: readonly Pick<Refund, 'status' | 'amount'>[]): bigint {
  return refunds
    .filter(({ status }) => status === 'pending')
    .reduce((sum, { amount }) => sum + BigInt(amount), 0n);
}
