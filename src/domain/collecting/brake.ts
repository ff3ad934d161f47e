// Stops the signing of payments during a hold of collection, and after Postgres failed over.
//
// Everything else continues: committed attempts are sent and settled, changes on chain are
// recorded, subscriptions end. A due payment stays due and does not fail, so no subscriber becomes
// past due or expires because of a hold.
import { type Brake, type Hold, lockBrake } from '../../db/collection-holds.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import type { KeeperSubscriptionForEvents } from '../../db/subscription-work.ts';
import type { Decision } from './decision.ts';

/** Whether no payment at all may be signed, because Postgres is a standby or has failed over. */
export function isWaiting({ timeline, recorded, collectsAfterHeight }: Brake): boolean {
  if (timeline === null || collectsAfterHeight !== null) return true;
  return recorded !== null && recorded !== timeline;
}

/** Whether no payment of this subscription may be signed. */
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
 * Whether a hold stops this decision. A hold stops decisions that sign a transaction or count a
 * payment as failed.
 */
export function isBraked({ collect, needs, update }: Decision): boolean {
  const isFailure = update.payments.some(({ status }) => status === 'failed');
  return collect !== undefined || needs === 'closing' || isFailure;
}

/**
 * Returns a function that tells whether an attempt must not be committed in `tx`. Takes the shared
 * lock of holds, so call it before rows are locked. `timeline` is the timeline of Postgres when the
 * accounts were read; undefined allows any timeline.
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

/** Describes a hold as text: which payments it stops, and why. */
export function heldInWords({
  merchantWallet,
  planId,
  reason,
}: Pick<Hold, 'merchantWallet' | 'planId' | 'reason'>): string {
  const plan = planId === null ? 'all plans' : `plan ${planId}`;
  const what = merchantWallet === null ? plan : `merchant ${merchantWallet}`;
  return `collection of ${what} is held: ${reason}`;
}
