// Leases on shares of a rate, such as the requests per second that an RPC provider allows. The
// shares of all leases never exceed the rate.
import type { Sql } from '../postgres/connect.ts';

/** A process that holds a lease. */
export interface Holder {
  /** Name of the rate. */
  name: string;
  holder: string;
  /** Machine and pid namespace of the process; null if unknown. */
  place: string | null;
  pid: number;
}

export interface LeaseRequest extends Holder {
  /** The rate that all holders share. */
  rate: number;
  /**
   * The part of the rate that recent requests of this holder still use up. Other holders cannot get
   * it.
   */
  holds: number;
  /** The lease ends this many milliseconds after its last renewal. */
  leaseMs: number;
}

export interface Lease {
  /** The share that the holder may use from now on. */
  granted: number;
  holders: number;
}

/**
 * Renews the lease of a holder. The rate is divided equally among the holders. If a remainder is
 * left, each of the holders with the lowest ids gets 1 more. While others still have more than
 * their equal parts, this holder gets at most what they leave.
 */
export function renewLease(
  sql: Sql,
  { name, rate, holder, place, pid, holds, leaseMs }: LeaseRequest,
): Promise<Lease> {
  return sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended(${`rate ${name}`}, 0))`;
    await tx`
      delete from rate_leases where name = ${name} and ends_at < clock_timestamp()`;
    const [row] = await tx<Lease[]>`
      with others as (
        select count(*)::int as count, coalesce(sum(share), 0)::int as held,
          (count(*) filter (where holder < ${holder}))::int as before
        from rate_leases where name = ${name} and holder <> ${holder}
      ), part as (
        select count + 1 as holders, greatest(0, least(
          ${rate}::int / (count + 1)
            + case when before < ${rate}::int % (count + 1) then 1 else 0 end,
          ${rate}::int - held)) as granted
        from others
      ), renewed as (
        insert into rate_leases as lease (name, holder, place, pid, share, ends_at)
        select ${name}, ${holder}, ${place}, ${pid}, greatest(granted, ${holds}::int),
          clock_timestamp() + ${leaseMs} * interval '1 ms' from part
        on conflict (name, holder) do update set share = excluded.share, ends_at = excluded.ends_at
      )
      select granted, holders from part`;
    if (row === undefined) throw new Error('the database returned no lease');
    return row;
  });
}

/** Lists the holders of a rate on one machine and pid namespace. */
export function listHolders(
  sql: Sql,
  { name, place }: Pick<Holder, 'name' | 'place'>,
): Promise<Holder[]> {
  return sql<Holder[]>`
    select name, holder, place, pid from rate_leases where name = ${name} and place = ${place}`;
}

/**
 * Ends a lease `afterMs` from now. Until then, no other holder gets the share, because the last
 * requests of this holder still count against the rate.
 */
export async function endLease(
  sql: Sql,
  { name, holder }: Pick<Holder, 'name' | 'holder'>,
  afterMs: number,
): Promise<void> {
  await sql`
    update rate_leases
    set ends_at = least(ends_at, clock_timestamp() + ${afterMs} * interval '1 ms')
    where name = ${name} and holder = ${holder}`;
}
