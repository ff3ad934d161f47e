// Which endpoints this dispatcher may send to. An endpoint belongs to one dispatcher at a time: nothing else needs to be written before a request,
// its order and its cap hold over all dispatchers, and what becomes of a request is written only while the lease is still the one it was sent under.
import { randomUUID } from 'node:crypto';
import type { Sql } from '../db/connect.ts';
import { leaseEndpoints, releaseEndpoints } from '../db/delivery-leases.ts';

/** The same object for as long as it is renewed without a gap. */
export interface Lease {
  readonly claimId: string;
  /** performance.now() after which no request may start: its deadline would not end within the lease. */
  sendBefore: number;
}

export interface Leases {
  /** Takes or renews what is needed to send to these endpoints now; those that another dispatcher has are not in the result. */
  hold(endpointIds: Iterable<string>): Promise<ReadonlyMap<string, Lease>>;
  /** Gives everything back. */
  release(): Promise<void>;
}

const keptAtMost = 10_000;

/** `reserveMs`: what must be left of a lease when a request starts. */
export function createLeases(sql: Sql, { leaseMs, reserveMs }: { leaseMs: number; reserveMs: number }): Leases {
  const held = new Map<string, Lease>();
  // Renewed at half of the time in which requests may start.
  const renewMs = (leaseMs - reserveMs) / 2;

  return {
    async hold(endpointIds) {
      const askedAt = performance.now();
      const ids = new Set(endpointIds);
      const fresh = randomUUID();
      const asked: { endpointId: string; claimId: string }[] = [];
      for (const endpointId of ids) {
        const lease = held.get(endpointId);
        if (lease !== undefined && lease.sendBefore - askedAt > renewMs) continue;
        const lapsed = lease === undefined || lease.sendBefore + reserveMs < askedAt;
        asked.push({ endpointId, claimId: lapsed ? fresh : lease.claimId });
      }
      if (asked.length > 0) {
        const given = new Set(await leaseEndpoints(sql, asked, leaseMs));
        const sendBefore = askedAt + leaseMs - reserveMs;
        for (const { endpointId, claimId } of asked) {
          const lease = held.get(endpointId);
          if (given.has(endpointId) && lease?.claimId === claimId) lease.sendBefore = sendBefore;
          else {
            if (lease !== undefined) lease.sendBefore = 0;
            if (given.has(endpointId)) held.set(endpointId, { claimId, sendBefore });
            else held.delete(endpointId);
          }
        }
        if (held.size > keptAtMost) for (const [id, lease] of held) if (lease.sendBefore + reserveMs < askedAt) held.delete(id);
      }
      return new Map(
        [...ids].flatMap((id) => [[id, held.get(id)] as const]).filter((entry): entry is [string, Lease] => entry[1] !== undefined),
      );
    },
    async release() {
      await releaseEndpoints(
        sql,
        [...held].map(([endpointId, { claimId }]) => ({ endpointId, claimId })),
      );
      held.clear();
    },
  };
}
