// Which dispatcher sends to an endpoint. Run these on connectQueue().
import { literal } from './arrays.ts';
import type { Queryable } from './connect.ts';

export interface EndpointClaim {
  endpointId: string;
  /** Made anew whenever a lease is taken; kept while it is renewed. */
  claimId: string;
}

/**
 * Leases endpoints for `leaseMs` by the database's clock: those whose lease is this claim's already, or nobody's, or has passed, since its holder is
 * gone or stopped. Returns the ids of those. A statement that is writing outcomes under the old lease is waited for, so that what is read after
 * this shows what it wrote.
 */
export async function leaseEndpoints(sql: Queryable, claims: readonly EndpointClaim[], leaseMs: number): Promise<string[]> {
  const rows = await sql<{ endpointId: string }[]>`
    insert into delivery_leases as held (endpoint_id, claim_id, lease_until)
    select wanted.endpoint_id, wanted.claim_id, clock_timestamp() + ${leaseMs}::float8 * interval '1 ms'
    from unnest(${literal(claims.map((claim) => claim.endpointId))}::uuid[], ${literal(claims.map((claim) => claim.claimId))}::uuid[])
      as wanted (endpoint_id, claim_id)
    where not exists (
      select from delivery_leases other
      where other.endpoint_id = wanted.endpoint_id and other.claim_id <> wanted.claim_id and other.lease_until >= clock_timestamp())
    order by wanted.endpoint_id
    on conflict (endpoint_id) do update set claim_id = excluded.claim_id, lease_until = excluded.lease_until
      where held.claim_id = excluded.claim_id or held.lease_until < clock_timestamp()
    returning held.endpoint_id`;
  return rows.map(({ endpointId }) => endpointId);
}

/** Gives leases back: any dispatcher may have the endpoints at once. */
export async function releaseEndpoints(sql: Queryable, claims: readonly EndpointClaim[]): Promise<void> {
  if (claims.length === 0) return;
  await sql`
    update delivery_leases held set lease_until = '-infinity'
    from unnest(${literal(claims.map((claim) => claim.endpointId))}::uuid[], ${literal(claims.map((claim) => claim.claimId))}::uuid[])
      as released (endpoint_id, claim_id)
    where held.endpoint_id = released.endpoint_id and held.claim_id = released.claim_id`;
}
