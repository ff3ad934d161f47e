// Reads the costs of sponsored transactions, for budgets, metrics and `billing status`. The age of
// rent that has not come back is read by rent-ages.ts.
import type { Queryable } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';
import type { SponsoredPurpose } from './offers.ts';
import { OVERDUE_AGES, rentOfEnded } from './rent-ages.ts';
import { closingFees, isOut, out } from './sponsor-rent.ts';
import { findStanding, type MerchantStanding, standingColumns } from './sponsored-merchants.ts';

/**
 * The facts that decide whether the budgets allow an offer, including the facts about its merchant.
 * Amounts are in lamports.
 */
export interface SponsorUsage extends MerchantStanding {
  /**
   * Cost of sign-ups, resumes and repairs in the last 24 hours: in total, and for the offer's
   * merchant, wallet, network address and IPv6 /48.
   */
  total: bigint;
  /** The part of `total` that was signed for merchants that were new then. */
  newMerchants: bigint;
  merchant: bigint;
  wallet: bigint;
  address: bigint;
  /** 0 for an IPv4 address, like siteLeaving. */
  site: bigint;
  /**
   * Cost in the last 24 hours of cancellations, closings and revocations by wallets. Includes the
   * fee of a keeper's closing until the rent of the closed account has come back.
   */
  leaving: bigint;
  /** The parts of `leaving` for the offer's wallet, network address and IPv6 /48. */
  walletLeaving: bigint;
  addressLeaving: bigint;
  siteLeaving: bigint;
  /**
   * Rent that was paid for the merchant's subscribers and has not come back, plus the lamports that
   * the merchant's open sponsorships reserve.
   */
  merchantOut: bigint;
  /**
   * Whether a transaction of the wallet or the network address failed on chain in the last hour.
   */
  hasFailed: boolean;
  /** Whether a transaction of the wallet failed on chain in the last hour. */
  walletHasFailed: boolean;
  /**
   * Whether an open transaction of the wallet conflicts with the offer. A revocation or a change of
   * plan conflicts with all other transactions, because it concerns several accounts. Two sign-ups
   * conflict, and so do two transactions on the same account.
   */
  isUnderWay: boolean;
  /** Lamports that all open sponsorships of this sponsor reserve. */
  reserved: bigint;
}

/** Lamports that an ended sponsorship cost, or that an open sponsorship can cost. */
const cost = (sql: Queryable) => sql`
  case state when 'open' then reserved when 'landed' then fee + authority_rent + subscription_rent
    when 'failed' then fee else 0 end`;

const isLeaving = (sql: Queryable) => sql`purpose in ('cancel', 'close', 'revoke')`;

/** Used for a revocation, which belongs to no merchant. */
const NO_STANDING: MerchantStanding = { vouched: null, isApproved: false, fees: 0n };

/**
 * Returns the text with which the names of all addresses of the same IPv6 /48 begin. Returns null
 * for an IPv4 address. `address` is the name of a /56 (http/door/addresses.ts).
 */
function siteOf(address: string): string | null {
  return /^address:(?:[\da-f]{1,4}:){3}(?=[\da-f]{1,4}::\/\d+$)/.exec(address)?.[0] ?? null;
}

/**
 * Reads the usage that counts against the budgets of an offer. If `merchantId` is null, returns 0
 * for the merchant's usage.
 */
