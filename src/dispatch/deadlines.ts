// One timer for all deadlines of the same length: a timer per request costs a third of the sending rate (measured.md).

/** One that is running: a link in the chain of those that were started before and after it. */
export interface Deadline {
  readonly at: number;
  readonly onPassed: () => void;
  before: Deadline | undefined;
  after: Deadline | undefined;
  running: boolean;
}

export interface Deadlines {
  /** Calls `onPassed` in `ms` unless it is stopped first. */
  start(onPassed: () => void): Deadline;
  /** Nothing happens where it has passed or was stopped already. */
  stop(deadline: Deadline | undefined): void;
}

/** `ms` holds for all of them, so that they pass in the order in which they were started. */
export function createDeadlines(ms: number): Deadlines {
  let oldest: Deadline | undefined;
  let newest: Deadline | undefined;
  let timer: NodeJS.Timeout | undefined;

  const arm = () => {
    // A request in flight keeps the process alive by its socket; the timer need not, and is not cleared when the last request ends in time.
    timer = oldest === undefined ? undefined : setTimeout(pass, Math.max(1, Math.ceil(oldest.at - performance.now()))).unref();
  };
  const stop = (deadline: Deadline | undefined) => {
    if (deadline?.running !== true) return;
    deadline.running = false;
    const { before, after } = deadline;
    if (before === undefined) oldest = after;
    else before.after = after;
    if (after === undefined) newest = before;
    else after.before = before;
    // It may be kept for longer than its neighbours.
    deadline.before = deadline.after = undefined;
  };
  const pass = () => {
    const now = performance.now();
    while (oldest !== undefined && oldest.at <= now) {
      const { onPassed } = oldest;
      stop(oldest);
      onPassed();
    }
    arm();
  };

  return {
    start(onPassed) {
      const deadline: Deadline = { at: performance.now() + ms, onPassed, before: newest, after: undefined, running: true };
      if (newest === undefined) oldest = deadline;
      else newest.after = deadline;
      newest = deadline;
      if (timer === undefined) arm();
      return deadline;
    },
    stop,
  };
}
