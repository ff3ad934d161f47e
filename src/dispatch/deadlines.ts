// One timer for all deadlines of the same length: a timer per request costs a third of the sending rate (measured.md).

export interface Deadlines {
  /** Calls `onPassed` in `ms` unless the returned function is called first. */
  start(onPassed: () => void): () => void;
}

/** `ms` holds for all of them, so that they pass in the order in which they were started. */
export function createDeadlines(ms: number): Deadlines {
  const running = new Map<symbol, { at: number; onPassed: () => void }>();
  let timer: NodeJS.Timeout | undefined;

  const arm = () => {
    const [oldest] = running.values();
    timer = oldest === undefined ? undefined : setTimeout(pass, Math.max(1, Math.ceil(oldest.at - performance.now())));
  };
  const pass = () => {
    const now = performance.now();
    for (const [key, { at, onPassed }] of running) {
      if (at > now) break;
      running.delete(key);
      onPassed();
    }
    arm();
  };

  return {
    start(onPassed) {
      const key = Symbol();
      running.set(key, { at: performance.now() + ms, onPassed });
      if (timer === undefined) arm();
      return () => running.delete(key);
    },
  };
}
