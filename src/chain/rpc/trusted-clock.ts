// Checks the times that endpoints return for the cluster's clock. Payments fall due by this clock,
// so an endpoint with a wrong clock could charge every subscriber a period early.
import type { ClockAccount } from '../program/layouts.ts';

export interface TrustedClockOptions {
  /** Called at most once an hour with a rejected reading and the expected time (Unix seconds). */
  readonly onDisbelief: (seconds: number, expected: number) => void;
  /** Unix seconds of this machine's clock, which is only used to check readings. */
  readonly machineSeconds?: () => number;
  /** A monotonic clock in milliseconds. */
  readonly monotonicMs?: () => number;
}

/** Maximum difference of a plausible clock reading from the expected time. */
const MAX_SECONDS_OFF = 600;
/** Minimum time between two alerts about implausible clocks. */
const ALERT_INTERVAL_MS = 3_600_000;

/** Whether the service may act on a reading of the cluster's clock (Unix seconds). */
export type BelievesClock = (seconds: bigint) => boolean;

/**
 * Creates a check of clock readings. A reading is accepted if it is within ten minutes of this
 * machine's clock or of the expected time. The expected time is the last trusted reading plus the
 * time since that reading. After a rejected reading, `readAll` reads the clocks of all endpoints in
 * the background. If two endpoints confirm the rejected reading, the reading becomes the last
 * trusted reading.
 */
export function createTrustedClock(
  readAll: () => Promise<(ClockAccount | null)[]>,
  {
    onDisbelief,
    machineSeconds = () => Date.now() / 1000,
    monotonicMs = () => performance.now(),
  }: TrustedClockOptions,
): BelievesClock {
  // The last trusted reading: near this machine's clock, or confirmed by two endpoints. A reading
  // that is only near the expected time is accepted but not stored. If it were stored, an endpoint
  // with a wrong clock could move the expected time in small steps.
  let last: { seconds: number; at: number } | undefined;
  let reportedAt = -Infinity;
  let isAsking = false;
  const near = (one: number, other: number) => Math.abs(one - other) <= MAX_SECONDS_OFF;

  async function confirm(seconds: number): Promise<void> {
    const responses = await readAll();
    const agreeing = responses.filter(
      (clock) => clock !== null && near(Number(clock.unixTimestamp), seconds),
    );
    if (agreeing.length >= 2) last = { seconds, at: monotonicMs() };
  }

  return (reading) => {
    const seconds = Number(reading);
    const expected = last && last.seconds + (monotonicMs() - last.at) / 1000;
    if (near(seconds, machineSeconds())) {
      last = { seconds, at: monotonicMs() };
      return true;
    }
    if (expected !== undefined && near(seconds, expected)) return true;
    if (!isAsking) {
      isAsking = true;
      // When no endpoint can be reached, the reading stays unconfirmed.
      void confirm(seconds)
        .catch(() => undefined)
        .finally(() => (isAsking = false));
    }
    if (monotonicMs() - reportedAt > ALERT_INTERVAL_MS) {
      reportedAt = monotonicMs();
      onDisbelief(seconds, expected ?? machineSeconds());
    }
    return false;
  };
}
