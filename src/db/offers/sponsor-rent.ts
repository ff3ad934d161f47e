// The rent of sponsored accounts: selects the accounts that a keeper checks, and the accounts that
// a keeper closes.
import { secondsSince } from '../postgres/clock.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { lockSponsoring } from './sponsorships.ts';

/** Rent (lamports) of the wallet's approval; 0 once the rent has come back. */
export const authorityOut = (sql: Queryable) => sql`
  case when authority_returned_at is null then authority_rent else 0 end`;
export const subscriptionOut = (sql: Queryable) => sql`
  case when subscription_returned_at is null then subscription_rent else 0 end`;
export const out = (sql: Queryable) => sql`(${authorityOut(sql)} + ${subscriptionOut(sql)})`;

/**
 * Whether a sponsorship has rent that has not come back. The indexes sponsorships_out and
 * sponsorships_out_by_merchant have the same condition.
 */
export const isOut = (sql: Queryable) => sql`
  state = 'landed' and ((authority_rent > 0 and authority_returned_at is null)
    or (subscription_rent > 0 and subscription_returned_at is null))`;

/** A sponsorship with rent that has not come back. */
export interface RentOut {
  offerId: string;
  wallet: string;
  sponsor: string;
  subscriptionPda: string | null;
  planPda: string | null;
  /** True if the rent of the wallet's approval has not come back. */
  authority: boolean;
  /** True if the rent of the subscription account has not come back. */
  subscription: boolean;
  /**
   * Time since which no registration of the subscription account is live or has paid time. Null
   * while a registration is.
   */
  endedAt: Date | null;
  /**
   * The newest slot at which a keeper read the subscription. An account that is missing at an older
   * slot may not be created yet at that endpoint, so its rent does not count as returned.
   */
  observedSlot: bigint;
}

/**
 * SQL for the time of the next check of the accounts of the sponsorship `s`: daily while its
 * subscription lives. After the end, the first check is after a minute, and the interval grows to a
 * tenth of the time since the end, because an account that only its wallet can cancel may stay open
 * for ever.
 */
const checkAt = (sql: Queryable) => sql`(
  s.checked_at + coalesce((
    select least(interval '1 day', greatest(interval '1 minute', (now() - sub.stopped_at) / 10))
    from subscriptions sub where sub.id = s.subscription_id and sub.ended_at is not null
  ), interval '1 day'))`;

/** SQL condition: the rent of the sponsorship `s` has not come back and its check is due. */
const isDue = (sql: Queryable) => sql`(
  s.state = 'landed' and ((s.authority_rent > 0 and s.authority_returned_at is null)
      or (s.subscription_rent > 0 and s.subscription_returned_at is null))
    and s.checked_at < now() - interval '1 minute' and ${checkAt(sql)} < now())`;

/** Returns for how many seconds the oldest check has been due; 0 if none is. */
export async function readOldestRentCheck(sql: Queryable): Promise<number> {
  const [row] = await sql<{ seconds: number }[]>`
    select ${secondsSince(sql, sql`min(${checkAt(sql)})`)} as seconds
    from sponsorships s where ${isDue(sql)}`;
  return row?.seconds ?? 0;
}

/**
 * Claims sponsorships whose rent has not come back, so that the caller checks their accounts.
 * Merchants take turns, each with the sponsorship that was not checked for the longest time. Two
 * keepers never claim the same check.
 */
