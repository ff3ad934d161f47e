// A merchant ends a subscription (docs/contract.md, Subscription status). The row is what binds the keepers: it reads it again before each send.
import type { Transaction } from '../db/connect.ts';
import { forceCancellation, requestCancellation } from '../db/subscription-changes.ts';
import { ServiceError } from '../errors.ts';
import { appendEvents } from './events.ts';

/**
 * At the end of what is paid: nothing more is collected, cancel_requested is told once. Asking again changes nothing; after the subscriber's own request
 * it is the merchant's, which a resumption on chain does not take back. Throws CONFLICT when the subscription has ended.
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

/** At once: no later pull, even one that is signed but not yet sent. Throws CONFLICT when it has ended. */
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
