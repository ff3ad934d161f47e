// Step 7 of collecting (chain.md): attempts left open by a keeper that is gone are taken over. It also picks up those of a subscription that the API
// took from its keeper by cancelling it: they may still land, and then it is recorded.
import { randomUUID } from 'node:crypto';
import { readOpenAttempts } from '../db/payment-attempts.ts';
import { claimOrphans, releaseClaims } from '../db/subscription-leases.ts';
import { readSubscriptions } from '../db/subscriptions.ts';
import { LEASE_SECONDS } from '../domain/settlement.ts';
import type { Context } from './context.ts';
import type { Flight } from './flight.ts';

const BATCH = 200;

/** Takes over one batch of open attempts; resolves with true when there may be more. */
export async function recover({ sql, log }: Context, flight: Flight): Promise<boolean> {
  const limit = Math.min(BATCH, flight.room());
  if (limit <= 0) return false;
  const claimId = randomUUID();
  const leasedAt = performance.now();
  const ids = await claimOrphans(sql, { claimId, limit, leaseSeconds: LEASE_SECONDS });
  if (ids.length === 0) return false;
  try {
    const [attempts, rows] = await Promise.all([readOpenAttempts(sql, ids), readSubscriptions(sql, ids)]);
    const oldest = new Map(attempts.toReversed().map((attempt) => [attempt.subscriptionId, attempt]));
    log.info({ attempts: oldest.size }, 'open payments are taken over');
    flight.add(
      rows.flatMap((row) => {
        const attempt = oldest.get(row.id);
        const { id, notices } = row;
        return attempt === undefined ? [] : [{ id, claimId, notices, row, leasedAt, periodEnd: null, afterwards: null, attempt }];
      }),
    );
  } catch (error) {
    await releaseClaims(
      sql,
      ids.map((id) => ({ id, claimId })),
    ).catch(() => undefined);
    throw error;
  }
  return ids.length === limit;
}
