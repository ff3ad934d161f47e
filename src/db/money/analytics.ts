// Daily analytics of an app, or of one plan of it, computed from subscriptions, payments and
// refunds.
import type { Queryable } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';

/**
 * Figures of one UTC day. The first and the last day count only the part inside the requested
 * range. Amounts are sums of base units, as text because a sum can exceed 2^63.
 */
export interface DayRow {
  day: Date;
  /** Active subscriptions at the end of the day. */
  active: number;
  /** Past-due subscriptions at the end of the day. */
  pastDue: number;
  /** Active and past-due subscriptions at the start of the day. */
  liveBefore: number;
  cancelled: number;
  expired: number;
  new: number;
  /**
   * Monthly recurring revenue at the end of the day: the sum over all active and past-due
   * subscriptions, including paused ones. Each amount is converted to a month of 730 hours.
   */
  mrr: string;
  /** Monthly recurring revenue at the start of the day. */
  mrrBefore: string;
  /**
   * Parts of the day's change: mrr = mrrBefore + new + reactivation + expansion - contraction -
   * churn.
   */
  mrrNew: string;
  mrrReactivation: string;
  mrrExpansion: string;
  mrrContraction: string;
  mrrChurn: string;
  gross: string;
  fees: string;
  net: string;
  /** Sum of the refunds whose transfers have a block time on this day. */
  refunded: string;
  paymentsSucceeded: number;
  paymentsFailed: number;
}

/**
 * The rows that the analytics count: rows in the range [from, to), and only rows of one plan if
 * `planId` is set.
 */
export interface Selection {
  from: Date;
  to: Date;
  planId?: string | undefined;
}

interface Range extends Selection {
  untilNow: boolean;
}

/**
 * SQL for the start of a subscription `s`. A subscription made by a change of plan starts at
 * `starts_at`.
 */
const beginOf = (sql: Queryable) => sql`coalesce(s.starts_at, s.created_at)`;
const endOf = (sql: Queryable) => sql`least(s.ended_at, s.replaced_at)`;

/** SQL for the id of the plan `planId`. The result is empty if the plan belongs to another app. */
const planOf = (sql: Queryable, appId: string, planId: string) =>
  sql`(select id from plans where id = ${planId} and app_id = ${appId})`;

/**
 * SQL condition: the subscription has begun, or can still begin. A subscription made by a change of
 * plan can have a `starts_at` after its creation. A subscription that ends or is replaced before
 * its `starts_at` never begins.
 */
const hasBegun = (sql: Queryable, table: 's' | 'o') => {
  const of = sql(table);
  return sql`(least(${of}.ended_at, ${of}.replaced_at) is null
    or (${of}.starts_at is null and ${of}.replaced_by is null)
    or least(${of}.ended_at, ${of}.replaced_at) > coalesce(${of}.starts_at, ${of}.created_at))`;
};

/**
 * SQL condition: the subscription `s` belongs to the app (and to the selected plan) and is live at
 * some time of the range.
 */
const livingIn = (sql: Queryable, appId: string, { from, to, planId }: Selection): Fragment => sql`
  s.app_id = ${appId} and s.created_at < ${to} and ${beginOf(sql)} < ${to}
    ${planId === undefined ? sql`` : sql`and s.plan_id = ${planOf(sql, appId, planId)}`}
    and (${endOf(sql)} is null or ${endOf(sql)} >= ${from}) and ${hasBegun(sql, 's')}`;

/**
 * CTEs for failed payments. `starts`: subscriptions whose latest payment before the range failed.
 * `shaky`: the subscriptions of `starts`, and subscriptions with a failed payment in the range.
 * Only subscriptions of `shaky` can become past due or recover in the range. The condition "failed
 * or attempt > 1" lets Postgres use the index payments_troubled. Payments that succeeded at the
 * first attempt are not in this index, so `starts` looks them up per subscription.
 */
