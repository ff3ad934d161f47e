// The rent of sponsored accounts: selects the accounts that a keeper checks, and the accounts that
// a keeper closes.
import type { Queryable, Transaction } from './postgres/connect.ts';
import { lockSponsoring } from './sponsorships.ts';

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
   * The newest slot at which a keeper read the subscription. An RPC endpoint at an older slot may
   * not have the accounts yet. An account that is missing there may still exist, so its rent does
   * not count as returned.
   */
  observedSlot: bigint;
}

/**
 * Claims sponsorships whose rent has not come back, so that the caller checks their accounts. The
 * sponsorship that was not checked for the longest time comes first. Each is checked once a day, or
 * every minute if its subscription has ended. Two keepers never claim the same check.
 */
export function claimRentOut(sql: Queryable, limit: number): Promise<RentOut[]> {
  return sql<RentOut[]>`
    with due as (
      select s.offer_id from sponsorships s
      where s.state = 'landed' and ((s.authority_rent > 0 and s.authority_returned_at is null)
          or (s.subscription_rent > 0 and s.subscription_returned_at is null))
        and s.checked_at < now() - case when exists (select from subscriptions sub
            where sub.id = s.subscription_id and sub.status in ('cancelled', 'expired'))
          then interval '1 minute' else interval '1 day' end
      order by s.checked_at limit ${limit} for update of s skip locked
    ), claimed as (
      update sponsorships s set checked_at = now() from due where s.offer_id = due.offer_id
      returning s.offer_id, s.wallet, s.sponsor, s.subscription_pda, s.plan_id, s.authority_rent,
        s.authority_returned_at, s.subscription_rent, s.subscription_returned_at
    )
    select s.offer_id, s.wallet, s.sponsor, s.subscription_pda, p.plan_pda,
      s.authority_rent > 0 and s.authority_returned_at is null as authority,
      s.subscription_rent > 0 and s.subscription_returned_at is null as subscription,
      coalesce((select max(o.observed_slot) from subscriptions o
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
 * SQL for the fees of the closings that count against the budget: the account's last closing was
 * claimed in the last 24 hours, and the account's rent has not come back. Once the rent has come
 * back, the fees are covered, because the rent is higher.
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
