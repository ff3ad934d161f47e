import type { Queryable } from './connect.ts';

export type PlanStatus = 'pending' | 'active' | 'sunset' | 'ended';

export interface PlanRow {
  id: string;
  appId: string;
  name: string;
  planPda: string;
  /** A u64; numeric in Postgres, hence text. */
  chainPlanId: string;
  owner: string;
  mint: string;
  treasury: string;
  puller: string;
  /** USDC base units per period. */
  amount: bigint;
  periodHours: number;
  endsAt: Date | null;
  metadataUri: string;
  chainCreatedAt: Date | null;
  status: PlanStatus;
  observedAt: Date | null;
  /** As of which the plan was first seen on chain; 0 before. */
  observedSlot: bigint;
  createdAt: Date;
  updatedAt: Date;
}

export type NewPlan = Omit<PlanRow, 'id' | 'createdAt' | 'updatedAt'>;

/** Throws a unique violation of one_live_plan_per_pda when the address is taken by a plan that has not ended. */
export async function insertPlan(sql: Queryable, plan: NewPlan): Promise<PlanRow> {
  const [row] = await sql<PlanRow[]>`
    insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, ends_at, metadata_uri,
      chain_created_at, status, observed_at, observed_slot)
    values (${plan.appId}, ${plan.name}, ${plan.planPda}, ${plan.chainPlanId}, ${plan.owner}, ${plan.mint}, ${plan.treasury}, ${plan.puller},
      ${plan.amount}, ${plan.periodHours}, ${plan.endsAt}, ${plan.metadataUri}, ${plan.chainCreatedAt}, ${plan.status}, ${plan.observedAt},
      ${plan.observedSlot})
    returning *`;
  if (row === undefined) throw new Error('a plan was not stored');
  return row;
}

export async function findPlan(sql: Queryable, id: string): Promise<PlanRow | undefined> {
  const [row] = await sql<PlanRow[]>`select * from plans where id = ${id}`;
  return row;
}

/** An app's plans, newest first. */
export function listPlans(sql: Queryable, appId: string, { after, limit }: { after: string | null; limit: number }): Promise<PlanRow[]> {
  return sql<PlanRow[]>`
    select * from plans
    where (app_id, id) >= (${appId}, '00000000-0000-0000-0000-000000000000') and (app_id, id) < (${appId}, coalesce(${after}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    order by app_id desc, id desc limit ${limit}`;
}

export async function renamePlan(sql: Queryable, id: string, name: string): Promise<PlanRow | undefined> {
  const [row] = await sql<PlanRow[]>`update plans set name = ${name}, updated_at = now() where id = ${id} returning *`;
  return row;
}

/** Takes no new registrations from now on; a plan that is not active stays as it is. */
export async function sunsetPlan(sql: Queryable, id: string): Promise<PlanRow | undefined> {
  const [row] = await sql<PlanRow[]>`
    update plans set status = 'sunset', updated_at = now() where id = ${id} and status in ('active', 'sunset') returning *`;
  return row;
}

/** A pending plan was seen on chain. Leaves every other status alone and then returns undefined. */
export async function activatePlan(
  sql: Queryable,
  id: string,
  { status, chainCreatedAt, observedSlot }: { status: 'active' | 'sunset'; chainCreatedAt: Date; observedSlot: bigint },
): Promise<PlanRow | undefined> {
  const [row] = await sql<PlanRow[]>`
    update plans set status = ${status}, chain_created_at = ${chainCreatedAt}, observed_slot = ${observedSlot}, observed_at = now(), updated_at = now()
    where id = ${id} and status = 'pending'
    returning *`;
  return row;
}
