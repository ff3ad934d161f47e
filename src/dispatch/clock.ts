// The database's clock, read now and then and carried on by this machine's monotonic clock: the worker's own time of day is never used.
import { performance } from 'node:perf_hooks';

export interface DatabaseClock {
  /** Unix milliseconds by the database's clock; throws before the first sync. */
  now(): number;
  /** The database said `unixMs` in answer to a question sent at `askedAt` (performance.now()). */
  sync(unixMs: number, askedAt: number): void;
}

/** A clock that is late rather than early by the time the question took: nothing that is timed by it becomes due before its time. */
export function databaseClock(): DatabaseClock {
  let offset = NaN;
  return {
    now() {
      if (Number.isNaN(offset)) throw new Error('the database clock was not read yet');
      return performance.now() + offset;
    },
    sync(unixMs, askedAt) {
      offset = unixMs - askedAt;
    },
  };
}
