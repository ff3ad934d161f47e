// Cancellation by the merchant (docs/contract.md, Subscription status). A keeper reads the row
// again each time before it sends a payment, so a cancellation also stops signed payments.
import type { Transaction } from '../../db/postgres/connect.ts';
import {
  forceCancellation,
  reinstateSubscription,
  requestCancellation,
} from '../../db/subscription-changes.ts';
import { ServiceError } from '../../errors.ts';
import { appendEvents } from '../outbox/events.ts';

/**
 * Cancels at the end of the paid time; no further payment is collected. Writes cancel_requested
 * once, and a repeated request changes nothing. An earlier request by the subscriber becomes the
 * merchant's request, so that a resume on chain no longer undoes the cancellation. Throws CONFLICT
 * when the subscription has ended.
 */
export async function requestCancel(
  sql: Transaction,
  subscription: { id: string; status: string },
): Promise<void> {
  const requested = await requestCancellation(sql, subscription.id);
  if (requested?.isFirst === false) return;
  if (requested !== undefined) {
    const extra = { cancelRequestedAt: requested.cancelRequestedAt, cancelRequestedBy: 'merchant' };
    await appendEvents(sql, [{ subscriptionId: subscription.id, type: 'cancel_requested', extra }]);
    return;
  }
  if (subscription.status === 'cancelled' || subscription.status === 'expired')
    throw ended(subscription.status);
}

/**
 * Cancels at once: no payment is sent afterwards, not even one that is already signed. Throws
 * CONFLICT when the subscription has ended.
 */
export async function forceCancel(
  sql: Transaction,
  subscription: { id: string; status: string },
): Promise<void> {
  const forced = await forceCancellation(sql, subscription.id);
  if (forced === undefined) throw ended(subscription.status);
  await appendEvents(sql, [
    {
      subscriptionId: subscription.id,
      type: 'cancel_forced',
      extra: { cancelledAt: forced.cancelledAt },
    },
  ]);
}

/**
 * Lifts a force-cancel. The subscription stays cancelled, but its wallet may subscribe again.
 * Throws CONFLICT when the subscription was not cancelled by force.
 */
export async function reinstate(sql: Transaction, { id }: { id: string }): Promise<void> {
  if ((await reinstateSubscription(sql, id)) === undefined)
    throw new ServiceError('CONFLICT', 'The subscription was not cancelled by force.');
}

function ended(status: string): ServiceError {
  return new ServiceError(
    'CONFLICT',
    `The subscription is ${status === 'active' || status === 'past_due' ? 'ended' : status} already.`,
  );
}
