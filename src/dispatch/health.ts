// Sums up the responses of endpoints and writes the sums every two seconds.
import type { Attempt } from '../db/delivery-queue.ts';
import { addHealth, deleteOldHours, type HealthSum } from '../db/endpoint-health.ts';
import type { Sql } from '../db/postgres/connect.ts';
import { chunks } from '../each.ts';
import { type Loop, startLoop } from '../loop.ts';

const WRITE_MS = 2000;
const MAX_ROWS = 1000;
const PURGE_MS = 3_600_000;

export class HealthLog {
  readonly #sql: Sql;
  #sums = new Map<string, HealthSum>();
  #purgedAt = -Infinity;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Counts one request. */
  add(endpointId: string, { startedAt, durationMs, httpStatus, error }: Attempt): void {
    const at = startedAt + durationMs;
    const sum = this.#sums.get(endpointId) ?? emptySum(endpointId);
    this.#sums.set(endpointId, sum);
    if (httpStatus !== null && httpStatus >= 200 && httpStatus < 300) {
      sum.succeeded += 1;
      sum.lastSuccessAt = Math.max(sum.lastSuccessAt ?? 0, at);
      if (sum.failingSince !== null && sum.failingSince <= at) sum.failingSince = null;
    } else {
      sum.failed += 1;
      if (at > (sum.lastSuccessAt ?? 0)) sum.failingSince = Math.min(sum.failingSince ?? at, at);
      if (at < (sum.lastFailureAt ?? 0)) return;
      sum.lastFailureAt = at;
      sum.lastError = error ?? `HTTP ${httpStatus ?? 0}`;
    }
  }

  /** Starts the loop that writes. */
  start(): Loop {
    return startLoop({
      name: 'noting the health of endpoints',
      idleMs: WRITE_MS,
      turn: async () => {
        await this.write();
        if (performance.now() - this.#purgedAt < PURGE_MS) return false;
        this.#purgedAt = performance.now();
        await deleteOldHours(this.#sql);
        return false;
      },
      // The main loop logs an outage of Postgres.
      onError: () => undefined,
    });
  }

  /** Writes the sums. If that fails, these sums are lost. */
  async write(): Promise<void> {
    const sums = [...this.#sums.values()];
    this.#sums = new Map();
    for (const some of chunks(sums, MAX_ROWS)) await addHealth(this.#sql, some);
  }
}

function emptySum(endpointId: string): HealthSum {
  return {
    endpointId,
    succeeded: 0,
    failed: 0,
    lastSuccessAt: null,
    lastFailureAt: null,
    failingSince: null,
    lastError: null,
  };
}
