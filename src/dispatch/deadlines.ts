// One timer for all deadlines of the same length: a timer per request costs a third of the sending rate (measured.md).

export interface Deadlines {
  /** Calls `onPassed` in `ms` unless the returned function is called first. */
  start(onPassed: () => void): () => void;
}

/** `ms` holds for all of them, so that they pass in the order in which they were started. */
export function createDeadlines(ms: number): Deadlines {
  const running = new Set<{ at: number; onPassed: () => void }>();
  let timer: NodeJS.Timeout | undefined;

  const arm = () => {
    const [oldest] = running;
    // A request in flight keeps the process alive by its socket; the timer need not, and is not cleared when the last request ends in time.
    timer = oldest === undefined ? undefined : setTimeout(pass, Math.max(1, Math.ceil(oldest.at - performance.now()))).unref();
  };
  const pass = () => {
    const now = performance.now();
    for (const deadline of running) {
      if (deadline.at > now) break;
      running.delete(deadline);
      deadline.onPassed();
    }
    arm();
  };

  return {
    start(onPassed) {
      const deadline = { at: performance.now() + ms, onPassed };
      running.add(deadline);
      if (timer === undefined) arm();
      return () => running.delete(deadline);
    },
  };
}
