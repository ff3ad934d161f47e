// Updates plans in the database from the plan accounts on chain. (1) A pending plan becomes active
// once its account has the recorded terms. (2) The sunset, end, closing or re-creation of a plan is
// recorded. (3) A blocked plan is unblocked once its accounts allow payments. Subscriptions do not
// change here.
import { type ChainAccount, planIn, tokenAccountIn } from '../../chain/program/accounts.ts';
import { tokenAccountAddress } from '../../chain/program/addresses.ts';
import { ChainDataError, type PlanAccount } from '../../chain/program/layouts.ts';
import { readAccountGroups } from '../../chain/rpc/account-groups.ts';
import { readReachable } from '../../chain/rpc/reach.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import {
  endAbandonedPlans,
  putOffPlans,
  takeUnwatchedPlans,
} from '../../db/subscriptions/plan-watch.ts';
import { activatePlan, findPlansAt, movePlan, type PlanRow } from '../../db/subscriptions/plans.ts';
import type { ChainView } from '../../domain/collecting/chain-view.ts';
import { planObstacle } from '../../domain/collecting/obstacles.ts';
import { unblockPlan } from '../../domain/collecting/plan-block.ts';
import { assessPlan } from '../../domain/plans/plan-record.ts';
import type { Context } from '../base/context.ts';

const BATCH = 100;

/** Reads plan accounts and updates the plans in the database. */
export class PlanWatch {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /**
   * Reads the accounts of one batch of plans that are due to be read. Resolves with true when more
   * plans may be due.
   */
  async turn(): Promise<boolean> {
    const { sql, times } = this.#context;
    const plans = await takeUnwatchedPlans(sql, { ...times.plans, limit: BATCH });
    if (plans.length === 0) return false;
    const ids = plans.map(({ id }) => id);
    try {
      await this.#read(plans);
      await endAbandonedPlans(sql, ids);
    } catch (error) {
      await putOffPlans(sql, ids);
      throw error;
    }
    return plans.length === BATCH;
  }

  /** Reads the plan accounts at these addresses now, as of `minSlot` or a later slot. */
  async readNow(planPdas: string[], minSlot?: bigint): Promise<void> {
    const plans = await findPlansAt(this.#context.sql, planPdas);
    if (plans.length > 0) await this.#read(plans, minSlot);
  }

  async #read(plans: readonly PlanRow[], minSlot?: bigint): Promise<void> {
    await update(this.#context, plans, minSlot);
    const blocked = plans.filter(({ collectionBlockedReason }) => collectionBlockedReason !== null);
    if (blocked.length > 0) await recheckBlocked(this.#context, blocked, minSlot);
  }
}

/**
 * Reads the accounts of plans and records their changes. If an account is missing but may still
 * exist at another endpoint, the plan is left unchanged and read again later.
 */
async function update(
  context: Context,
  plans: readonly PlanRow[],
  minSlot?: bigint,
): Promise<void> {
  const { sql, rpc, clock, log, metrics, programId, absence } = context;
  // The read must reach each plan's last known slot. A lagging endpoint would show a new plan as
  // closed, and a recorded closing cannot be undone.
  const addresses = plans.map(({ planPda }) => planPda);
  const { accounts, slot } = await readReachable(
    rpc,
    plans.map(({ observedSlot }) => observedSlot),
    { minSlot },
    (as) => rpc.getMultipleAccounts(addresses, as),
  );
  absence.read(plans.length);
  const now = unixSeconds(await clock.now());
  const missing: PlanRow[] = [];
  for (const [index, plan] of plans.entries()) {
    if (plan.observedSlot > slot) {
      metrics.alerts.inc({ reason: 'slot_not_reached' });
      log.error(
        { plan: plan.id, seenAt: plan.observedSlot.toString(), slot: slot.toString() },
        'plan not read: no endpoint has reached its slot',
      );
      continue;
    }
    let account: PlanAccount | null;
    try {
      account = planIn(accounts[index] ?? null, programId);
    } catch (error) {
      if (!(error instanceof ChainDataError)) throw error;
      log.warn({ plan: plan.id, reason: error.message }, 'plan account undecodable');
      continue;
    }
    if (account === null && plan.status !== 'pending') missing.push(plan);
    else await record(context, plan, account, { now, slot });
  }
  const gonePlans = await absence.gone(missing.map(({ planPda }) => planPda));
  const doubted = missing.filter(({ planPda }) => !gonePlans.has(planPda));
  for (const plan of missing)
    if (gonePlans.has(plan.planPda)) await record(context, plan, null, { now, slot });
  if (doubted.length > 0)
    await putOffPlans(
      sql,
      doubted.map(({ id }) => id),
    );
}

/** Updates a plan in the database from its account on chain. */
async function record(
  { sql, log, keeperWallets }: Pick<Context, 'sql' | 'log' | 'keeperWallets'>,
  plan: PlanRow,
  account: PlanAccount | null,
  { now, slot }: { now: bigint; slot: bigint },
): Promise<void> {
  const change = assessPlan(plan, account, now, keeperWallets);
  if (change === null) return;
  const moved =
    plan.status === 'pending' && account !== null && change.status !== 'ended'
      ? (await activatePlan(sql, plan.id, {
          status: account.status,
          chainCreatedAt: timeOf(account.createdAt),
          observedSlot: slot,
        })) !== undefined
      : await movePlan(sql, plan.id, {
          from: plan.status,
          to: change.status,
          endsAt: change.endsAt,
        });
  if (moved)
    log.info({ plan: plan.id, from: plan.status, to: change.status }, 'plan changed on chain');
}

/**
 * Unblocks the plans whose payments can be collected again, and the plans that have ended. Throws
 * when the chain or the database cannot be reached.
 */
async function recheckBlocked(
  context: Context,
  plans: readonly PlanRow[],
  minSlot: bigint | undefined,
): Promise<void> {
  const { sql, rpc, clock, log, rules } = context;
  const accounts = await readAccountGroups(
    rpc,
    plans.map(({ planPda, owner, mint }) => [planPda, tokenAccountAddress(owner, mint).address]),
    { minSlot },
  );
  const live = await findPlansAt(
    sql,
    plans.map(({ planPda }) => planPda),
  );
  const isLive = new Set(live.map(({ id }) => id));
  for (const [index, plan] of plans.entries()) {
    const view = viewOf(context, accounts[index]?.accounts ?? []);
    const parties = { keepers: rules.keepers, merchant: plan.owner, mint: plan.mint };
    const isFree = view !== undefined && view.plan !== null && !planObstacle(view, 1n, parties);
    if (isLive.has(plan.id) && !isFree) continue;
    const waiting = await unblockPlan(sql, plan.id, await clock.now());
    log.info({ plan: plan.id, waiting }, 'plan no longer blocked');
  }
}

/**
 * Decodes the accounts that every payment of a plan needs. Returns undefined when an account cannot
 * be decoded.
 */
function viewOf(
  { programId }: Pick<Context, 'programId'>,
  [plan = null, merchantTokens = null]: readonly (ChainAccount | null)[],
): Pick<ChainView, 'plan' | 'merchantTokens'> | undefined {
  try {
    return { plan: planIn(plan, programId), merchantTokens: tokenAccountIn(merchantTokens) };
  } catch (error) {
    if (error instanceof ChainDataError) return undefined;
    throw error;
  }
}
