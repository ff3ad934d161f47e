// Facts that limit the sponsored rent of a merchant's subscribers: the lamports that an operator
// guarantees, the operator's approval, and the merchant's platform fees.
import type { Queryable } from '../postgres/connect.ts';

/** The facts that decide how much sponsored rent of a merchant's subscribers may be out. */
export interface MerchantStanding {
  /** Lamports that an operator guarantees; null without a guarantee. */
  vouched: bigint | null;
  /** Whether an operator approved the merchant (`billing merchants approve`). */
  isApproved: boolean;
  /** Platform fees of all payments to the merchant, in USDC base units. */
  fees: bigint;
}

/** The columns of a MerchantStanding, from `merchants m left join fees_brought f`. */
export const standingColumns = (sql: Queryable) => sql`
  m.sponsoring_lamports as vouched, m.approved_at is not null as is_approved,
  coalesce(f.fees, 0)::int8 as fees`;

/** Reads the standing of a merchant. Returns undefined when the merchant does not exist. */
export async function findStanding(
  sql: Queryable,
  merchantId: string,
): Promise<MerchantStanding | undefined> {
  const [row] = await sql<MerchantStanding[]>`
    select ${standingColumns(sql)} from merchants m left join fees_brought f on f.merchant_id = m.id
    where m.id = ${merchantId}`;
  return row;
}

/**
 * Sets the lamports that an operator guarantees; null removes the guarantee. Returns the previous
 * value, or undefined when the merchant does not exist.
 */
export async function updateSponsoring(
  sql: Queryable,
  id: string,
  lamports: bigint | null,
): Promise<{ before: bigint | null } | undefined> {
  const [row] = await sql<{ before: bigint | null }[]>`
    with old as (select id, sponsoring_lamports from merchants where id = ${id} for update)
    update merchants set sponsoring_lamports = ${lamports}, updated_at = now() from old
      where merchants.id = old.id
    returning old.sponsoring_lamports as before`;
  return row;
}

/**
 * Adds the fees of the payments of at most one more day to the sums by merchant. Leaves out the
 * last two minutes, because a transaction that is still open may add payments with earlier ids.
 * Only one keeper counts at a time. Returns whether more payments may be left to count.
 */
export async function countFees(sql: Queryable): Promise<boolean> {
  const rows = await sql`
    with step as (
      select until, least(until + interval '1 day', now() - interval '2 minutes') as next
      from fees_counted where until < now() - interval '3 minutes' for update skip locked
    ), added as (
      insert into merchant_fees (merchant_id, fees)
      select a.merchant_id, sum(p.platform_fee) from step join payments p
          on p.id >= first_id_at(step.until) and p.id < first_id_at(step.next)
        join apps a on a.id = p.app_id
      where p.status = 'succeeded' group by a.merchant_id
      on conflict (merchant_id) do update set fees = merchant_fees.fees + excluded.fees
    )
    update fees_counted set until = step.next from step
    returning step.next < now() - interval '3 minutes' as is_behind`;
  return rows.some(({ isBehind }) => isBehind === true);
}

/**
 * The merchant of a plan, with the merchant's and the app's settings for sponsored transactions.
 */
export interface SponsoredPlan {
  merchantId: string;
  /** The wallet with which the merchant signs in. */
  accountWallet: string;
  /** The merchant's own platform fee. Null means the operator's default fee. */
  feeBps: number | null;
  sponsorship: 'on' | 'off';
}

export async function findSponsoredPlan(
  sql: Queryable,
  planId: string,
): Promise<SponsoredPlan | undefined> {
  const [row] = await sql<SponsoredPlan[]>`
    select m.id as merchant_id, m.wallet as account_wallet, m.fee_bps, a.sponsorship
    from plans p join apps a on a.id = p.app_id join merchants m on m.id = a.merchant_id
    where p.id = ${planId}`;
  return row;
}