function failuresOf(sql: Queryable, appId: string, selection: Selection): Fragment {
  const { from, to } = selection;
  return sql`
    troubles as materialized (
      select subscription_id, max(occurred_at) filter (where status = 'failed') as failed_at,
        max(occurred_at) filter (where status = 'succeeded') as paid_at
      from payments where app_id = ${appId} and (status = 'failed' or attempt > 1)
        and occurred_at < ${from}
      group by subscription_id
    ), starts as (
      select t.subscription_id as id from troubles t cross join lateral (
        select from subscriptions s
        where s.id = t.subscription_id and ${livingIn(sql, appId, selection)} limit 1
      ) as living
      where t.failed_at > coalesce(t.paid_at, '-infinity') and not exists (
        select from payments p where p.subscription_id = t.subscription_id
          and p.status = 'succeeded' and p.occurred_at >= t.failed_at and p.occurred_at < ${from}
      )
    ), shaky as (
      select id from starts
      union
      select subscription_id from payments where app_id = ${appId} and status = 'failed'
        and (status = 'failed' or attempt > 1) and occurred_at >= ${from} and occurred_at < ${to}
    )`;
}

/**
 * SQL for the monthly amount of the subscription that `s` replaces, or 0 if `s` replaces none. If
 * the replaced subscription never began, the subscription that it had replaced counts instead. For
 * the figures of one plan the amount is always 0, because a subscription that comes from another
 * plan counts in full as an expansion.
 */
const replacedMonthly = (sql: Queryable, planId: string | undefined) =>
  planId !== undefined
    ? sql`0::numeric`
    : sql`case when s.replaces is null then 0 else coalesce((
          with recursive earlier as (
            select o.replaces, o.amount, o.period_hours, ${hasBegun(sql, 'o')} as has_begun
            from subscriptions o where o.id = s.replaces
            union all
            select o.replaces, o.amount, o.period_hours, ${hasBegun(sql, 'o')}
            from earlier e join subscriptions o on o.id = e.replaces where not e.has_begun
          )
          select amount * 730::numeric / period_hours from earlier where has_begun limit 1
        ), 0) end`;

/**
 * SQL for the id of the subscription that replaces `s`. If that subscription never began, its own
 * replacement counts instead. Null if no replacement began. The end of `s` then counts as churn.
 */
const replacedBy = (sql: Queryable) => sql`
  case when s.replaced_by is not null then (
    with recursive later as (
      select o.id, o.replaced_by, ${hasBegun(sql, 'o')} as has_begun
      from subscriptions o where o.id = s.replaced_by
      union all
      select o.id, o.replaced_by, ${hasBegun(sql, 'o')}
      from later l join subscriptions o on o.id = l.replaced_by where not l.has_begun
    )
    select id from later where has_begun limit 1
  ) end`;

/**
 * CTEs. `alive`: the number of subscriptions live at the start of the range, by amount and period.
 * `subs`: subscriptions that begin or end in the range, or may be past due in the range. `is_back`
 * is true when the wallet subscribes again after all its earlier subscriptions in the app have
 * ended.
 */
function livesOf(sql: Queryable, appId: string, selection: Selection): Fragment {
  const { from, to, planId } = selection;
  return sql`
    alive as (
      select s.amount, s.period_hours, count(*) as n from subscriptions s
      where ${livingIn(sql, appId, selection)} and ${beginOf(sql)} < ${from}
      group by s.amount, s.period_hours
    ), lives as (
      select s.id, s.status, s.subscriber_wallet, ${replacedBy(sql)} as replaced_by,
        s.amount * 730::numeric / s.period_hours as monthly, ${beginOf(sql)} as created_at,
        ${endOf(sql)} as ended_at, ${replacedMonthly(sql, planId)} as replaced_monthly,
        s.replaces is not null as is_change
      from subscriptions s where ${livingIn(sql, appId, selection)}
        and (${beginOf(sql)} >= ${from} or ${endOf(sql)} < ${to} or s.status = 'past_due'
          or s.id in (select id from shaky))
    ), subs as (
      select l.*, not is_change and l.created_at >= ${from} and exists (
        select from subscriptions e where e.app_id = ${appId}
          and e.subscriber_wallet = l.subscriber_wallet and e.id <> l.id
          and least(e.ended_at, e.replaced_at) <= l.created_at
      ) and not exists (
        select from subscriptions e where e.app_id = ${appId}
          and e.subscriber_wallet = l.subscriber_wallet and e.id <> l.id
          and coalesce(e.starts_at, e.created_at) < l.created_at
          and (least(e.ended_at, e.replaced_at) is null
            or least(e.ended_at, e.replaced_at) > l.created_at)
      ) as is_back
      from lives l
    )`;
}