export function claimRentOut(sql: Queryable, limit: number): Promise<RentOut[]> {
  return sql<RentOut[]>`
    with due as (
      select s.offer_id from sponsorships s where s.offer_id = any(array(
          select offer_id from (
            select s.offer_id, s.checked_at,
              row_number() over (partition by s.merchant_id order by s.checked_at) as turn
            from sponsorships s where ${isDue(sql)}
          ) as turns order by turn, checked_at limit ${limit}))
        and ${isDue(sql)} for update of s skip locked
    ), claimed as (
      update sponsorships s set checked_at = now() from due where s.offer_id = due.offer_id
      returning s.offer_id, s.wallet, s.sponsor, s.subscription_pda, s.plan_id, s.authority_rent,
        s.authority_returned_at, s.subscription_rent, s.subscription_returned_at
    )
    select s.offer_id, s.wallet, s.sponsor, s.subscription_pda, p.plan_pda,
      s.authority_rent > 0 and s.authority_returned_at is null as authority,
      s.subscription_rent > 0 and s.subscription_returned_at is null as subscription,
      (select case when bool_and(o.ended_at is not null)
          then max(greatest(o.ended_at, w.paid_through)) end
        from subscriptions o join subscription_work w on w.subscription_id = o.id
        where o.subscription_pda = s.subscription_pda) as ended_at,
      coalesce((select max(w.observed_slot)
        from subscriptions o join subscription_work w on w.subscription_id = o.id
        where o.subscription_pda = s.subscription_pda), 0)::int8 as observed_slot
    from claimed s left join plans p on p.id = s.plan_id`;
}

/** Makes a claimed check due again in a minute, because its result is in doubt. */
export async function recheckRent(sql: Queryable, offerIds: readonly string[]): Promise<void> {
  if (offerIds.length === 0) return;
  await sql`
    update sponsorships set checked_at = now() - interval '1 day' + interval '1 minute'
    where offer_id = any(${[...offerIds]}::uuid[])`;
}

/**
 * Records which rent of the sponsorship has come back. A return time that is already stored is
 * kept.
 */
export async function markReturned(
  sql: Queryable,
  offerId: string,
  { authority, subscription }: { authority: boolean; subscription: boolean },
): Promise<void> {
  await sql`
    update sponsorships set
      authority_returned_at = case when ${authority} then coalesce(authority_returned_at, now())
        else authority_returned_at end,
      subscription_returned_at = case when ${subscription}
        then coalesce(subscription_returned_at, now()) else subscription_returned_at end
    where offer_id = ${offerId} and state = 'landed'`;
}

/**
 * SQL for the fees of closings that count against the budget: the account's last closing was
 * claimed in the last 24 hours, and the account's rent has not come back. Returned rent covers the
 * fees, because it is higher.
 */
export const closingFees = (sql: Queryable) => sql`(
  select coalesce(sum(closing_fee), 0)::int8 from sponsorships
  where closing_at > now() - interval '24 hours' and subscription_returned_at is null)`;

/**
 * Claims closings of subscription accounts. Each closing costs `fee` lamports. Claims a closing
 * only if the sum of closingFees() and the fees of the new closings stays within `budget` lamports.
 * Returns the addresses that the caller may close: (1) claimed addresses, (2) addresses whose rent
 * no sponsorship paid. An address can be claimed again after five minutes. This wait doubles with
 * each further claim, up to a day.
 */
export async function claimClosings(
  tx: Transaction,
  addresses: readonly string[],
  { fee, budget }: { fee: bigint; budget: bigint },
): Promise<ReadonlySet<string>> {
  await lockSponsoring(tx);
  const rows = await tx<{ address: string }[]>`
    with sponsored as (
      select offer_id, subscription_pda, closing_at is null or closing_at
        + least(interval '5 minutes' * power(2, least(closings, 10) - 1), interval '1 day') < now()
        as is_free
      from sponsorships
      where subscription_pda = any(${[...addresses]}::text[]) and state = 'landed'
        and subscription_rent > 0 and subscription_returned_at is null
    ), free as (
      select offer_id, row_number() over (order by offer_id) as place from sponsored where is_free
    ), claimed as (
      update sponsorships s set closings = s.closings + 1, closing_at = now(),
        closing_fee = s.closing_fee + ${fee}
      from free where s.offer_id = free.offer_id
        and ${closingFees(tx)} + free.place * ${fee}::int8 <= ${budget}
      returning s.subscription_pda
    )
    select subscription_pda as address from claimed
    union select address from unnest(${[...addresses]}::text[]) as address
      where not exists (select from sponsored where subscription_pda = address)`;
  return new Set(rows.map(({ address }) => address));
}
