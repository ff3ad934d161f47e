// Measures the time in which this process was suspended. A machine that stops for minutes (SIGSTOP,
// a laptop's lid) also stops the keepers and the chain, while the clocks continue. Actions before
// and after such a pause count as consecutive.

export interface Sleep {
  /** Unix ms, less earlier pauses. */
  awake: (unixMs: number) => number;
  /** Total milliseconds of pauses so far. */
  total(): number;
  stop(): void;
}

const TICK_MS = 250;
/**
 * A pause, and the CPU time up to which it counts as one: with more the process was busy, not
 * suspended.
 */
const ASLEEP_MS = 2000;
const BUSY_PART = 0.2;

/** Watches the clock until it is stopped. */
export function watchSleep(): Sleep {
  const sleeps: { from: number; to: number }[] = [];
  let [ticked, worked] = [Date.now(), process.cpuUsage()];
  const timer = setInterval(() => {
    const now = Date.now();
    const { user, system } = process.cpuUsage(worked);
    if (now - ticked > ASLEEP_MS && (user + system) / 1000 < BUSY_PART * (now - ticked))
      sleeps.push({ from: ticked, to: now });
    [ticked, worked] = [now, process.cpuUsage()];
  }, TICK_MS);
  timer.unref();
  const before = (unixMs: number) =>
    sleeps.reduce((sum, { from, to }) => sum + Math.max(0, Math.min(unixMs, to) - from), 0);
  return {
    awake: (unixMs) => unixMs - before(unixMs),
    total: () => before(Infinity),
    stop: () => {
      clearInterval(timer);
    },
  };
}
