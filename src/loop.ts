// A worker's loop with a stop handle: one turn at a time, started early by wake(), slowed by
// backoff while turns fail.
import { backoff } from './backoff.ts';

export interface Loop {
  /**
   * Runs the next turn now, or right after the current one. Does not shorten a backoff after a
   * failed turn.
   */
  wake(): void;
  /** Starts no further turn; resolves when the current one has ended. */
  stop(): Promise<void>;
}

export interface LoopOptions {
  /** Name of the loop, such as "collecting": the label of its metrics. */
  name?: string;
  /**
   * Milliseconds between turns when nothing wakes the loop and the last turn left nothing to do; a
   * function is called after each turn.
   */
  idleMs: number | (() => number);
  /**
   * One turn. `true` requests another turn at once. When it throws, the loop reports the error and
   * continues after a backoff.
   */
  turn: () => Promise<boolean>;
  /** Called after every failed turn with the number of consecutive failures. */
  onError: (error: unknown, failures: number) => void;
}

/**
 * Observes every turn of every loop of this process. `loop` is the same object for every turn of
 * one loop.
 */
export interface LoopObserver {
  started: (name: string) => void;
  succeeded: (loop: object) => void;
  failed: (loop: object, name: string, error: unknown) => void;
  stopped: (loop: object) => void;
}

let observer: LoopObserver | undefined;

/** Sets the observer of all loops of this process; the runner of a daemon does this once. */
export function observeLoops(next: LoopObserver | undefined): void {
  observer = next;
}

/**
 * Cap of the backoff after failed turns, which is also the longest delay after Postgres recovers.
 */
const FAILURE_MS = 2000;

/** Starts a loop. Its promise never rejects. */
export function startLoop({ name = 'other', idleMs, turn, onError }: LoopOptions): Loop {
  const identity = {};
  observer?.started(name);
  let stopped = false;
  let woken = false;
  // Functions, because both values change while a turn is awaited.
  const isStopped = () => stopped;
  const isWoken = () => woken;
  let rouse: (() => void) | undefined;

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      rouse = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  let failures = 0;
  const run = async () => {
    while (!isStopped()) {
      woken = false;
      let wait = 0;
      try {
        if (!(await turn())) wait = typeof idleMs === 'number' ? idleMs : idleMs();
        failures = 0;
        observer?.succeeded(identity);
      } catch (error) {
        failures += 1;
        observer?.failed(identity, name, error);
        onError(error, failures);
        wait = backoff(failures, { cap: FAILURE_MS });
      }
      if (isStopped()) break;
      if (wait > 0 && (!isWoken() || failures > 0)) await pause(wait);
      else await new Promise(setImmediate);
    }
    observer?.stopped(identity);
  };
  // Deferred until the caller has the handle, which a turn may use.
  const ended = Promise.resolve().then(run);

  return {
    wake() {
      woken = true;
      if (failures === 0) rouse?.();
    },
    async stop() {
      stopped = true;
      rouse?.();
      await ended;
    },
  };
}
