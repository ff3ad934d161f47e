// Stops the signing of payments (1) while collection is held, (2) if a wallet is suspended, and (3)
// after Postgres has failed over. The keeper still sends and settles committed attempts, writes
// on-chain changes to the database, and ends subscriptions. A held payment stays due and does not
// fail.
import {
  type Brake,
  type Hold,
  lockBrake,
  type Parties,
} from '../../db/operating/collection-holds.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import type { KeeperSubscriptionForEvents } from '../../db/subscriptions/work.ts';
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
 * Returns why no payment of these parties may be committed, or undefined if one may be. `wait`:
 * Postgres is a standby, or has failed over since it was on `timeline`; undefined skips the latter
 * check. `stopped`: a hold or a suspension.
 */
export function stopOf(
  brake: Brake,
  parties: Parties & { planId: string },
  timeline: string | null | undefined,
): 'wait' | 'stopped' | undefined {
  const isOther = timeline !== undefined && brake.timeline !== timeline;
  if (isOther || isWaiting(brake)) return 'wait';
  return isHeld(brake, parties) || isSuspended(brake, parties) ? 'stopped' : undefined;
}

/**
 * Reads the brake in `tx`. The returned function is true for attempts that must not be committed.
 * `timeline` is Postgres's timeline when the accounts were read (stopOf). Waits for the brake's
 * lock, so call it before locking rows.
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
  return ({ attempt, row }) => attempt !== undefined && stopOf(brake, row, timeline) !== undefined;
}

/** Describes a hold in words: the payments that the hold stops, and the reason of the hold. */
export function heldInWords({
  merchantWallet,
  planId,
  reason,
}: Pick<Hold, 'merchantWallet' | 'planId' | 'reason'>): string {
  const plan = planId === null ? 'all plans' : `plan ${planId}`;
  const heldPayments = merchantWallet === null ? plan : `merchant ${merchantWallet}`;
  return `collection of ${heldPayments} is held: ${reason}`;
}
