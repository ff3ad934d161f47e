// Daily analytics of an app, computed from subscriptions, payments and refunds.
import type { Queryable } from './postgres/connect.ts';
import type { Fragment } from './postgres/lists.ts';

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
   * Monthly recurring revenue at the end of the day: the sum of the amounts of all active and
   * past-due subscriptions, each converted to a month of 730 hours.
   */
  mrr: string;
  gross: string;
  fees: string;
  net: string;
  /** Sum of the refunds whose transfers have a block time on this day. */
  refunded: string;
  paymentsSucceeded: number;
  paymentsFailed: number;
}

interface Range {
  from: Date;
  to: Date;
  untilNow: boolean;
}

/**
 * CTEs for the days of the range (`days`) and the sums of the subscription changes on each day
 * (`moves`). One row of `moves` sums all changes before the range; its `day` is null.
 */
function movesOf(sql: Queryable, appId: string, { from, to, untilNow }: Range): Fragment {
  return sql`
    days as (
      select day from generate_series(date_trunc('day', ${from}::timestamptz, 'UTC'),
        ${to}::timestamptz - interval '1 microsecond',
        interval '1 day') as day
    ), subs as (
      select id, status, created_at, amount * 730::numeric / period_hours as monthly, ended_at
      from subscriptions where app_id = ${appId} and created_at < ${to}
        and (ended_at is null or ended_at >= ${from})
    ), starts as (
      select s.id, coalesce(
        (select max(occurred_at) from payments where subscription_id = s.id and status = 'failed'
          and occurred_at < ${from})
          > coalesce((select max(occurred_at) from payments where subscription_id = s.id
            and status = 'succeeded' and occurred_at < ${from}), '-infinity'),
        false) as failed
      from subs s
    ), tries as (
      select p.subscription_id, p.occurred_at, p.status = 'failed' as failed,
        coalesce(lag(p.status = 'failed') over by_subscription, b.failed) as failed_before,
          lead(p.id) over by_subscription is null as latest
      from payments p join subs s on s.id = p.subscription_id join starts b on b.id = s.id
      where p.app_id = ${appId} and p.occurred_at >= ${from} and p.occurred_at < ${to}
        and (s.ended_at is null or p.occurred_at <= s.ended_at)
      window by_subscription as (partition by p.subscription_id order by p.occurred_at, p.id)
    ), ends as (
      select s.ended_at, s.status, coalesce(t.failed, b.failed) as failed
      from subs s join starts b on b.id = s.id left join tries t on t.subscription_id = s.id
        and t.latest
    ), changes (at, live, past_due, monthly, new, cancelled, expired) as (
      select created_at, 1, 0, monthly, 1, 0, 0 from subs
      union all
      select ended_at, -1, 0, -monthly, 0, (status = 'cancelled')::int, (status = 'expired')::int
        from subs where ended_at is not null
      union all
      select ${from}::timestamptz - interval '1 microsecond', 0, 1, 0, 0, 0, 0 from starts
        where failed
      union all
      select occurred_at, 0, case when failed then 1 else -1 end, 0, 0, 0, 0 from tries
        where failed <> failed_before
      union all
      select ended_at, 0, -1, 0, 0, 0, 0 from ends where ended_at is not null and failed
      union all
      select case when ${untilNow} then ${to}::timestamptz - interval '1 microsecond' else now()
        end, 0, case when status = 'past_due' then 1 else -1 end, 0, 0, 0, 0
      from ends where ended_at is null and (status = 'past_due') <> failed
    ), moves as (
      select case when at < ${from}::timestamptz then null else date_trunc('day', at, 'UTC') end as
        day, sum(live) as live,
        sum(past_due) as past_due, sum(monthly) as monthly, sum(new) as new,
          sum(cancelled) as cancelled, sum(expired) as expired
      from changes where at < ${to}::timestamptz group by 1
    )`;
}

/** CTEs for the amounts collected (`money`) and refunded (`returned`) on each day. */
function moneyOf(sql: Queryable, appId: string, { from, to }: Range): Fragment {
  return sql`
    money as (
      select date_trunc('day', occurred_at, 'UTC') as day,
        sum(amount_gross) filter (where status = 'succeeded') as gross, sum(platform_fee)
          filter (where status = 'succeeded') as fees,
        sum(amount_net) filter (where status = 'succeeded') as net,
        count(*) filter (where status = 'succeeded') as succeeded, count(*)
          filter (where status = 'failed') as failed
      from payments where app_id = ${appId} and occurred_at >= ${from} and occurred_at < ${to}
        group by 1
    ), returned as (
      select date_trunc('day', occurred_at, 'UTC') as day, sum(amount) as refunded
      from refunds where app_id = ${appId} and status = 'succeeded' and occurred_at >= ${from}
        and occurred_at < ${to} group by 1
    )`;
}

/**
 * Returns one row for every day of [from, to), including days without activity. A subscription
 * counts as past due while its latest payment has failed. From the present time on, the
 * subscription's current status decides instead. If `untilNow` is set, the end of the range counts
 * as the present time.
 */
export function dailyFigures(sql: Queryable, appId: string, range: Range): Promise<DayRow[]> {
  return sql<DayRow[]>`
    with ${movesOf(sql, appId, range)}, ${moneyOf(sql, appId, range)}, before as (
      select coalesce(sum(live), 0) as live, coalesce(sum(past_due), 0) as past_due,
        coalesce(sum(monthly), 0) as monthly from moves where day is null
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