/**
 * CTEs for the days of the range (`days`) and the sums of the subscription changes on each day
 * (`moves`). One row of `moves` sums the changes before the range; its `day` is null.
 */
function movesOf(sql: Queryable, appId: string, range: Range): Fragment {
  const { from, to, untilNow, planId } = range;
  // A change to another plan is a loss in the figures of one plan, but not in the figures of the
  // app.
  const lostByChange =
    planId === undefined ? sql`0` : sql`case when replaced_by is null then 0 else monthly end`;
  return sql`
    days as (
      select day from generate_series(date_trunc('day', ${from}::timestamptz, 'UTC'),
        ${to}::timestamptz - interval '1 microsecond',
        interval '1 day') as day
    ), ${failuresOf(sql, appId, range)}, ${livesOf(sql, appId, range)}, tries as (
      select p.subscription_id, p.occurred_at, p.status = 'failed' as failed,
        coalesce(lag(p.status = 'failed') over by_subscription, b.id is not null) as failed_before,
          lead(p.id) over by_subscription is null as latest
      from shaky join subs s on s.id = shaky.id join payments p on p.subscription_id = s.id
        left join starts b on b.id = s.id
      where p.occurred_at >= ${from} and p.occurred_at < ${to}
        and (s.ended_at is null or p.occurred_at <= s.ended_at)
      window by_subscription as (partition by p.subscription_id order by p.occurred_at, p.id)
    ), ends as (
      select s.ended_at, s.status, coalesce(t.failed, b.id is not null) as failed
      from subs s left join starts b on b.id = s.id left join tries t on t.subscription_id = s.id
        and t.latest
    ), changes (at, live, past_due, monthly, new, cancelled, expired, mrr_new, mrr_back, mrr_up,
      mrr_down, mrr_lost) as (
      select created_at, 1, 0, monthly, (not is_change)::int, 0, 0,
        case when not is_change and not is_back then monthly else 0 end,
        case when is_back then monthly else 0 end,
        case when is_change then greatest(monthly - replaced_monthly, 0) else 0 end,
        case when is_change then greatest(replaced_monthly - monthly, 0) else 0 end, 0
        from subs where created_at >= ${from}
      union all
      select ended_at, -1, 0, -monthly, 0, (replaced_by is null and status = 'cancelled')::int,
        (replaced_by is null and status = 'expired')::int, 0, 0, 0, ${lostByChange},
        case when replaced_by is null then monthly else 0 end
        from subs where ended_at is not null
      union all
      select ${from}::timestamptz - interval '1 microsecond', 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0
        from starts
      union all
      select occurred_at, 0, case when failed then 1 else -1 end, 0, 0, 0, 0, 0, 0, 0, 0, 0
        from tries where failed <> failed_before
      union all
      select ended_at, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0 from ends
        where ended_at is not null and failed
      union all
      select case when ${untilNow} then ${to}::timestamptz - interval '1 microsecond' else now()
        end, 0, case when status = 'past_due' then 1 else -1 end, 0, 0, 0, 0, 0, 0, 0, 0, 0
      from ends where ended_at is null and (status = 'past_due') <> failed
    ), moves as (
      select case when at < ${from}::timestamptz then null else date_trunc('day', at, 'UTC') end as
        day, sum(live) as live,
        sum(past_due) as past_due, sum(monthly) as monthly, sum(new) as new,
          sum(cancelled) as cancelled, sum(expired) as expired, sum(mrr_new) as mrr_new,
        sum(mrr_back) as mrr_back, sum(mrr_up) as mrr_up, sum(mrr_down) as mrr_down,
        sum(mrr_lost) as mrr_lost
      from changes where at < ${to}::timestamptz group by 1
    )`;
}

