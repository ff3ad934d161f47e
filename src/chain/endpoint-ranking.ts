import type { Endpoint } from './endpoint.ts';

// Weights in milliseconds of latency: a place further down the list, an unknown latency, a slot of lag.
const PREFERENCE_MS = 100;
const UNKNOWN_LATENCY_MS = 50;
const SLOT_MS = 400;
// Waiting this long for a healthy endpoint beats asking a failing one.
const SHORT_WAIT_MS = 250;
// One or two slots of difference come from the time that news takes, not from lag.
const LAG_TOLERANCE = 2;

/** Endpoints, given in order of preference, best first: up and free now, up and free soon, down, rate limited for longer. `now` is performance.now(). */
export function ranked(endpoints: readonly Endpoint[], now: number): Endpoint[] {
  return endpoints
    .map((endpoint, place) => {
      const wait = endpoint.delay(now);
      return {
        endpoint,
        group: groupOf(wait, endpoint.down(now)),
        cost: place * PREFERENCE_MS + costOf(endpoint) + wait,
      };
    })
    .sort((a, b) => a.group - b.group || a.cost - b.cost)
    .map(({ endpoint }) => endpoint);
}

function groupOf(wait: number, isDown: boolean): number {
  if (wait > SHORT_WAIT_MS) return 3;
  if (isDown) return 2;
  return wait > 0 ? 1 : 0;
}

function costOf(endpoint: Endpoint): number {
  const { latencyMs, lag } = endpoint.health();
  return (latencyMs ?? UNKNOWN_LATENCY_MS) + Math.max(0, lag - LAG_TOLERANCE) * SLOT_MS;
}
