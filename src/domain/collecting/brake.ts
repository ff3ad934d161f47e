// Stops the signing of payments while an operator holds collection, and after a failover of
// Postgres.
//
// All other work continues: the keeper sends and settles attempts that are already committed,
// records changes on chain, and ends subscriptions. A held payment stays due and does not fail, so
// a hold makes no subscriber past due or expired.
import { type Brake, type Hold, lockBrake } from '../../db/collection-holds.ts';
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

/**
 * Returns whether a hold stops this decision. A hold stops a decision that signs a transaction or
 * that counts a payment as failed.
 */
export function isBraked({ collect, needs, update }: Decision): boolean {
  const isFailure = update.payments.some(({ status }) => status === 'failed');
  return collect !== undefined || needs === 'closing' || isFailure;
}

/**
 * Returns a function that tells whether an attempt must not be committed in `tx`. stopped() itself
 * takes the shared lock of holds, so callers call stopped() before they lock any row. `timeline` is
 * the timeline of Postgres when the accounts were read; undefined allows any timeline.
 */
export async function stopped(
  tx: Transaction,
  outcomes: readonly { readonly attempt?: unknown }[],
  timeline: string | null | undefined,
): Promise<
  (one: { readonly attempt?: unknown; readonly row: KeeperSubscriptionForEvents }) => boolean
> {
  if (outcomes.every(({ attempt }) => attempt === undefined)) return () => false;
  const brake = await lockBrake(tx);
  const isOther = timeline !== undefined && brake.timeline !== timeline;
  return ({ attempt, row }) => attempt !== undefined && (isOther || isHeld(brake, row));
}

/** Describes a hold in words: the payments that it stops, and the reason. */
export function heldInWords({
  merchantWallet,
  planId,
  reason,
}: Pick<Hold, 'merchantWallet' | 'planId' | 'reason'>): string {
  const plan = planId === null ? 'all plans' : `plan ${planId}`;
  const what = merchantWallet === null ? plan : `merchant ${merchantWallet}`;
  return `collection of ${what} is held: ${reason}`;
}
