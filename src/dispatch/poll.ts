// Finds endpoints with due deliveries. A NOTIFY has the ids of endpoints with new deliveries. Every
// second, a sweep over all endpoints in the queue finds retries, expired claims and rows whose
// notification was lost.
import { findDueEndpoints } from '../db/delivering/delivery-queue.ts';
import { readClock } from '../db/postgres/clock.ts';
import type { Sql } from '../db/postgres/connect.ts';
import type { Claimer } from './claim.ts';
import type { DatabaseClock } from './clock.ts';
import type { DispatchTimes } from './times.ts';

/**
 * Maximum share of time spent on sweeps. With very many endpoints a sweep takes longer, so sweeps
 * run less often.
 */
const SWEEP_SHARE = 0.1;

export interface PollerParts {
  queue: Sql;
  clock: DatabaseClock;
  claimer: Claimer;
  times: DispatchTimes['poll'];
}

export class Poller {
  /** Milliseconds since the oldest due delivery became due, measured at the last sweep. */
  oldestMs = 0;
  readonly #parts: PollerParts;
  #nextSweep = 0;
  /**
   * Earliest time (performance.now()) at which a notification without endpoint ids may start a
   * sweep.
   */
  #earliestSweep = 0;

  constructor(parts: PollerParts) {
    this.#parts = parts;
  }

  /**
   * Handles a notification. `endpointIds` has the endpoints with new deliveries. Undefined means
   * that any endpoint may have new deliveries.
   */
  notified(endpointIds: readonly string[] | undefined): void {
    if (endpointIds === undefined) this.#nextSweep = Math.min(this.#nextSweep, this.#earliestSweep);
    else for (const endpointId of endpointIds) this.#parts.claimer.found(endpointId, false);
  }

  /** Makes the next poll() run a sweep. */
  sweepNext(): void {
    this.#nextSweep = 0;
  }

  /** Milliseconds until the next sweep. */
  get idleMs(): number {
    return Math.max(1, this.#nextSweep - performance.now());
  }

  /** Runs a sweep if its time has come. */
  async poll(): Promise<void> {
    const { queue, clock, claimer, times } = this.#parts;
    const startedAt = performance.now();
    if (startedAt < this.#nextSweep) return;
    this.#nextSweep = Infinity;
    const [, found] = await Promise.all([
      clock.sync(() => readClock(queue)),
      findDueEndpoints(queue),
    ]);
    this.oldestMs = Math.max(0, ...found.map(({ overdueMs }) => overdueMs));
    for (const { endpointId } of found) claimer.found(endpointId, true);
    claimer.forget();
    const endedAt = performance.now();
    const pauseMs = Math.min(times.maxPauseMs, (endedAt - startedAt) / SWEEP_SHARE);
    // A notification during the sweep may have requested an earlier sweep.
    this.#nextSweep = Math.min(this.#nextSweep, endedAt + Math.max(times.everyMs, pauseMs));
    this.#earliestSweep = endedAt + pauseMs;
    this.#nextSweep = Math.max(this.#nextSweep, this.#earliestSweep);
  }
}
