// What sponsoring has cost, for its budgets, metrics and `billing status`.
import type { Queryable } from './postgres/connect.ts';

/** Lamports of a day and what is out, for the budgets of one offer. */
export interface SponsorUsage {
  /** Sign-ups, resumes and repairs of the last 24 hours, in lamports. */
  total: bigint;
  merchant: bigint;
  wallet: bigint;
  address: bigint;
  /** Cancellations, closings and revocations of the last 24 hours. */
  leaving: bigint;
  /** The parts of it that this wallet and this address used. */
  walletLeaving: bigint;
  addressLeaving: bigint;
  /** The merchant's rent that has not come back, with what is reserved. */
  merchantOut: bigint;
  /** Whether a transaction of the wallet or the address failed on chain in the last hour. */
  hasFailed: boolean;
  /** Whether the wallet has a sign-up under way. */
  isSigningUp: boolean;
  /** Lamports reserved by all open transactions of this sponsor. */
  reserved: bigint;
}

/** Lamports that a sponsorship has cost, or can cost while it is open. */
const cost = (sql: Queryable) => sql`
  case state when 'open' then reserved when 'landed' then fee + authority_rent + subscription_rent
    when 'failed' then fee else 0 end`;

/** Rent of a landed sponsorship that has not come back. */
const out = (sql: Queryable) => sql`
  (case when authority_returned_at is null then authority_rent else 0 end
    + case when subscription_returned_at is null then subscription_rent else 0 end)`;

/** Condition of the indexes sponsorships_out and sponsorships_out_by_merchant. */
const isOut = (sql: Queryable) => sql`
  state = 'landed' and ((authority_rent > 0 and authority_returned_at is null)
    or (subscription_rent > 0 and subscription_returned_at is null))`;

const isLeaving = (sql: Queryable) => sql`purpose in ('cancel', 'close', 'revoke')`;

/** Reads what counts against the budgets of an offer. A null merchant has none. */
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

/** Lamports of a merchant's sponsorships, by what became of them. */
export interface MerchantSponsoring {
  /** Null for revocations, which belong to no merchant. */
  merchant: string | null;
  /** Network fees of transactions that landed. */
  spent: bigint;
  /** What open transactions can cost at most. */
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

/** The day's sponsoring, and the rent that is out, of the whole installation. */
export interface SponsoringFacts {
  /** Lamports of the last 24 hours, without what leaving wallets cost. */
  day: bigint;
  /** Lamports that leaving wallets cost in the last 24 hours. */
  leaving: bigint;
  /** Rent that has not come back. */
  out: bigint;
  /** The part of it whose subscription ended more than seven days ago. */
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
 * Lamports that a week of collection costs: the network fee of each of the week's transactions,
 * counted up to 100,000.
 */
export async function readWeekOfFees(sql: Queryable): Promise<bigint> {
  const [row] = await sql<[{ count: number }]>`
    select count(*)::int as count from (
      select from transactions where created_at > now() - interval '7 days'
        and id >= first_id_at(now() - interval '7 days') limit 100000
    ) as week`;
  return BigInt(row.count) * LAMPORTS_PER_TRANSACTION;
}

/** A signature and a usual priority fee. */
const LAMPORTS_PER_TRANSACTION = 10_000n;
