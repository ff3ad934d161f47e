// Blocks a plan when an obstacle prevents all payments of the plan.
//
//   collected --a payment meets an obstacle to all payments--> blocked (settlement.ts)
//   blocked --a read of the plan finds no obstacle any more--> collected
//     (keeper/follow/plan-watch.ts)
//
// A subscription of a blocked plan waits for its next period. When the plan is unblocked, its
// waiting subscriptions are due at once.
import type { Sql, Transaction } from '../../db/postgres/connect.ts';
import { releaseWaiting } from '../../db/subscriptions/plan-watch.ts';
import { lockPlans, markBlocked, unmarkBlocked } from '../../db/subscriptions/plans.ts';
import { storePlanEvent } from '../outbox/events.ts';
import type { BlockReason } from '../reasons.ts';
import type { SubscriptionUpdate } from './transitions.ts';

export interface BlockedPlan {
  planId: string;
  planPda: string;
  reason: BlockReason;
  /**
   * Names of apps and endpoints to notify after the commit, because the plan's event is queued for
   * them (db/postgres/notify.ts).
   */
  queued: readonly string[];
}

interface Blocking {
  readonly update: SubscriptionUpdate;
  readonly blocks?: BlockReason | undefined;
}

/**
 * Locks the plans that `outcomes` block. Call this before locking subscriptions. Because of the
 * lock, no other transaction can unblock a plan while this transaction makes subscriptions wait for
 * the plan. Unblocking therefore finds every waiting subscription.
 */
export async function lockBlocked(tx: Transaction, outcomes: readonly Blocking[]): Promise<void> {
  const ids = outcomes.flatMap(({ update, blocks }) =>
    blocks === undefined ? [] : update.row.planId,
  );
  if (ids.length > 0) await lockPlans(tx, [...new Set(ids)]);
}

/**
 * Marks the plans that `outcomes` block and stores an event for each newly blocked plan. Returns
 * the newly blocked plans.
 */
export async function blockPlans(
  tx: Transaction,
  outcomes: readonly Blocking[],
): Promise<BlockedPlan[]> {
  const reasons = new Map<string, BlockReason>();
  for (const { update, blocks } of outcomes)
    if (blocks !== undefined) reasons.set(update.row.planId, blocks);
  if (reasons.size === 0) return [];
  const found = [...reasons].map(([planId, reason]) => ({ planId, reason }));
  const blocked: BlockedPlan[] = [];
  for (const plan of await markBlocked(tx, found)) {
    const reason = reasons.get(plan.planId);
    if (reason === undefined) continue;
    const queued = await storePlanEvent(tx, plan, 'plan_blocked', {
      collectionBlockedReason: reason,
    });
    blocked.push({ planId: plan.planId, planPda: plan.planPda, reason, queued });
  }
  return blocked;
}

/**
 * Unblocks a plan and makes its waiting subscriptions due. Resolves with the number of
 * subscriptions that were waiting.
 */
export function unblockPlan(sql: Sql, id: string, chainNow: Date): Promise<number> {
  return sql.begin(async (tx) => {
    await unmarkBlocked(tx, id);
    return releaseWaiting(tx, id, chainNow);
  });
}
