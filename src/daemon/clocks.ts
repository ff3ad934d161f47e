// Compares the clocks of Postgres, this host and the chain. Leases and the signed time of webhooks
// follow the clock of Postgres, tokens follow the host's, due payments follow the chain's.
import { Gauge, type Registry } from 'prom-client';

export type ClockName = 'postgres' | 'host' | 'chain';

/** Seconds by which each clock is ahead of this host's clock. Null while a clock is unknown. */
export interface ClockOffsets {
  postgres: number | null;
  chain: number | null;
}

export interface ClockDifference extends ClockOffsets {
  /**
   * The wrong clock: it differs from the two others, and these agree. Null when only two clocks are
   * known or no two agree.
   */
  odd: ClockName | null;
  /**
   * Seconds by which the odd clock is ahead of the nearest other clock; negative when it is behind.
   * Without an odd clock, the largest difference.
   */
  seconds: number;
}

/**
 * Two clocks agree when they differ by at most this many seconds. `billing status` shows a larger
 * difference.
 */
export const MAX_AGREED_SECONDS = 30;
/**
 * A larger difference in seconds is a problem. The alert BillingClocksDiffer has the same limit.
 * Receivers refuse a webhook whose signed time is 300 s from theirs.
 */
export const MAX_CLOCK_SECONDS = 240;

/** Decides which clock is wrong. A pure function. */
export function compareClocks(offsets: ClockOffsets): ClockDifference {
  const known = Object.entries({ host: 0, ...offsets })
    .flatMap(([name, at]) => (at === null ? [] : [{ name: name as ClockName, at }]))
    .toSorted((a, b) => a.at - b.at);
  const [first, middle, last] = known;
  if (first === undefined || middle === undefined) return { ...offsets, odd: null, seconds: 0 };
  if (last === undefined) return { ...offsets, odd: null, seconds: middle.at - first.at };
  const [below, above] = [middle.at - first.at, last.at - middle.at];
  if (Math.min(below, above) > MAX_AGREED_SECONDS)
    return { ...offsets, odd: null, seconds: below + above };
  return below > above
    ? { ...offsets, odd: first.name, seconds: -below }
    : { ...offsets, odd: last.name, seconds: above };
}

/**
 * Registers a gauge of the difference. The returned function sets the gauge from newly measured
 * offsets.
 */
export function createClockGauge(registry: Registry): (offsets: ClockOffsets) => void {
  const gauge = new Gauge({
    name: 'billing_clock_difference_seconds',
    help: 'Seconds by which this clock (postgres, host, chain) differs from the two others; unknown: the largest difference where it is not known which clock is wrong',
    labelNames: ['clock'] as const,
    registers: [registry],
  });
  return (offsets) => {
    const { odd, seconds } = compareClocks(offsets);
    for (const clock of ['postgres', 'host', 'chain', 'unknown'] as const)
      gauge.set({ clock }, clock === (odd ?? 'unknown') ? Math.abs(seconds) : 0);
  };
}
