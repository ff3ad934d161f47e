// Reads the costs of sponsored transactions, for budgets, metrics and `billing status`.
import type { Queryable } from './postgres/connect.ts';

/** The facts that decide whether the budgets allow an offer. Amounts are in lamports. */
export interface SponsorUsage {
  /** Cost of sign-ups, resumes and repairs in the last 24 hours. */
  total: bigint;
  merchant: bigint;
  wallet: bigint;
  address: bigint;
  /** Cost of cancellations, closings and revocations in the last 24 hours. */
  leaving: bigint;
  /** The parts of `leaving` for this wallet and this network address. */
  walletLeaving: bigint;
  addressLeaving: bigint;
  /**
   * Unreturned rent of the merchant's subscribers, plus the lamports that the merchant's open
   * sponsorships reserve.
   */
  merchantOut: bigint;
  /**
   * Whether a transaction of the wallet or the network address failed on chain in the last hour.
   */
  hasFailed: boolean;
  /** Whether the wallet has an open sponsored sign-up. */
  isSigningUp: boolean;
  /** Lamports that all open sponsorships of this sponsor reserve. */
  reserved: bigint;
}

/** Lamports that an ended sponsorship cost, or that an open sponsorship can cost. */
const cost = (sql: Queryable) => sql`
  case state when 'open' then reserved when 'landed' then fee + authority_rent + subscription_rent
    when 'failed' then fee else 0 end`;

/** The part of a sponsorship's rent that has not come back. */
const out = (sql: Queryable) => sql`
  (case when authority_returned_at is null then authority_rent else 0 end
    + case when subscription_returned_at is null then subscription_rent else 0 end)`;

/**
 * Whether a sponsorship has rent that has not come back. The indexes sponsorships_out and
 * sponsorships_out_by_merchant have the same condition.
 */
const isOut = (sql: Queryable) => sql`
  state = 'landed' and ((authority_rent > 0 and authority_returned_at is null)
    or (subscription_rent > 0 and subscription_returned_at is null))`;

const isLeaving = (sql: Queryable) => sql`purpose in ('cancel', 'close', 'revoke')`;

/**
 * Reads the usage that counts against the budgets of an offer. With `merchantId` null, the usage of
 * the merchant is 0.
 */
export async function readSponsorUsage(
  sql: Queryable,
  of: {
    merchantId: string | null;
    wallet: string;
    address: string;
    sponsor: string;
  },
): Promise<SponsorUsage> {
  const [row] = await sql<[SponsorUsage]>`
    select coalesce(sum(cost) filter (where not leaves), 0)::int8 as total,
      coalesce(sum(cost) filter (where not leaves and merchant_id = ${of.merchantId}::uuid), 0)::int8
        as merchant,
      coalesce(sum(cost) filter (where not leaves and wallet = ${of.wallet}), 0)::int8 as wallet,
      coalesce(sum(cost) filter (where not leaves and address = ${of.address}), 0)::int8 as address,
      coalesce(sum(cost) filter (where leaves and wallet = ${of.wallet}), 0)::int8
        as wallet_leaving,
      coalesce(sum(cost) filter (where leaves and address = ${of.address}), 0)::int8
        as address_leaving,
      coalesce(sum(cost) filter (where leaves), 0)::int8 as leaving,
      coalesce(bool_or(state = 'failed' and ended_at > now() - interval '1 hour'
        and (wallet = ${of.wallet} or address = ${of.address})), false) as has_failed,
      coalesce(bool_or(state = 'open' and purpose = 'subscribe' and wallet = ${of.wallet}), false)
        as is_signing_up,
      coalesce(sum(reserved) filter (where state = 'open' and sponsor = ${of.sponsor}), 0)::int8
        as reserved,
      coalesce(sum(reserved) filter (where state = 'open' and merchant_id = ${of.merchantId}::uuid),
        0)::int8 + (select coalesce(sum(${out(sql)}), 0)::int8 from sponsorships
          where merchant_id = ${of.merchantId}::uuid and ${isOut(sql)}) as merchant_out
    from (
      select ${cost(sql)} as cost, ${isLeaving(sql)} as leaves, merchant_id, wallet, address,
        sponsor, state, purpose, reserved, ended_at
      from sponsorships where created_at > now() - interval '24 hours'
        and state in ('open', 'landed', 'failed')
    ) as day`;
  return row;
}

/** Lamports of a merchant's sponsorships, grouped by what happened to the lamports. */
export interface MerchantSponsoring {
  /** The merchant's wallet. Null for revocations, because they belong to no merchant. */
  merchant: string | null;
  /** Network fees of transactions that landed. */
  spent: bigint;
  /** Maximum cost of open transactions. */
  reserved: bigint;
  /** Rent that has not come back. */
  out: bigint;
  /** Rent that came back. */
  returned: bigint;
  /** Network fees of transactions that failed on chain. */
  lost: bigint;
}

export function readSponsoringByMerchant(sql: Queryable): Promise<MerchantSponsoring[]> {
  return sql<MerchantSponsoring[]>`
    select m.wallet as merchant,
      coalesce(sum(s.fee) filter (where s.state = 'landed'), 0)::int8 as spent,
      coalesce(sum(s.reserved) filter (where s.state = 'open'), 0)::int8 as reserved,
      coalesce(sum(${out(sql)}) filter (where s.state = 'landed'), 0)::int8 as out,
      coalesce(sum(s.authority_rent + s.subscription_rent - ${out(sql)})
        filter (where s.state = 'landed'), 0)::int8 as returned,
      coalesce(sum(s.fee) filter (where s.state = 'failed'), 0)::int8 as lost
    from sponsorships s left join merchants m on m.id = s.merchant_id
    where s.state <> 'refused' group by m.wallet`;
}

/** Costs of sponsoring in the whole installation. */
export interface SponsoringFacts {
  /** Lamports that sponsoring cost in the last 24 hours, without `leaving`. */
  day: bigint;
  /** Lamports that cancellations, closings and revocations cost in the last 24 hours. */
  leaving: bigint;
  /** Rent that has not come back. */
  out: bigint;
  /** The part of `out` whose subscription ended more than seven days ago. */
  overdue: bigint;
  refused: number;
  failed: number;
}

export async function readSponsoringFacts(sql: Queryable): Promise<SponsoringFacts> {
  const [row] = await sql<[SponsoringFacts]>`
    select day.*, rent.* from (
      select coalesce(sum(${cost(sql)}) filter (where not ${isLeaving(sql)}), 0)::int8 as day,
        coalesce(sum(${cost(sql)}) filter (where ${isLeaving(sql)}), 0)::int8 as leaving,
        (count(*) filter (where state = 'refused'))::int as refused,
        (count(*) filter (where state = 'failed'))::int as failed
      from sponsorships where created_at > now() - interval '24 hours'
    ) as day, (
      select coalesce(sum(${out(sql)}), 0)::int8 as out,
        coalesce(sum(${out(sql)}) filter (where sub.ended_at < now() - interval '7 days'), 0)::int8
          as overdue
      from sponsorships left join lateral (
        select max(s.ended_at) as ended_at from subscriptions s
        where s.subscription_pda = sponsorships.subscription_pda
        having bool_and(s.ended_at is not null)
      ) as sub on true
      where ${isOut(sql)}
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