export async function readSponsorUsage(
  sql: Queryable,
  of: {
    merchantId: string | null;
    wallet: string;
    address: string;
    sponsor: string;
    purpose: SponsoredPurpose;
    subscriptionPda: string | null;
    /** The subscription that a change of plan replaces. */
    replaces: string | null;
  },
): Promise<SponsorUsage> {
  const site = siteOf(of.address);
  const merchant = of.merchantId === null ? undefined : await findStanding(sql, of.merchantId);
  const [row] = await sql<[Omit<SponsorUsage, keyof MerchantStanding>]>`
    select coalesce(sum(cost) filter (where not leaves), 0)::int8 as total,
      coalesce(sum(cost) filter (where not leaves and merchant_is_new), 0)::int8 as new_merchants,
      coalesce(sum(cost) filter (where not leaves and merchant_id = ${of.merchantId}::uuid), 0)::int8
        as merchant,
      coalesce(sum(cost) filter (where not leaves and wallet = ${of.wallet}), 0)::int8 as wallet,
      coalesce(sum(cost) filter (where not leaves and address = ${of.address}), 0)::int8 as address,
      coalesce(sum(cost) filter (where not leaves and starts_with(address, ${site}::text)),
        0)::int8 as site,
      coalesce(sum(cost) filter (where leaves and wallet = ${of.wallet}), 0)::int8
        as wallet_leaving,
      coalesce(sum(cost) filter (where leaves and address = ${of.address}), 0)::int8
        as address_leaving,
      coalesce(sum(cost) filter (where leaves and starts_with(address, ${site}::text)), 0)::int8
        as site_leaving,
      coalesce(sum(cost) filter (where leaves), 0)::int8 + ${closingFees(sql)} as leaving,
      coalesce(bool_or(state = 'failed' and ended_at > now() - interval '1 hour'
        and (wallet = ${of.wallet} or address = ${of.address})), false) as has_failed,
      coalesce(bool_or(state = 'failed' and ended_at > now() - interval '1 hour'
        and wallet = ${of.wallet}), false) as wallet_has_failed,
      coalesce(bool_or(state = 'open' and wallet = ${of.wallet}
        and (subscription_pda is null or ${of.subscriptionPda}::text is null
          or subscription_pda = ${of.subscriptionPda}
          or replaces is not null or ${of.replaces}::uuid is not null
          or (purpose = 'subscribe' and ${of.purpose} = 'subscribe'))), false) as is_under_way,
      coalesce(sum(reserved) filter (where state = 'open' and sponsor = ${of.sponsor}), 0)::int8
        as reserved,
      coalesce(sum(reserved) filter (where state = 'open' and merchant_id = ${of.merchantId}::uuid),
        0)::int8 + (select coalesce(sum(${out(sql)}), 0)::int8 from sponsorships
          where merchant_id = ${of.merchantId}::uuid and ${isOut(sql)}) as merchant_out
    from (
      select ${cost(sql)} as cost, ${isLeaving(sql)} as leaves, merchant_id, wallet, address,
        sponsor, state, purpose, subscription_pda, replaces, reserved, ended_at, merchant_is_new
      from sponsorships where created_at > now() - interval '24 hours'
        and state in ('open', 'landed', 'failed')
    ) as day`;
  return { ...row, ...(merchant ?? NO_STANDING) };
}

/** A merchant's limits for sponsored rent, and the rent that counts against them. */
export interface MerchantOut extends MerchantStanding {
  /** Rent (lamports) that has not come back, plus what the merchant's open sponsorships reserve. */
  out: bigint;
}

/** Reads a merchant's sponsored rent. Returns undefined when the merchant does not exist. */
export async function readMerchantOut(
  sql: Queryable,
  merchantId: string,
): Promise<MerchantOut | undefined> {
  const standing = await findStanding(sql, merchantId);
  if (standing === undefined) return undefined;
  const [row] = await sql<[{ out: bigint }]>`
    select (select coalesce(sum(reserved), 0)::int8 from sponsorships
        where merchant_id = ${merchantId} and state = 'open')
      + (select coalesce(sum(${out(sql)}), 0)::int8 from sponsorships
        where merchant_id = ${merchantId} and ${isOut(sql)}) as out`;
  return { ...standing, ...row };
}

/**
 * Lamports of a merchant's sponsorships, grouped by what happened to the lamports, and what bounds
 * them.
 */
