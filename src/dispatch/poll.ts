// Finds endpoints with due deliveries. A NOTIFY names them; a sweep over all endpoints in the queue, every second, finds the rest: retries, expired claims
// and rows whose notification was lost.
import type { Sql } from '../db/connect.ts';
import { readClock } from '../db/clock.ts';
import { findDueEndpoints } from '../db/delivery-queue.ts';
import type { Claimer } from './claim.ts';
import type { DatabaseClock } from './clock.ts';

/** Maximum share of time spent on sweeps: with very many endpoints they run less often. */
const sweepShare = 0.1;
const longestPauseMs = 10_000;

export class Poller {
  /** Milliseconds since the oldest due delivery became due, at the last sweep. */
  oldestMs = 0;
  private readonly queue: Sql;
  private readonly clock: DatabaseClock;
  private readonly claimer: Claimer;
  private readonly pollMs: number;
  private nextSweep = 0;
  /** Earliest time of a sweep after a notification without names. */
  private earliestSweep = 0;

  constructor(parts: { queue: Sql; clock: DatabaseClock; claimer: Claimer; pollMs: number }) {
    this.queue = parts.queue;
    this.clock = parts.clock;
    this.claimer = parts.claimer;
    this.pollMs = parts.pollMs;
  }

  /** Handles a notification: these endpoints, or any, have new deliveries. */
  notified(endpointIds: readonly string[] | undefined): void {
    if (endpointIds === undefined) this.nextSweep = Math.min(this.nextSweep, this.earliestSweep);
    else for (const endpointId of endpointIds) this.claimer.found(endpointId, false);
  }

  /** Makes the next poll sweep. */
  sweepNext(): void {
    this.nextSweep = 0;
  }

  /** Milliseconds until the next sweep. */
  get idleMs(): number {
    return Math.max(1, this.nextSweep - performance.now());
  }

  /** Sweeps if it is time. */
  async poll(): Promise<void> {
    const startedAt = performance.now();
    if (startedAt < this.nextSweep) return;
    this.nextSweep = Infinity;
    const [, found] = await Promise.all([
      this.clock.sync(() => readClock(this.queue)),
      findDueEndpoints(this.queue),
    ]);
    this.oldestMs = Math.max(0, ...found.map(({ overdueMs }) => overdueMs));
    for (const { endpointId } of found) this.claimer.found(endpointId, true);
    this.claimer.forget();
    const endedAt = performance.now();
    const pauseMs = Math.min(longestPauseMs, (endedAt - startedAt) / sweepShare);
    // A notification during the sweep may have set an earlier time.
    this.nextSweep = Math.min(this.nextSweep, endedAt + Math.max(this.pollMs, pauseMs));
    this.earliestSweep = endedAt + pauseMs;
    this.nextSweep = Math.max(this.nextSweep, this.earliestSweep);
  }
}
