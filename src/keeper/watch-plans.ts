// Plans on chain: a pending one turns active when it is there with its terms; a merchant's sunset, end, closing or re-creation is taken over.
// Subscriptions are not touched here: the keeper reads the plan with each of them.
import { planIn } from '../chain/accounts.ts';
import { ChainDataError, type PlanAccount } from '../chain/layouts.ts';
import { activatePlan, type PlanRow, type PlanStatus } from '../db/plans.ts';
import { findPlansAt, movePlan, returnUnwatchedPlans, takeUnwatchedPlans } from '../db/plans-watch.ts';
import { timeOf, unixSeconds } from '../domain/network.ts';
import { planMatches } from '../domain/plans.ts';
import type { ChainClock } from './clock.ts';
import type { Context } from './context.ts';

const BATCH = 100;
const MAX_AGE_SECONDS = 300;
const PENDING_AGE_SECONDS = 10;

/** What a plan's record becomes by what is on chain; null when it stays. Pure. */
export function judgePlan(record: PlanRow, account: PlanAccount | null, now: bigint): { status: PlanStatus; endsAt: Date | null } | null {
  const endsAt = account === null || account.endTs === 0n ? null : timeOf(account.endTs);
  if (record.status === 'pending') {
    if (account === null || !planMatches(record, account, record)) return null;
    return { status: account.status, endsAt };
  }
  const recreated = account !== null && record.chainCreatedAt !== null && account.createdAt !== unixSeconds(record.chainCreatedAt);
  if (account === null || recreated) return { status: 'ended', endsAt: record.endsAt };
  if (account.endTs !== 0n && now > account.endTs) return { status: 'ended', endsAt };
  const status = account.status === 'sunset' ? 'sunset' : record.status;
  const sameEnd = record.endsAt?.getTime() === endsAt?.getTime();
  return status === record.status && sameEnd ? null : { status, endsAt };
}

export interface PlanWatch {
  /** Looks at one batch of those not seen for long; resolves with true when there may be more. */
  turn(): Promise<boolean>;
  /** Looks at the plans at these addresses now, as of `minSlot` or later. */
  look(planPdas: string[], minSlot?: bigint): Promise<void>;
}

/** Watches plans for `context`. */
export function createPlanWatch({ sql, rpc, log, programId }: Context, clock: ChainClock): PlanWatch {
  async function judgeAll(plans: readonly PlanRow[], minSlot?: bigint): Promise<void> {
    // An endpoint from before a plan was seen would show it as closed, and that is final here.
    const seenAt = plans.reduce((highest, { observedSlot }) => (observedSlot > highest ? observedSlot : highest), minSlot ?? 0n);
    const { accounts, slot } = await rpc.getMultipleAccounts(
      plans.map(({ planPda }) => planPda),
      seenAt > 0n ? { minSlot: seenAt } : {},
    );
    const now = unixSeconds(await clock.now());
    for (const [place, plan] of plans.entries()) {
      let account: PlanAccount | null;
      try {
        account = planIn(accounts[place] ?? null, programId);
      } catch (error) {
        if (!(error instanceof ChainDataError)) throw error;
        log.warn({ plan: plan.id, reason: error.message }, 'the account of a plan cannot be understood');
        continue;
      }
      const change = judgePlan(plan, account, now);
      if (change === null) continue;
      const moved =
        plan.status === 'pending' && account !== null && change.status !== 'ended'
          ? (await activatePlan(sql, plan.id, {
              status: account.status,
              chainCreatedAt: timeOf(account.createdAt),
              observedSlot: slot,
            })) !== undefined
          : await movePlan(sql, plan.id, { from: plan.status, to: change.status, endsAt: change.endsAt });
      if (moved) log.info({ plan: plan.id, from: plan.status, to: change.status }, 'a plan changed on chain');
    }
  }

  return {
    async turn() {
      const plans = await takeUnwatchedPlans(sql, { maxAgeSeconds: MAX_AGE_SECONDS, pendingAgeSeconds: PENDING_AGE_SECONDS, limit: BATCH });
      if (plans.length === 0) return false;
      try {
        await judgeAll(plans);
      } catch (error) {
        await returnUnwatchedPlans(
          sql,
          plans.map(({ id }) => id),
        );
        throw error;
      }
      return plans.length === BATCH;
    },
    async look(planPdas, minSlot) {
      const plans = await findPlansAt(sql, planPdas);
      if (plans.length > 0) await judgeAll(plans, minSlot);
    },
  };
}
