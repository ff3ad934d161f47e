// Plans as the keeper watches them on chain.
import type { PlanRow, PlanStatus } from './plans.ts';
import type { Queryable } from './connect.ts';

/** Takes plans that were not looked at for `maxAgeSeconds`, longest first, and marks them as looked at. Pending ones of the last day come sooner. */
export function takeUnwatchedPlans(
  sql: Queryable,
  { maxAgeSeconds, pendingAgeSeconds, limit }: { maxAgeSeconds: number; pendingAgeSeconds: number; limit: number },
): Promise<PlanRow[]> {
  return sql<PlanRow[]>`
    with stale as (
      select id from plans
      where status <> 'ended' and (observed_at is null or observed_at < now() - ${maxAgeSeconds} * interval '1 second'
        or (status = 'pending' and created_at > now() - interval '1 day' and observed_at < now() - ${pendingAgeSeconds} * interval '1 second'))
      order by observed_at nulls first, id limit ${limit} for update skip locked
    )
    update plans p set observed_at = now() from stale where p.id = stale.id returning p.*`;
}

/** The live plans at these addresses. */
export function findPlansAt(sql: Queryable, planPdas: string[]): Promise<PlanRow[]> {
  return sql<PlanRow[]>`select * from plans where plan_pda = any(${planPdas}::text[]) and status <> 'ended'`;
}

/** Takes a look back that failed. */
export async function returnUnwatchedPlans(sql: Queryable, ids: string[]): Promise<void> {
  await sql`update plans set observed_at = null where id = any(${ids}::uuid[])`;
}

/** Moves a plan on, unless somebody else has meanwhile; returns whether it was moved. */
export async function movePlan(
  sql: Queryable,
  id: string,
  { from, to, endsAt }: { from: PlanStatus; to: PlanStatus; endsAt: Date | null },
): Promise<boolean> {
  const rows = await sql`
    update plans set status = ${to}, ends_at = ${endsAt}, updated_at = now() where id = ${id} and status = ${from} returning 1`;
  return rows.length > 0;
}