export interface MerchantSponsoring extends MerchantStanding {
  /** The merchant's wallet. Null for revocations, because they belong to no merchant. */
  merchant: string | null;
  /** Network fees of landed transactions and of the keepers' closings. */
  spent: bigint;
  /** Maximum cost of open transactions. */
  reserved: bigint;
  /** Rent that has not come back. */
  out: bigint;
  /** Rent that came back. */
  returned: bigint;
  /** Network fees of transactions that failed on chain. */
  lost: bigint;
  /**
   * Lamports that count against SPONSOR_MERCHANT_LAMPORTS_PER_DAY: cost of sign-ups, resumes and
   * repairs in the last 24 hours.
   */
  day: bigint;
}

/** Reads the sponsoring of all merchants, the highest cost of the day first. */
export function readSponsoringByMerchant(sql: Queryable): Promise<MerchantSponsoring[]> {
  return sql<MerchantSponsoring[]>`
    select m.wallet as merchant, ${standingColumns(sql)},
      coalesce(sum(s.fee + s.closing_fee) filter (where s.state = 'landed'), 0)::int8 as spent,
      coalesce(sum(s.reserved) filter (where s.state = 'open'), 0)::int8 as reserved,
      coalesce(sum(${out(sql)}) filter (where s.state = 'landed'), 0)::int8 as out,
      coalesce(sum(s.authority_rent + s.subscription_rent - ${out(sql)})
        filter (where s.state = 'landed'), 0)::int8 as returned,
      coalesce(sum(s.fee) filter (where s.state = 'failed'), 0)::int8 as lost,
      coalesce(sum(${cost(sql)}) filter (where not ${isLeaving(sql)}
        and s.created_at > now() - interval '24 hours'), 0)::int8 as day
    from sponsorships s left join merchants m on m.id = s.merchant_id
      left join fees_brought f on f.merchant_id = m.id
    where s.state <> 'refused' group by m.id, f.fees
    order by day desc, out desc, merchant`;
}

const fees = (sql: Queryable) => sql`(s.fee + s.closing_fee)`;
const rent = (sql: Queryable) => sql`(s.authority_rent + s.subscription_rent)`;
/**
 * SQL for the cost (lamports) of one sponsorship `s` of sponsoredOf(). The cost is the network
 * fees, including those of keepers' closings, plus the rent. Rent counts even after it has come
 * back. An app's monthly statement shows this sum. The analytics show the fees and the rent
 * separately.
 */
export const sponsoredLamports = (sql: Queryable) => sql`(${fees(sql)} + ${rent(sql)})`;

/**
 * SQL for the sponsorships `s` of an app that landed or failed in the range, with their plans `p`.
 * The conditions on created_at exclude no further rows. They allow Postgres to use the index
 * sponsorships_by_time.
 */
export const sponsoredOf = (
  sql: Queryable,
  appId: string,
  { from, to }: { from: Date; to: Date },
): Fragment => sql`
  plans p join sponsorships s on s.plan_id = p.id
    where p.app_id = ${appId} and s.state in ('landed', 'failed')
      and s.created_at >= ${from}::timestamptz - interval '1 day' and s.created_at < ${to}
      and s.ended_at >= ${from} and s.ended_at < ${to}`;

/** Sponsored transactions of an app's subscribers in a range of time, and what they cost. */
export interface AppSponsoring {
  /** Sign-ups that landed. */
  subscriptions: number;
  /** Landed transactions, sign-ups included. */
  transactions: number;
  /** Transactions that failed on chain. */
  failed: number;
  /** Network fees in lamports of landed and failed transactions and of the keepers' closings. */
  lamportsFees: bigint;
  /** Rent in lamports of the accounts that were opened in the range. */
  lamportsRent: bigint;
  /** The part of `lamportsRent` that has come back by now. */
  lamportsReturned: bigint;
}

/**
 * Reads the sponsorships that ended in the range. Leaves out revocations, because they belong to no
 * app.
 */
