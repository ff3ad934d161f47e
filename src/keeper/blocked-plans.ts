// Plans of which no payment can be collected: the alert, and the end of the block once nothing stands against a payment any more.
import { planIn, tokenAccountIn } from '../chain/accounts.ts';
import { tokenAccountAddress } from '../chain/addresses.ts';
import { ChainDataError } from '../chain/layouts.ts';
import type { ChainClock } from '../chain/time.ts';
import { findPlansAt, type PlanRow } from '../db/plans.ts';
import type { ChainView } from '../domain/chain-view.ts';
import { planObstacle } from '../domain/obstacles.ts';
import { type BlockedPlan, unblockPlan } from '../domain/plan-block.ts';
import type { Context } from './preflight.ts';

/** Each takes two accounts of a request of 100. */
const AT_ONCE = 50;

/** Raises the one alert of a plan of which no payment can be collected, and has its event delivered. */
export function reportBlocked(
  { log, metrics, deliveries }: Pick<Context, 'log' | 'metrics' | 'deliveries'>,
  { planId, planPda, reason, queued }: BlockedPlan,
): void {
  deliveries.notify(new Set(queued));
  metrics.alerts.inc({ reason });
  log.error({ plan: planId, planPda, reason }, 'plan blocked: none of its payments is collected');
}

/** Ends the block of those of these plans that can be collected from again, or that have ended. Throws as RPC client and database do. */
export async function recheckBlocked(
  context: Context,
  clock: ChainClock,
  plans: readonly PlanRow[],
  minSlot?: bigint,
): Promise<void> {
  const blocked = plans.filter(({ collectionBlockedReason }) => collectionBlockedReason !== null);
  for (let start = 0; start < blocked.length; start += AT_ONCE)
    await recheck(context, clock, blocked.slice(start, start + AT_ONCE), minSlot);
}

async function recheck(
  context: Context,
  clock: ChainClock,
  plans: readonly PlanRow[],
  minSlot: bigint | undefined,
): Promise<void> {
  const { sql, rpc, log, rules } = context;
  const { accounts } = await rpc.getMultipleAccounts(
    plans.flatMap(({ planPda, owner, mint }) => [
      planPda,
      tokenAccountAddress(owner, mint).address,
    ]),
    { minSlot },
  );
  const live = await findPlansAt(
    sql,
    plans.map(({ planPda }) => planPda),
  );
  const isLive = new Set(live.map(({ id }) => id));
  for (const [place, plan] of plans.entries()) {
    const view = viewOf(context, accounts.slice(2 * place, 2 * place + 2));
    const parties = { keepers: rules.keepers, merchant: plan.owner, mint: plan.mint };
    const isFree = view !== undefined && view.plan !== null && !planObstacle(view, 1n, parties);
    if (isLive.has(plan.id) && !isFree) continue;
    const waiting = await unblockPlan(sql, plan.id, await clock.now());
    log.info({ plan: plan.id, waiting }, 'plan no longer blocked');
  }
}

/** The accounts that every payment of a plan needs; undefined where they cannot be decoded. */
function viewOf(
  { programId }: Pick<Context, 'programId'>,
  [plan = null, merchantTokens = null]: readonly Parameters<typeof tokenAccountIn>[0][],
): Pick<ChainView, 'plan' | 'merchantTokens'> | undefined {
  try {
    return { plan: planIn(plan, programId), merchantTokens: tokenAccountIn(merchantTokens) };
  } catch (error) {
    if (error instanceof ChainDataError) return undefined;
    throw error;
  }
}
