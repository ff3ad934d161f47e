// A merchant pauses a subscription: nothing is collected, periods that go by are never charged, and access ends with what is paid. As with a
// cancellation the row is what binds the keepers: it is read again before each send.
import { timeOf } from '../chain/time.ts';
import type { Transaction } from '../db/connect.ts';
import { pauseSubscription, unpauseSubscription } from '../db/subscription-changes.ts';
import { ServiceError } from '../errors.ts';
import { appendEvents } from './events.ts';

interface Found {
  id: string;
  status: string;
  cancelRequestedAt: Date | null;
}

/** Told once; asking again changes nothing. Throws CONFLICT when the subscription has ended or is to end. */
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
 * Payments go on: after what is paid, else at once, for the rest of the period that runs. `now` is chain time in Unix seconds. Asking again changes nothing.
 * Throws CONFLICT when the subscription has ended or is to end.
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