export async function readAppSponsoring(
  sql: Queryable,
  appId: string,
  { from, to, planId }: { from: Date; to: Date; planId?: string | undefined },
): Promise<AppSponsoring> {
  const ofPlan = planId === undefined ? sql`` : sql`and p.id = ${planId}`;
  const [row] = await sql<[AppSponsoring]>`
    select (count(*) filter (where s.state = 'landed' and s.purpose = 'subscribe'))::int
        as subscriptions,
      (count(*) filter (where s.state = 'landed'))::int as transactions,
      (count(*) filter (where s.state = 'failed'))::int as failed,
      coalesce(sum(${fees(sql)}), 0)::int8 as lamports_fees,
      coalesce(sum(${rent(sql)}), 0)::int8 as lamports_rent,
      coalesce(sum(${rent(sql)} - ${out(sql)}), 0)::int8 as lamports_returned
    from ${sponsoredOf(sql, appId, { from, to })} ${ofPlan}`;
  return row;
}

/** Costs of sponsoring in the whole installation. */
export interface SponsoringFacts {
  /** Lamports that sponsoring cost in the last 24 hours, without `leaving`. */
  day: bigint;
  /** The part of `day` for transactions whose merchant was new when the keeper signed them. */
  newMerchants: bigint;
  /**
   * Lamports that were spent in the last 24 hours on cancellations, closings and revocations of
   * wallets. The fee of a keeper's closing counts here too while the account's rent has not come
   * back.
   */
  leaving: bigint;
  /**
   * Network fees of keepers' closings. Counts the accounts whose last closing began in the last 24
   * hours. If a keeper tried to close such an account before, the earlier fees are included.
   */
  closing: bigint;
  /** Rent that has not come back. */
  out: bigint;
  /**
   * The part of `out` that should have come back: rent of subscriptions that ended more than seven
   * days ago, and of approvals whose wallets have had no live subscription for seven days.
   */
  overdue: bigint;
  refused: number;
  failed: number;
}

export async function readSponsoringFacts(sql: Queryable): Promise<SponsoringFacts> {
  const [row] = await sql<[SponsoringFacts]>`
    select day.*, rent.* from (
      select coalesce(sum(${cost(sql)}) filter (where not ${isLeaving(sql)}), 0)::int8 as day,
        coalesce(sum(${cost(sql)}) filter (where not ${isLeaving(sql)} and merchant_is_new), 0)::int8
          as new_merchants,
        coalesce(sum(${cost(sql)}) filter (where ${isLeaving(sql)}), 0)::int8
          + ${closingFees(sql)} as leaving,
        (select coalesce(sum(closing_fee), 0)::int8 from sponsorships
          where closing_at > now() - interval '24 hours') as closing,
        (count(*) filter (where state = 'refused'))::int as refused,
        (count(*) filter (where state = 'failed'))::int as failed
      from sponsorships where created_at > now() - interval '24 hours'
    ) as day, (
      select coalesce(sum(${out(sql)}), 0)::int8 as out,
        (select coalesce(sum(authority + subscription), 0)::int8 from ${rentOfEnded(sql)} as over
          where ended_at <= now() - ${OVERDUE_AGES[0]} * interval '1 day') as overdue
      from sponsorships where ${isOut(sql)}
    ) as rent`;
  return row;
}

/**
 * Estimates the network fees (lamports) of the last week's transactions. Counts at most 100,000
 * transactions.
 */
export async function readWeekOfFees(sql: Queryable): Promise<bigint> {
  const [row] = await sql<[{ count: number }]>`
    select count(*)::int as count from (
      select from transactions where created_at > now() - interval '7 days'
        and id >= first_id_at(now() - interval '7 days') limit 100000
    ) as week`;
  return BigInt(row.count) * LAMPORTS_PER_TRANSACTION;
}

/** Estimated network fee of a transaction: one signature and a usual priority fee. */
const LAMPORTS_PER_TRANSACTION = 10_000n;
