// Plans that a keeper reads from the chain: when each plan is due, which plans are next, and which
// subscriptions wait for a plan.
import { secondsSince } from '../postgres/clock.ts';
import type { Queryable } from '../postgres/connect.ts';
import { planColumns, type PlanRow } from './plans.ts';

/**
 * When plans are due to be read. A pending plan is due when it is `pendingAgeSeconds` old, and
 * again whenever its age has doubled. Other plans are due at each Unix time that is a multiple of
 * `everySeconds` (for blocked plans, of `blockedSeconds`), so that many plans are due at the same
 * time and share RPC requests.
 */
export interface WatchTimes {
  everySeconds: number;
  blockedSeconds: number;
  pendingAgeSeconds: number;
}

/**
 * SQL for the time at which the plan `p` became due, if it is due. A plan without observed_at is
 * due since its creation, or since the end of its postponement.
 */
const dueAt = (
  sql: Queryable,
  { everySeconds, blockedSeconds, pendingAgeSeconds }: WatchTimes,
) => sql`(
  case when p.observed_at is null then coalesce(p.look_at, p.created_at)
    when p.status = 'pending' then p.observed_at + greatest(p.observed_at - p.created_at,
      ${pendingAgeSeconds} * interval '1 second')
    else now() - extract(epoch from now())::numeric
      % case when p.collection_blocked_reason is null then ${everySeconds}::int
        else ${blockedSeconds}::int end * interval '1 second' end)`;

/** SQL condition: the plan `p` is due. */
const isDue = (sql: Queryable, times: WatchTimes) => sql`(
  (p.observed_at is null or p.observed_at < ${dueAt(sql, times)})
    and ${dueAt(sql, times)} <= now())`;

/**
 * Returns plans that are due to be read from the chain, and sets their observed_at to the present
 * time. At most half of them are pending plans, in turns of merchants, because pending plans cost
 * nothing. The others cost their merchants rent on chain, and a keeper reads them until none is
 * due, so they need no turns.
 */
export function takeUnwatchedPlans(
  sql: Queryable,
  { limit, ...times }: WatchTimes & { limit: number },
): Promise<PlanRow[]> {
  return sql<PlanRow[]>`
    with pending as (
      select p.id, p.observed_at,
        row_number() over (partition by a.merchant_id order by p.observed_at nulls first, p.id)
          as turn
      from plans p join apps a on a.id = p.app_id
      where p.status = 'pending' and ${isDue(sql, times)}
    ), chosen as (
      (select id from pending order by turn, observed_at nulls first, id
        limit ${Math.ceil(limit / 2)})
      union all
      (select p.id from plans p where p.status <> 'ended' and p.status <> 'pending'
          and ${isDue(sql, times)}
        order by p.observed_at nulls first, p.id limit ${limit})
    ), taken (plan_id) as (
      select p.id from plans p where p.id = any(array(select id from chosen limit ${limit}))
        and ${isDue(sql, times)} for update skip locked
    )
    update plans p set observed_at = now(), look_at = null from taken where p.id = plan_id
    returning ${planColumns(sql)}`;
}

/** Returns for how many seconds the oldest plan has been due to be read; 0 if none is. */
export async function readOldestPlan(sql: Queryable, times: WatchTimes): Promise<number> {
  const [row] = await sql<{ seconds: number }[]>`
    select ${secondsSince(sql, sql`min(${dueAt(sql, times)})`)} as seconds
    from plans p where p.status <> 'ended' and ${isDue(sql, times)}`;
  return row?.seconds ?? 0;
}

/** Seconds for which a plan that could not be read is postponed. */
const PUT_OFF_SECONDS = 10;

/**
 * Postpones plans whose accounts could not be read or are missing at one RPC endpoint, so that they
 * do not delay the others.
 */
export async function putOffPlans(sql: Queryable, ids: readonly string[]): Promise<void> {
  await sql`
    update plans set observed_at = null, look_at = now() + ${PUT_OFF_SECONDS} * interval '1 second'
    where id = any(${[...ids]}::uuid[])`;
}

/** Ends each given plan that is still pending 7 days after its creation. */
export async function endAbandonedPlans(sql: Queryable, ids: string[]): Promise<void> {
  await sql`
    update plans set status = 'ended', updated_at = now()
    where id = any(${ids}::uuid[]) and status = 'pending' and created_at < now() - interval
      '7 days'`;
}

/** Maximum number of rows that one statement of releaseWaiting makes due. */
const RELEASED_AT_ONCE = 20_000;

/**
 * After a plan was unblocked, makes its waiting subscriptions due. A subscription waits if its next
 * payment is due by this chain time but its due_at is later. Returns the number of subscriptions
 * that were made due. The caller must hold the plan's lock.
 */
export async function releaseWaiting(
  sql: Queryable,
  planId: string,
  chainNow: Date,
): Promise<number> {
  let released = 0;
  for (;;) {
    const { count } = await sql`
      with waiting as (
        select w.subscription_id
        from subscriptions s join subscription_work w on w.subscription_id = s.id
        where s.plan_id = ${planId} and s.status in ('active', 'past_due')
          and s.next_payment_due <= ${chainNow} and w.due_at > ${chainNow}
        order by s.id limit ${RELEASED_AT_ONCE} for update of w
      )
      update subscription_work w set due_at = ${chainNow} from waiting
      where w.subscription_id = waiting.subscription_id`;
    released += count;
    if (count < RELEASED_AT_ONCE) return released;
  }
}
