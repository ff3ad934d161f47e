// Which dispatcher sends to an endpoint. Run these on connectQueue().
import { literal } from './arrays.ts';
import type { Queryable } from './connect.ts';

export interface EndpointClaim {
  endpointId: string;
  /** Made anew whenever an endpoint is taken; kept until another dispatcher takes it. */
  claimId: string;
}

/** A lease that was taken or renewed. */
export interface GrantedLease extends EndpointClaim {
  /** Another dispatcher would take it over. */
  wanted: boolean;
}

/**
 * Leases endpoints for `leaseMs` by the database's clock, and returns those that were to be had. Each comes with the claim under which this
 * dispatcher has had it, if any: that is kept, even after its lease has passed, for as long as nobody else took the endpoint, so that what was sent
 * under it can still be written. What is nobody's, or was another's whose lease has passed, is taken under `newClaimId`, which must be a new one: a
 * claim that lost its endpoint never has it again. A statement that is writing outcomes under the old lease is waited for, so that what is read
 * after this shows what it wrote.
 */
export function leaseEndpoints(
  sql: Queryable,
  endpoints: readonly { endpointId: string; claimId?: string | undefined }[],
  newClaimId: string,
  leaseMs: number,
): Promise<GrantedLease[]> {
  return sql<GrantedLease[]>`
    insert into delivery_leases as held (endpoint_id, claim_id, lease_until)
    select wanted.endpoint_id, case when other.claim_id = wanted.claim_id then wanted.claim_id else ${newClaimId}::uuid end,
      clock_timestamp() + ${leaseMs}::float8 * interval '1 ms'
    from unnest(${literal(endpoints.map((wanted) => wanted.endpointId))}::uuid[], ${literal(endpoints.map((wanted) => wanted.claimId))}::uuid[])
        as wanted (endpoint_id, claim_id)
      left join delivery_leases other on other.endpoint_id = wanted.endpoint_id
    where other.endpoint_id is null or other.claim_id = wanted.claim_id or other.lease_until < clock_timestamp()
    order by wanted.endpoint_id
    on conflict (endpoint_id) do update set claim_id = excluded.claim_id, lease_until = excluded.lease_until,
        wanted_until = case when held.claim_id = excluded.claim_id then held.wanted_until else '-infinity' end
      where held.claim_id = excluded.claim_id or (held.lease_until < clock_timestamp() and excluded.claim_id = ${newClaimId}::uuid)
    returning held.endpoint_id, held.claim_id, held.wanted_until > clock_timestamp() as wanted`;
}

/** Tells the dispatchers that have these endpoints that another would take them over, for `ms`. A row that is being written is left alone. */
export async function wantEndpoints(sql: Queryable, endpointIds: readonly string[], ms: number): Promise<void> {
  await sql`
    with held as (
      select endpoint_id from delivery_leases
      where endpoint_id = any(${literal(endpointIds)}::uuid[]) and lease_until > clock_timestamp() and wanted_until < clock_timestamp()
      for update skip locked
    )
    update delivery_leases set wanted_until = clock_timestamp() + ${ms}::float8 * interval '1 ms'
    from held where delivery_leases.endpoint_id = held.endpoint_id`;
}

/** Gives leases back: any dispatcher may have the endpoints at once. Locks in the order in which leases are taken, so that no two wait for each other. */
export async function releaseEndpoints(sql: Queryable, claims: readonly EndpointClaim[]): Promise<void> {
  if (claims.length === 0) return;
  await sql`
    with held as (
      select lease.endpoint_id
      from unnest(${literal(claims.map((claim) => claim.endpointId))}::uuid[], ${literal(claims.map((claim) => claim.claimId))}::uuid[])
          as released (endpoint_id, claim_id)
        join delivery_leases lease on lease.endpoint_id = released.endpoint_id and lease.claim_id = released.claim_id
      order by lease.endpoint_id for update of lease
    )
    update delivery_leases set lease_until = '-infinity' from held where delivery_leases.endpoint_id = held.endpoint_id`;
}
