// Stops the signing of payments (1) while an operator holds collection, (2) for suspended wallets,
// and (3) after a failover of Postgres. All other work continues: the keeper sends and settles
// attempts that are already committed, records changes on chain, and ends subscriptions. A held
// payment stays due and does not fail, so a hold makes no subscriber past due or expired.
import { type Brake, type Hold, lockBrake, type Parties } from '../../db/collection-holds.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import type { KeeperSubscriptionForEvents } from '../../db/subscription-work.ts';
import type { Decision } from './decision.ts';

/**
 * Returns whether no payment at all may be signed, because Postgres is a standby or has failed
 * over.
 */
export function isWaiting({ timeline, recorded, collectsAfterHeight }: Brake): boolean {
  if (timeline === null || collectsAfterHeight !== null) return true;
  return recorded !== null && recorded !== timeline;
}

/** Returns whether no payment of this subscription may be signed. */
export function isHeld(
  brake: Brake,
  { planId, accountWallet }: Pick<KeeperSubscriptionForEvents, 'planId' | 'accountWallet'>,
): boolean {
  return (
    isWaiting(brake) ||
    brake.all ||
    brake.plans.includes(planId) ||
    brake.merchants.includes(accountWallet)
  );
}

/** Whether the merchant or the subscriber is suspended. */
export function isSuspended(
  { suspendedMerchants, suspendedSubscribers }: Brake,
  { accountWallet, subscriberWallet }: Parties,
): boolean {
  return (
    suspendedMerchants.includes(accountWallet) || suspendedSubscribers.includes(subscriberWallet)
  );
}

/**
 * Returns whether the brake stops this decision. Holds and suspensions stop decisions that sign a
 * payment or count a payment as failed. Only holds stop decisions that close an account, so the
 * keeper still closes the accounts of suspended wallets.
 */
export function isBraked(
  brake: Brake,
  { collect, needs, update }: Decision,
  row: KeeperSubscriptionForEvents,
): boolean {
  const isPayment =
    collect !== undefined || update.payments.some(({ status }) => status === 'failed');
  if (isHeld(brake, row)) return isPayment || needs === 'closing';
  return isPayment && isSuspended(brake, row);
}

/**
 * Returns a function that tells whether the brake forbids committing an attempt in `tx`. stopped()
 * itself takes the shared lock of holds, so callers call stopped() before they lock any row.
 * `timeline` is the timeline of Postgres when the accounts were read; undefined allows any
 * timeline.
 */
export async function stopped(
  tx: Transaction,
  outcomes: readonly { readonly attempt?: unknown; readonly row: KeeperSubscriptionForEvents }[],
  timeline: string | null | undefined,
): Promise<
  (one: { readonly attempt?: unknown; readonly row: KeeperSubscriptionForEvents }) => boolean
> {
  const signed = outcomes.filter(({ attempt }) => attempt !== undefined);
  if (signed.length === 0) return () => false;
  const brake = await lockBrake(
    tx,
    signed.map(({ row }) => row),
  );
  const isOther = timeline !== undefined && brake.timeline !== timeline;
  return ({ attempt, row }) =>
    attempt !== undefined && (isOther || isHeld(brake, row) || isSuspended(brake, row));
}

/** Describes a hold in words: the payments that the hold stops, and the reason of the hold. */
export function heldInWords({
  merchantWallet,
  planId,
  reason,
}: Pick<Hold, 'merchantWallet' | 'planId' | 'reason'>): string {
  const plan = planId === null ? 'all plans' : `plan ${planId}`;
  const what = merchantWallet === null ? plan : `merchant ${merchantWallet}`;
  return `collection of ${what} is held: ${reason}`;
}
