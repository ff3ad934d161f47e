// Cancellation through the API (docs/contract.md, Subscription status). A keeper reads the row
// again each time before it sends a payment, so a cancellation also stops signed payments.
import { subscriptionIn } from '../../chain/program/accounts.ts';
import { isOnCurve } from '../../chain/program/addresses.ts';
import type { Sql, Transaction } from '../../db/postgres/connect.ts';
import { findNewestRegistration } from '../../db/subscriptions/account-registrations.ts';
import { lockSignedChanges } from '../../db/subscriptions/change-offers.ts';
import {
  forceCancellation,
  reinstateSubscription,
  requestCancellation,
} from '../../db/subscriptions/merchant-edits.ts';
import type { SubscriptionRow } from '../../db/subscriptions/subscriptions.ts';
import { ServiceError } from '../../errors.ts';
import { type ChainReader, type BillingAddresses, readAccounts } from '../chain-reads.ts';
import { appendEvents } from '../outbox/events.ts';
import { isOfAccount } from '../registration/ended.ts';
import { type KnownChanges, NO_CHANGES } from './signed-changes.ts';

/**
 * Cancels for the merchant at the end of the paid time; no further payment is collected. Writes
 * cancel_requested once. If the subscriber has cancelled before, the cancellation becomes the
 * merchant's, so that a resume on chain does not undo it. Throws CONFLICT when the subscription has
 * ended.
 */
export async function requestCancel(
  sql: Transaction,
  subscription: { id: string; status: string },
): Promise<void> {
  const requested = await requestCancellation(sql, subscription.id, 'merchant');
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
 * Cancels for the wallet at the end of the paid time, without a transaction: the on-chain account
 * stays live. Has no effect if the subscription has ended or is already cancelled.
 */
export async function holdCancel(sql: Transaction, { id }: { id: string }): Promise<void> {
  const requested = await requestCancellation(sql, id, 'subscriber_here');
  if (requested === undefined) return;
  const { cancelRequestedAt } = requested;
  const extra = { cancelRequestedAt, cancelRequestedBy: 'subscriber' };
  await appendEvents(sql, [{ subscriptionId: id, type: 'cancel_requested', extra }]);
}

/**
 * Cancels at once. No payment is sent afterwards, not even an already signed payment. `known` is
 * the result of readKnownChanges(). Throws CONFLICT when the subscription has ended, or while a
 * signed change of plan may still land.
 */
export async function forceCancel(
  sql: Transaction,
  subscription: { id: string; status: string },
  { dead, chainNow }: KnownChanges = NO_CHANGES,
): Promise<void> {
  if (await lockSignedChanges(sql, subscription.id, dead))
    throw new ServiceError(
      'CONFLICT',
      'A change of plan that the wallet has signed may still land. Try again in a minute, or cancel at the end of the period.',
    );
  const forced = await forceCancellation(sql, subscription.id, chainNow);
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
 * Lifts a force-cancel. The subscription stays cancelled, but its wallet may subscribe again. With
 * `anyEnd` (see livesOffCurve), lifts any kind of end. Throws CONFLICT when there is no such end.
 */
export async function reinstate(
  sql: Transaction,
  { id }: { id: string },
  { anyEnd }: { anyEnd: boolean },
): Promise<void> {
  if ((await reinstateSubscription(sql, id, { anyEnd })) === undefined)
    throw new ServiceError('CONFLICT', 'The subscription was not cancelled by force.');
}

/**
 * Whether the subscription is the newest of a wallet that cannot sign in, and its account is live
 * on chain. Such a wallet cannot register the account again, so a keeper registers it after the
 * merchant has reinstated the subscription. For a force-cancelled subscription the chain is not
 * read, because a force-cancel can be lifted for any wallet. Throws INTERNAL_ERROR when the chain
 * is unreachable.
 */
export async function livesOffCurve(
  { sql, chain, network }: { sql: Sql; chain: ChainReader; network: BillingAddresses },
  { id, subscriberWallet, subscriptionPda, endReason }: SubscriptionRow,
): Promise<boolean> {
  if (endReason === 'forced' || isOnCurve(subscriberWallet)) return false;
  const { accounts } = await readAccounts(chain, [subscriptionPda]);
  const account = subscriptionIn(accounts[0] ?? null, network.programId);
  if (account?.expiresAt !== 0n) return false;
  const newest = await findNewestRegistration(sql, subscriptionPda);
  return newest?.id === id && isOfAccount(newest, account);
}

function ended(status: string): ServiceError {
  return new ServiceError(
    'CONFLICT',
    `The subscription is ${status === 'active' || status === 'past_due' ? 'ended' : status} already.`,
  );
}
