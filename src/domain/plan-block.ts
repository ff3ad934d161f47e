// A plan of which no payment can be collected stops as one.
//
//   collected --a payment finds an obstacle that every payment of the plan has--> blocked (settlement.ts)
//   blocked --the plan watch finds none any more--> collected (keeper/plans.ts)
//
// A subscription of a blocked plan waits for its next period; the end of the block makes it due at once.
import type { Sql, Transaction } from '../db/connect.ts';
import { lockPlans, markBlocked, unmarkBlocked } from '../db/plans.ts';
import { releaseWaiting } from '../db/subscriptions.ts';
import { storePlanEvent } from './events.ts';
import type { BlockReason } from './reasons.ts';
import type { Draft } from './transitions.ts';

export interface BlockedPlan {
  planId: string;
  planPda: string;
  reason: BlockReason;
  /** Names to notify of its event (db/notify.ts). */
  queued: readonly string[];
}

interface Blocking {
  readonly draft: Draft;
  readonly blocks?: BlockReason | undefined;
}

/**
 * Locks the plans that these outcomes find blocked, before any subscription is locked: a subscription waits only for a plan that is marked, and the end
 * of a block sees every subscription that waits.
 */
export async function lockBlocked(tx: Transaction, outcomes: readonly Blocking[]): Promise<void> {
  const ids = outcomes.flatMap(({ draft, blocks }) =>
    blocks === undefined ? [] : draft.row.planId,
  );
  if (ids.length > 0) await lockPlans(tx, [...new Set(ids)]);
}

/** Marks plans and stores an event of each that was not marked before; returns those. */
export async function blockPlans(
  tx: Transaction,
  outcomes: readonly Blocking[],
): Promise<BlockedPlan[]> {
  const reasons = new Map<string, BlockReason>();
  for (const { draft, blocks } of outcomes)
    if (blocks !== undefined) reasons.set(draft.row.planId, blocks);
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

/** Takes the mark off and makes the plan's subscriptions due that wait for it. Returns how many. */
export function unblockPlan(sql: Sql, id: string, chainNow: Date): Promise<number> {
  return sql.begin(async (tx) => {
    await unmarkBlocked(tx, id);
    return releaseWaiting(tx, id, chainNow);
  });
}
