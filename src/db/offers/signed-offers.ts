// Sponsored offers that their wallet has signed: a keeper takes one and stores its decision as a
// sponsorship (sponsorships.ts).
import { secondsSince } from '../postgres/clock.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { DECISION_MINUTES, isUndecided, type SponsoredOffer, sponsoredColumns } from './offers.ts';

export interface SignedSponsoredOffer extends SponsoredOffer {
  signed: Buffer;
  signedAt: Date;
}

/** Seconds after which another keeper may claim an offer that a keeper has claimed. */
const TAKEN_SECONDS = 5;

/**
 * SQL for the client network of the offer or sponsorship `o`: its IPv4 address, or its IPv6 /48.
 * One customer may have all addresses of a /48.
 */
export const networkOf = (sql: Queryable) => sql`
  coalesce(substring(o.address from '^address:[^:]*:[^:]*:[^:]*'), o.address)`;

/**
 * Claims the next undecided signed offer, for the caller to decide. Undefined if no offer is due.
 * Client networks take turns, then merchants (for an offer without a plan: wallets). The network
 * whose last turn is the longest ago comes first. A turn is a decision or the scheduled next try of
 * a postponed offer. A lock makes keepers claim offers one after another, so that each sees the
 * others' turns. Leaves out offers signed more than ten minutes ago, because their blockhash has
 * expired.
 */
export async function takeSignedOffer(
  tx: Transaction,
  sponsors: readonly string[],
): Promise<SignedSponsoredOffer | undefined> {
  await tx`select pg_advisory_xact_lock(hashtextextended('signed offers', 2))`;
  const [row] = await tx<SignedSponsoredOffer[]>`
    with recent as (
      select o.id, coalesce(o.look_at, o.signed_at) as due_at, ${networkOf(tx)} as network,
        coalesce(a.merchant_id::text, o.wallet) as merchant,
        greatest(o.look_at, s.created_at) as turn_at,
        s.offer_id is null and o.sponsor = any(${[...sponsors]}::text[])
          and coalesce(o.look_at <= now(), true) as is_due
      from offers o left join sponsorships s on s.offer_id = o.id
        left join plans p on p.id = o.plan_id left join apps a on a.id = p.app_id
      where o.signed is not null and o.signed_at > now() - ${DECISION_MINUTES} * interval '1 minute'
    ), turns as (
      select id, due_at, is_due, max(turn_at) over (partition by network) as network_at,
        max(turn_at) over (partition by merchant) as merchant_at
      from recent
    ), next as (
      select id from turns where is_due
      order by network_at nulls first, merchant_at nulls first, due_at, id limit 1
    )
    update offers o set look_at = now() + ${TAKEN_SECONDS} * interval '1 second'
    from next where o.id = next.id
    returning ${sponsoredColumns(tx)}, o.signed, o.signed_at`;
  return row;
}

/**
 * Postpones an offer about which a keeper could not decide. The delay is a quarter of the time
 * since the wallet signed it, but at least a second.
 */
export async function putOffOffer(sql: Queryable, id: string): Promise<void> {
  await sql`
    update offers
    set look_at = now() + greatest(interval '1 second', (now() - signed_at) / 4)
    where id = ${id}`;
}

/**
 * Returns for how many seconds the oldest undecided offer has been due; 0 if none is. A claimed or
 * postponed offer is not due.
 */
export async function readOldestOffer(sql: Queryable): Promise<number> {
  const [row] = await sql<{ seconds: number }[]>`
    select ${secondsSince(sql, sql`min(coalesce(o.look_at, o.signed_at))`)} as seconds
    from offers o where coalesce(o.look_at <= now(), true) and ${isUndecided(sql)}`;
  return row?.seconds ?? 0;
}

/**
 * Refuses at most 1,000 signed offers as `lapsed`: offers that were signed more than ten minutes
 * ago and have no decision. Keepers no longer decide about such offers. Returns the number of
 * refused offers.
 */
export async function lapseOffers(sql: Queryable): Promise<number> {
  const { count } = await sql`
    insert into sponsorships (offer_id, purpose, wallet, address, sponsor, merchant_id, plan_id,
      subscription_pda, checkout_session_id, replaces, credit_at, state, reason, ended_at)
    select o.id, o.purpose, o.wallet, o.address, o.sponsor, a.merchant_id, o.plan_id,
      o.subscription_pda, o.checkout_session_id, o.replaces, o.credit_at, 'refused', 'lapsed', now()
    from offers o left join plans p on p.id = o.plan_id
      left join apps a on a.id = p.app_id
    where o.signed is not null and o.signed_at <= now() - ${DECISION_MINUTES} * interval '1 minute'
      and not exists (select from sponsorships s where s.offer_id = o.id)
    order by o.signed_at limit 1000
    on conflict (offer_id) do nothing`;
  return count;
}
