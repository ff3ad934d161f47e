// Pausing by the merchant: nothing is collected, periods during the pause are never charged, and
// access ends with the paid time. As with a cancellation, the keepers read the row again before
// each send.
import { timeOf } from '../../chain/time.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import { pauseSubscription, unpauseSubscription } from '../../db/subscription-changes.ts';
import { ServiceError } from '../../errors.ts';
import { appendEvents } from '../outbox/events.ts';

interface Found {
  id: string;
  status: string;
  cancelRequestedAt: Date | null;
}

/**
 * Pauses and writes the event once; repeating changes nothing. Throws CONFLICT when the
 * subscription has ended or is being cancelled.
 */
export async function pause(sql: Transaction, subscription: Found): Promise<void> {
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
 * Resumes collection: at the end of the paid time, else at once for the rest of the current period.
 * Repeating changes nothing. `now` is chain time in Unix seconds. Throws CONFLICT when the
 * subscription has ended or is being cancelled.
 */
export async function unpause(sql: Transaction, subscription: Found, now: bigint): Promise<void> {
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

function refuseEnding({ status, cancelRequestedAt }: Found): void {
  const isOver = status === 'cancelled' || status === 'expired';
  if (isOver || cancelRequestedAt !== null)
    throw new ServiceError(
      'CONFLICT',
      isOver ? `The subscription is ${status} already.` : 'The subscription is cancelled.',
    );
}
