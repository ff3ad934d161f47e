// Which endpoints have something due. A NOTIFY names them; a sweep over all endpoints in the queue, each second, finds the rest: retries, expired
// claims and rows whose notification was lost.
import type { Sql } from '../db/connect.ts';
import { readClock } from '../db/clock.ts';
import { findDueEndpoints } from '../db/delivery-queue.ts';
import type { Claimer } from './claim.ts';
import type { DatabaseClock } from './clock.ts';

/** A sweep may take this share of the time: with very many endpoints it comes less often. */
const sweepShare = 0.1;
const longestPauseMs = 10_000;

export interface PollerParts {
  queue: Sql;
  clock: DatabaseClock;
  claimer: Claimer;
  pollMs: number;
}

export class Poller {
  /** Milliseconds since the oldest due delivery became due, at the last sweep. */
  oldestMs = 0;
  private readonly parts: PollerParts;
  private nextSweep = 0;
  /** When a notification without names may be followed by a sweep. */
  private earliestSweep = 0;

  constructor(parts: PollerParts) {
    this.parts = parts;
  }

  /** Takes a notification: these endpoints have new deliveries, or any has. */
  notified(endpointIds: readonly string[] | undefined): void {
    if (endpointIds === undefined) this.nextSweep = Math.min(this.nextSweep, this.earliestSweep);
    else for (const endpointId of endpointIds) this.parts.claimer.found(endpointId, false);
  }

  /** Sweeps at the next turn. */
  sweepNext(): void {
    this.nextSweep = 0;
  }

  /** Milliseconds until the next sweep. */
  get idleMs(): number {
    return Math.max(1, this.nextSweep - performance.now());
  }

  /** Sweeps when it is time to. */
  async poll(): Promise<void> {
    const { queue, clock, claimer, pollMs } = this.parts;
    const startedAt = performance.now();
    if (startedAt < this.nextSweep) return;
    this.nextSweep = Infinity;
    const [, found] = await Promise.all([
      clock.sync(() => readClock(queue)),
      findDueEndpoints(queue),
    ]);
    this.oldestMs = Math.max(0, ...found.map(({ overdueMs }) => overdueMs));
    for (const { endpointId } of found) claimer.found(endpointId, true);
    claimer.forget();
    const endedAt = performance.now();
    const pauseMs = Math.min(longestPauseMs, (endedAt - startedAt) / sweepShare);
    // A notification that came during the sweep has set an earlier time.
    this.nextSweep = Math.min(this.nextSweep, endedAt + Math.max(pollMs, pauseMs));
    this.earliestSweep = endedAt + pauseMs;
    this.nextSweep = Math.max(this.nextSweep, this.earliestSweep);
  }
}
