// Pausing by the merchant. During a pause no payment is collected, and access ends with the paid
// time. The time of the pause is never charged. A keeper reads the row again before each send, so a
// pause also stops signed payments.
import { timeOf } from '../../chain/time.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import { pauseSubscription, unpauseSubscription } from '../../db/subscriptions/merchant-edits.ts';
import { ServiceError } from '../../errors.ts';
import { appendEvents } from '../outbox/events.ts';

interface PausableSubscription {
  id: string;
  status: string;
  cancelRequestedAt: Date | null;
}

/**
 * Pauses the subscription and writes the event once; a repeated call changes nothing. Throws
 * CONFLICT when the subscription has ended or a cancellation is requested.
 */
export async function pause(sql: Transaction, subscription: PausableSubscription): Promise<void> {
  const paused = await pauseSubscription(sql, subscription.id);
  if (paused === undefined) {
    refuseEnding(subscription);
    return;
  }
  const extra = { pausedAt: paused.pausedAt };
  await appendEvents(sql, [
    { subscriptionId: subscription.id, type: 'subscription_paused', extra },
  ]);
}

/**
 * Ends a pause. The next payment is due at the end of the paid time. Without paid time, the rest of
 * the current period is due at once, but not before a deferred start or the end of the wait for the
 * wallet. A repeated call has no effect. `now` is chain time in Unix seconds. Throws CONFLICT when
 * the subscription has ended or a cancellation is requested.
 */
export async function unpause(
  sql: Transaction,
  subscription: PausableSubscription,
  now: bigint,
): Promise<void> {
  const unpaused = await unpauseSubscription(sql, subscription.id, timeOf(now));
  if (unpaused === undefined) {
    refuseEnding(subscription);
    return;
  }
  const extra = { nextPaymentDue: unpaused.nextPaymentDue };
  await appendEvents(sql, [
    { subscriptionId: subscription.id, type: 'subscription_unpaused', extra },
  ]);
}

function refuseEnding({ status, cancelRequestedAt }: PausableSubscription): void {
  const isOver = status === 'cancelled' || status === 'expired';
  if (isOver || cancelRequestedAt !== null)
    throw new ServiceError(
      'CONFLICT',
      isOver ? `The subscription is ${status} already.` : 'The subscription is cancelled.',
    );
}
