// Compares the clocks of Postgres, this host and the chain. Leases and the timestamps in webhook
// signatures follow the clock of Postgres. Access tokens follow the host's clock, and due payments
// follow the chain's clock.
import { Gauge, type Registry } from 'prom-client';

export type ClockName = 'postgres' | 'host' | 'chain';

/**
 * Seconds by which the clocks of Postgres and of the chain are ahead of this host's clock. A clock
 * that could not be read is null.
 */
export interface ClockOffsets {
  postgres: number | null;
  chain: number | null;
}

export interface ClockDifference extends ClockOffsets {
  /**
   * The wrong clock: it differs from the two other clocks, and those two agree. Null when only two
   * clocks are known, or when no two clocks agree.
   */
  odd: ClockName | null;
  /**
   * Seconds by which the wrong clock is ahead of the nearest other clock. The number is negative
   * when the wrong clock is behind. If `odd` is null, this is the largest difference between two
   * clocks.
   */
  seconds: number;
}

/**
 * Maximum difference in seconds between two clocks that agree. `billing status` shows a larger
 * difference.
 */
export const MAX_AGREED_SECONDS = 30;
/**
 * Difference in seconds above which the clocks are a problem. The alert BillingClocksDiffer has the
 * same limit. A webhook receiver refuses a timestamp that differs from its own clock by more than
 * 300 s, so this limit is lower than 300 s.
 */
export const MAX_CLOCK_SECONDS = 240;

/** Decides which of the clocks is wrong. Pure. */
export function compareClocks(offsets: ClockOffsets): ClockDifference {
  const measured = Object.entries({ host: 0, ...offsets })
    .flatMap(([name, at]) => (at === null ? [] : [{ name: name as ClockName, at }]))
    .toSorted((a, b) => a.at - b.at);
  const [first, middle, last] = measured;
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
 * Registers a gauge of the difference between the clocks. The returned function updates the gauge
 * from newly measured offsets.
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
