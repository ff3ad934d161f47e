// Finds lanes that have something due. A NOTIFY names them, or leads to a look at what was queued since the last look; a sweep over the heads of all
// lanes, each second, finds everything else: retries that came due, leases that passed, what a notification that got lost was about.
import type { Sql } from '../db/connect.ts';
import { readClock } from '../db/clock.ts';
import { findDueLanes, findQueued } from '../db/deliveries.ts';
import type { DatabaseClock } from './clock.ts';
import type { Lanes } from './lanes.ts';

export interface Scout {
  /** Takes a notification: there is something new for these endpoints, or for any. */
  hear(endpointIds: readonly string[] | undefined): void;
  /** Looks where it is time to. */
  look(): Promise<void>;
  /** Sweeps at the next look. */
  sweepNext(): void;
  /** Milliseconds for which the oldest due delivery had been due at the last sweep. */
  readonly oldestMs: number;
}

/** A row is visible only once its transaction commits; one that takes longer than this after queueing is found by the sweep. */
const commitMs = 500;
/** A sweep may take this share of the time: with very many lanes it comes less often, but not much. */
const sweepShare = 0.1;
const longestSweepPauseMs = 10_000;
/** An endpoint that has been idle for this long starts anew. */
const forgetMs = 600_000;

export function createScout({ queue, clock, lanes, pollMs }: { queue: Sql; clock: DatabaseClock; lanes: Lanes; pollMs: number }): Scout {
  let nextSweep = 0;
  let since = 0;
  let oldestMs = 0;
  let told = false;

  const sweep = async () => {
    const began = performance.now();
    told = false;
    const [now, heads] = await Promise.all([clock.sync(() => readClock(queue)), findDueLanes(queue)]);
    oldestMs = 0;
    for (const { endpointId, kind, overdueMs } of heads) {
      lanes.found(endpointId, kind, true);
      oldestMs = Math.max(oldestMs, overdueMs);
    }
    lanes.forget(forgetMs);
    const ended = performance.now();
    nextSweep = ended + Math.max(pollMs, Math.min(longestSweepPauseMs, (ended - began) / sweepShare));
    since = Math.max(since, now - commitMs);
  };

  return {
    hear(endpointIds) {
      if (endpointIds === undefined) told = true;
      else for (const endpointId of endpointIds) lanes.found(endpointId, 0, false);
    },
    async look() {
      if (performance.now() >= nextSweep) {
        await sweep();
        return;
      }
      if (!told) return;
      told = false;
      const until = clock.now() - commitMs;
      for (const { endpointId } of await findQueued(queue, since)) lanes.found(endpointId, 0, false);
      since = until;
    },
    sweepNext() {
      nextSweep = 0;
    },
    get oldestMs() {
      return oldestMs;
    },
  };
}
