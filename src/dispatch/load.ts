// How busy this process is: what decides whether it hands endpoints over to other dispatchers, or would take some of theirs.
import { performance } from 'node:perf_hooks';

/** From here on endpoints are handed over to a dispatcher that wants them. */
export const busyLoad = 0.75;
/** Up to here endpoints of others are wanted. Far enough from busyLoad that what was handed over does not come back. */
export const spareLoad = 0.4;

const measuredMs = 1000;

/**
 * From 0 to 1: the share of the time in which the event loop had work, over a second or more, or the share of `places` that are taken, whichever
 * is larger. Many quick endpoints fill the one, a few slow ones the other.
 */
export function createLoad(places: () => number): () => number {
  let since = performance.eventLoopUtilization();
  let measuredAt = performance.now();
  let utilization = 0;
  return () => {
    const now = performance.now();
    if (now - measuredAt >= measuredMs) {
      const current = performance.eventLoopUtilization();
      ({ utilization } = performance.eventLoopUtilization(current, since));
      since = current;
      measuredAt = now;
    }
    return Math.max(utilization, places());
  };
}
