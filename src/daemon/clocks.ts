// Compares the clocks of Postgres, this host and the chain. Postgres's decides leases and signs the
// time of webhooks, the host's the life of tokens, the chain's what is due.
import { Gauge, type Registry } from 'prom-client';

export type ClockName = 'postgres' | 'host' | 'chain';

/** How far the others are ahead of this host's clock, in seconds; null where it is not known. */
export interface ClockOffsets {
  postgres: number | null;
  chain: number | null;
}

export interface ClockDifference extends ClockOffsets {
  /**
   * The clock that differs from the two others while these agree; null when only two are known or
   * no two agree.
   */
  odd: ClockName | null;
  /**
   * How far the odd clock is ahead of the nearer one of the others (below 0: behind); without an
   * odd one, the largest difference.
   */
  seconds: number;
}

/** Two clocks agree within this many seconds; more is shown in `billing status`. */
export const MAX_AGREED_SECONDS = 30;
/**
 * Above this many seconds a difference is a problem, as in the alert BillingClocksDiffer. Receivers
 * refuse a webhook whose signed time is 300 s from theirs.
 */
export const MAX_CLOCK_SECONDS = 240;

/** Which clock is wrong, by the two others. Pure. */
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
 * A gauge of the difference. The returned function sets it, with the offsets that a daemon has just
 * measured.
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
