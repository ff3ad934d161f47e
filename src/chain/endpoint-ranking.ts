import type { RpcEndpoint } from './endpoint.ts';

// Costs in milliseconds of latency: per place in the list, for an unknown latency, per slot of lag.
const PREFERENCE_MS = 100;
const UNKNOWN_LATENCY_MS = 50;
const SLOT_MS = 400;
// Up to this wait, a healthy endpoint is preferred to a failing one.
const SHORT_WAIT_MS = 250;
// A difference of one or two slots is propagation delay, not lag.
const LAG_TOLERANCE = 2;

/** Sorts endpoints best first: up and free now, up and free soon, down, rate limited for longer. They are given in order of preference. */
export function ranked(endpoints: readonly RpcEndpoint[], now: number): RpcEndpoint[] {
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

function costOf(endpoint: RpcEndpoint): number {
  const { latencyMs, lag } = endpoint.health();
  return (latencyMs ?? UNKNOWN_LATENCY_MS) + Math.max(0, lag - LAG_TOLERANCE) * SLOT_MS;
}
