// Leases on shares of a rate, such as the requests per second that an RPC provider allows. The
// shares of all leases never exceed the rate.
import type { Sql } from './postgres/connect.ts';

/** A process that holds a lease. */
export interface Holder {
  /** The rate that is shared. */
  name: string;
  holder: string;
  /** Machine and pid namespace; null where they are not known. */
  place: string | null;
  pid: number;
}

export interface LeaseRequest extends Holder {
  /** The whole rate. */
  rate: number;
  /** The most that the holder uses now, or used a moment ago. It is not given to others. */
  holds: number;
  /** The lease ends after this time without another request. */
  leaseMs: number;
}

export interface Lease {
  /** The most that the holder may use from now on. */
  granted: number;
  /** Number of holders. */
  holders: number;
}

/**
 * Renews the lease of a holder. Each holder's part is the rate divided by their number; the rest
 * goes to the first ones by id. What others still hold is not granted, so a new holder waits until
 * they have reported less.
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

/** Lists the holders of a rate in a place. */
export function listHolders(
  sql: Sql,
  { name, place }: Pick<Holder, 'name' | 'place'>,
): Promise<Holder[]> {
  return sql<Holder[]>`
    select name, holder, place, pid from rate_leases where name = ${name} and place = ${place}`;
}

/** Ends a lease after `afterMs`, when the holder's last requests no longer count. */
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
