// Problems in an app that need the merchant's attention: blocked plans and unpaid subscriptions.
import type { Queryable } from '../postgres/connect.ts';

/** Maximum number of subscriptions to count. */
const MAX_COUNTED = 1000;

export interface BlockedPlanRow {
  id: string;
  name: string;
  collectionBlockedReason: string;
}

/** Lists the app's plans whose payments cannot be collected. */
export function listBlockedPlans(sql: Queryable, appId: string): Promise<BlockedPlanRow[]> {
  return sql<BlockedPlanRow[]>`
    select id, name, collection_blocked_reason from plans
    where app_id = ${appId} and collection_blocked_reason is not null order by id desc limit 20`;
}

/**
 * Counts the app's past-due subscriptions (`pastDue`), and the subscriptions to its plans that are
 * live on chain but not registered with the service (`unregistered`).
 */
export async function countUnpaid(
  sql: Queryable,
  appId: string,
): Promise<{ pastDue: number; unregistered: number }> {
  const [row] = await sql<{ pastDue: number; unregistered: number }[]>`
    select (
      select count(*)::int from (
        select from subscriptions where app_id = ${appId} and status = 'past_due'
          limit ${MAX_COUNTED}
      ) as counted
    ) as past_due, (
      select count(*)::int from (
        select from unregistered_subscriptions where app_id = ${appId} limit ${MAX_COUNTED}
      ) as counted
    ) as unregistered`;
  return row ?? { pastDue: 0, unregistered: 0 };
}
