// Ages of the sponsored rent that has not come back: the time since it was paid, and the time since
// its subscription ended.
import type { Queryable } from '../postgres/connect.ts';
import { authorityOut, isOut, subscriptionOut } from './sponsor-rent.ts';

/** Sums over the sponsorships in one range of ages (AGES) whose rent has not come back. */
export interface RentOfAge {
  /** The transactions of these sponsorships landed at least this many days ago. */
  days: number;
  /** Number of sign-ups with rent that has not come back. */
  signUps: number;
  /** Rent (lamports) of approvals. Only the wallet can close an approval and return its rent. */
  authorities: bigint;
  /**
   * Rent (lamports) of subscription accounts. When a subscription has expired, a keeper closes the
   * account and gets the rent back.
   */
  subscriptions: bigint;
}

/** Each range of ages starts at one of these numbers of days and ends at the next number. */
const AGES = [0, 30, 90, 365];
/**
 * Ranges of ages for overdue rent. Rent is overdue seven days after the end of its subscription.
 */
export const OVERDUE_AGES = [7, 30, 90, 365] as const;

/** SQL for ranges of ages: their first day, and `next_days`, the first day of the next range. */
const ranges = (sql: Queryable, days: readonly number[]) => sql`(
  select days, lead(days) over (order by days) as next_days from unnest(${[...days]}::int[]) as days)`;

/** Reads the rent that has not come back, by age. Returns an entry for each range. */
export async function readRentByAge(sql: Queryable): Promise<RentOfAge[]> {
  return sql<RentOfAge[]>`
    select age.days, count(s.offer_id)::int as sign_ups,
      coalesce(sum(s.authority_rent) filter (where s.authority_returned_at is null), 0)::int8
        as authorities,
      coalesce(sum(s.subscription_rent) filter (where s.subscription_returned_at is null), 0)::int8
        as subscriptions
    from ${ranges(sql, AGES)} as age left join (
      select offer_id, ended_at, authority_rent, authority_returned_at, subscription_rent,
        subscription_returned_at
      from sponsorships where ${isOut(sql)}
    ) as s on s.ended_at <= now() - age.days * interval '1 day'
      and (age.next_days is null or s.ended_at > now() - age.next_days * interval '1 day')
    group by age.days order by age.days`;
}

/**
 * SQL for the rent that has not come back although its subscription has ended. Gives the time of
 * the end and the rent of the subscription account. The rent of the approval is included when no
 * subscription of the wallet is live.
 */
export const rentOfEnded = (sql: Queryable) => sql`(
  select rent.ended_at, rent.authority, rent.subscription from sponsorships cross join lateral (
    select case when bool_and(ended_at is not null)
          filter (where subscription_pda = sponsorships.subscription_pda)
        then max(ended_at) filter (where subscription_pda = sponsorships.subscription_pda) end
        as account_ended,
      case when bool_and(ended_at is not null) then max(ended_at) end as wallet_ended
    from subscriptions where subscriber_wallet = sponsorships.wallet
  ) as own cross join lateral (values
    (account_ended, 0::int8, ${subscriptionOut(sql)}), (wallet_ended, ${authorityOut(sql)}, 0::int8)
  ) as rent (ended_at, authority, subscription)
  where ${isOut(sql)} and rent.ended_at is not null)`;

/** Sums over the rent of subscriptions that ended in one range of ages (OVERDUE_AGES). */
export interface OverdueRent {
  /** The subscriptions ended at least this many days ago. */
  days: number;
  /** Rent (lamports) of approvals whose wallets have no live subscription. */
  authorities: bigint;
  /**
   * Rent (lamports) of subscription accounts. Most of these accounts were never cancelled on chain,
   * so their rent comes back only when the wallet cancels or the plan ends.
   */
  subscriptions: bigint;
}

/** Reads the overdue rent by the time since the end. Returns an entry for each range. */
export function readOverdueRent(sql: Queryable): Promise<OverdueRent[]> {
  return sql<OverdueRent[]>`
    select age.days, coalesce(sum(over.authority), 0)::int8 as authorities,
      coalesce(sum(over.subscription), 0)::int8 as subscriptions
    from ${ranges(sql, OVERDUE_AGES)} as age left join ${rentOfEnded(sql)} as over
      on over.ended_at <= now() - age.days * interval '1 day'
        and (age.next_days is null or over.ended_at > now() - age.next_days * interval '1 day')
    group by age.days order by age.days`;
}
