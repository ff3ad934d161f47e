// Cancellation by the merchant (docs/contract.md, Subscription status). Keepers obey it because
// they read the row again before each send.
import type { Transaction } from '../../db/postgres/connect.ts';
import { forceCancellation, requestCancellation } from '../../db/subscription-changes.ts';
import { ServiceError } from '../../errors.ts';
import { appendEvents } from '../outbox/events.ts';

/**
 * Cancels at the end of the paid time: nothing more is collected. Writes cancel_requested once;
 * repeating the request changes nothing. A subscriber's request becomes the merchant's, which a
 * resume on chain does not undo. Throws CONFLICT when the subscription has ended.
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

function ended(status: string): ServiceError {
  return new ServiceError(
    'CONFLICT',
    `The subscription is ${status === 'active' || status === 'past_due' ? 'ended' : status} already.`,
  );
}
