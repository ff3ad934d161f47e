// Which endpoints this dispatcher may send to. An endpoint belongs to one dispatcher at a time: nothing else needs to be written before a request,
// its order and its cap hold over all dispatchers, and what becomes of a request is written only while the lease is still the one it was sent under.
import { randomUUID } from 'node:crypto';
import type { Sql } from '../db/connect.ts';
import { leaseEndpoints, releaseEndpoints, wantEndpoints } from '../db/delivery-leases.ts';

/** The same object until another dispatcher has had the endpoint, or it was given back. */
export interface Lease {
  readonly claimId: string;
  /** performance.now() after which no request may start: its deadline would not end within the lease. */
  sendBefore: number;
  /** Another dispatcher would take it over, as was seen when this was taken or renewed last. */
  wanted: boolean;
}

export interface Leases {
  /** Takes or renews what is needed to send to these endpoints now; those that another dispatcher has are not in the result. */
  hold(endpointIds: Iterable<string>): Promise<ReadonlyMap<string, Lease>>;
  /**
   * Resolves when no lease is being taken or renewed. Outcomes lock the leases that they were sent under: with one batch of them always begun before
   * the other ends, a renewal would not get its turn.
   */
  settled(): Promise<unknown>;
  /** Tells those who have these endpoints that this dispatcher would take them over. */
  want(endpointIds: readonly string[]): Promise<void>;
  /** Gives these back. */
  give(endpointIds: readonly string[]): Promise<void>;
  /** Gives everything back. */
  release(): Promise<void>;
}

const keptAtMost = 10_000;

/** `reserveMs`: what must be left of a lease when a request starts. */
export function createLeases(sql: Sql, { leaseMs, reserveMs }: { leaseMs: number; reserveMs: number }): Leases {
  const held = new Map<string, Lease>();
  let asking: Promise<unknown> = Promise.resolve();
  // Renewed at half of the time in which requests may start.
  const renewMs = (leaseMs - reserveMs) / 2;

  const give = async (endpointIds: readonly string[]) => {
    const claims = endpointIds.flatMap((endpointId) => {
      const lease = held.get(endpointId);
      return lease === undefined ? [] : [{ endpointId, claimId: lease.claimId }];
    });
    for (const { endpointId } of claims) held.delete(endpointId);
    await releaseEndpoints(sql, claims);
  };

  return {
    async hold(endpointIds) {
      const askedAt = performance.now();
      const ids = new Set(endpointIds);
      const asked: { endpointId: string; claimId: string | undefined }[] = [];
      for (const endpointId of ids) {
        const lease = held.get(endpointId);
        if (lease !== undefined && lease.sendBefore - askedAt > renewMs) continue;
        asked.push({ endpointId, claimId: lease?.claimId });
      }
      if (asked.length > 0) {
        const answer = leaseEndpoints(sql, asked, randomUUID(), leaseMs);
        asking = answer.then(
          () => undefined,
          () => undefined,
        );
        const given = new Map((await answer).map((lease) => [lease.endpointId, lease]));
        const sendBefore = askedAt + leaseMs - reserveMs;
        for (const { endpointId } of asked) {
          const lease = held.get(endpointId);
          const now = given.get(endpointId);
          if (now !== undefined && lease?.claimId === now.claimId) Object.assign(lease, { sendBefore, wanted: now.wanted });
          else {
            if (lease !== undefined) lease.sendBefore = 0;
            if (now !== undefined) held.set(endpointId, { claimId: now.claimId, sendBefore, wanted: now.wanted });
            else held.delete(endpointId);
          }
        }
        if (held.size > keptAtMost) for (const [id, lease] of held) if (lease.sendBefore + reserveMs < askedAt) held.delete(id);
      }
      return new Map(
        [...ids].flatMap((id) => [[id, held.get(id)] as const]).filter((entry): entry is [string, Lease] => entry[1] !== undefined),
      );
    },
    settled: () => asking,
    want: (endpointIds) => wantEndpoints(sql, endpointIds, leaseMs),
    give,
    release: () => give([...held.keys()]),
  };
}
