// Time that this process was not let run: a machine that stops all of it for minutes (SIGSTOP, a laptop's lid) stops the keepers and the chain with
// it, while Postgres's clock and ours go on. What lies on both sides of such a pause happened one right after the other.

export interface Sleep {
  /** Unix ms, less what was slept through before. */
  awake: (unixMs: number) => number;
  /** Milliseconds slept through until now. */
  total(): number;
  stop(): void;
}

const TICK_MS = 250;
/** A pause, and how much of it this process may have worked: beyond that it was busy and not asleep. */
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
