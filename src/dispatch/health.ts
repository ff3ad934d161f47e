// Counts the results of requests per endpoint, and writes the counts every two seconds. Disables an
// endpoint if all its requests have failed for ENDPOINT_DISABLE_DAYS.
import type { Attempt } from '../db/delivering/delivery-queue.ts';
import { addHealth, deleteOldHours, type HealthSum } from '../db/delivering/endpoint-health.ts';
import { disableEndpoint, listFailing } from '../db/delivering/endpoints.ts';
import type { Sql } from '../db/postgres/connect.ts';
import { chunks } from '../each.ts';
import { type Loop, startLoop } from '../loop.ts';
import type { DispatchTimes } from './times.ts';

const MAX_ROWS = 1000;

export interface HealthOptions {
  /** ENDPOINT_DISABLE_DAYS. If it is 0, failing endpoints stay enabled. */
  disableDays: number;
  /** Called with each endpoint that was disabled. */
  onDisabled: (endpointId: string) => void;
  times: DispatchTimes['health'];
}

export class HealthLog {
  readonly #sql: Sql;
  #sums = new Map<string, HealthSum>();
  readonly #options: HealthOptions;
  #purgedAt = -Infinity;
  #judgedAt = -Infinity;

  constructor(sql: Sql, options: HealthOptions) {
    this.#sql = sql;
    this.#options = options;
  }

  /** Adds one request to the counts of its endpoint. */
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

  /** Starts the loop that writes the counts, disables failing endpoints and deletes old counts. */
  start(): Loop {
    return startLoop({
      name: 'noting the health of endpoints',
      idleMs: this.#options.times.writeMs,
      turn: async () => {
        await this.write();
        await this.#disable();
        if (performance.now() - this.#purgedAt < this.#options.times.purgeMs) return false;
        this.#purgedAt = performance.now();
        await deleteOldHours(this.#sql);
        return false;
      },
      // The main loop logs an outage of Postgres, so this loop logs nothing.
      onError: () => undefined,
    });
  }

  async #disable(): Promise<void> {
    const { disableDays, onDisabled, times } = this.#options;
    if (disableDays === 0 || performance.now() - this.#judgedAt < times.disableMs) return;
    this.#judgedAt = performance.now();
    for (const id of await listFailing(this.#sql, disableDays))
      if (await disableEndpoint(this.#sql, id, 'failing')) onDisabled(id);
  }

  /** Writes the counts since the last write. If the write fails, these counts are lost. */
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