/** CTEs for the amounts collected (`money`) and refunded (`returned`) on each day. */
export function moneyOf(sql: Queryable, appId: string, { from, to, planId }: Selection): Fragment {
  const ofPlan = planId === undefined ? sql`` : sql`and plan_id = ${planOf(sql, appId, planId)}`;
  const ofPlanRefund =
    planId === undefined
      ? sql``
      : sql`and exists (select from payments p where p.id = payment_id
        and p.plan_id = ${planOf(sql, appId, planId)})`;
  return sql`
    money as (
      select date_bin('1 day', occurred_at, '2000-01-01T00:00:00Z') as day,
        sum(amount_gross) filter (where status = 'succeeded') as gross, sum(platform_fee)
          filter (where status = 'succeeded') as fees,
        sum(amount_net) filter (where status = 'succeeded') as net,
        count(*) filter (where status = 'succeeded') as succeeded, count(*)
          filter (where status = 'failed') as failed
      from payments where app_id = ${appId} and occurred_at >= ${from} and occurred_at < ${to}
        ${ofPlan} group by 1
    ), returned as (
      select date_trunc('day', occurred_at, 'UTC') as day, sum(amount) as refunded,
        count(*) as refunds
      from refunds where app_id = ${appId} and status = 'succeeded' and occurred_at >= ${from}
        and occurred_at < ${to} ${ofPlanRefund} group by 1
    )`;
}

/**
 * Returns one row for every day of [from, to), including days without activity. `untilNow` is true
 * if `to` is the present time. At the present time, a subscription's status decides whether it is
 * past due. At an earlier time, it is past due if its latest payment before that time failed.
 */
export function dailyFigures(sql: Queryable, appId: string, range: Range): Promise<DayRow[]> {
  return sql<DayRow[]>`
    with ${movesOf(sql, appId, range)}, ${moneyOf(sql, appId, range)}, before as (
      select coalesce(sum(live), 0) as live, coalesce(sum(past_due), 0) as past_due,
        coalesce(sum(monthly), 0) as monthly
      from (
        select live, past_due, monthly from moves where day is null
        union all
        select n, 0, n * (amount * 730::numeric / period_hours) from alive
      ) as earlier
    )
    select days.day,
      (before.live - before.past_due + sum(coalesce(moves.live - moves.past_due, 0))
        over so_far)::int as active,
      (before.past_due + sum(coalesce(moves.past_due, 0)) over so_far)::int as past_due,
      (before.live + sum(coalesce(moves.live, 0)) over so_far - coalesce(moves.live, 0))::int as
        live_before,
      coalesce(moves.cancelled, 0)::int as cancelled, coalesce(moves.expired, 0)::int as expired,
        coalesce(moves.new, 0)::int as new,
      trunc(before.monthly + sum(coalesce(moves.monthly, 0)) over so_far)::text as mrr,
      trunc(before.monthly + sum(coalesce(moves.monthly, 0)) over so_far
        - coalesce(moves.monthly, 0))::text as mrr_before,
      trunc(coalesce(moves.mrr_new, 0))::text as mrr_new,
      trunc(coalesce(moves.mrr_back, 0))::text as mrr_reactivation,
      trunc(coalesce(moves.mrr_up, 0))::text as mrr_expansion,
      trunc(coalesce(moves.mrr_down, 0))::text as mrr_contraction,
      trunc(coalesce(moves.mrr_lost, 0))::text as mrr_churn,
      coalesce(money.gross, 0)::text as gross, coalesce(money.fees, 0)::text as fees,
        coalesce(money.net, 0)::text as net, coalesce(returned.refunded, 0)::text as refunded,
      coalesce(money.succeeded, 0)::int as payments_succeeded, coalesce(money.failed, 0)::int as
        payments_failed
    from days cross join before
      left join moves on moves.day = days.day
      left join money on money.day = days.day left join returned on returned.day = days.day
    window so_far as (order by days.day)
    order by days.day`;
}
