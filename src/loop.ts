// The loop of a worker. The loop calls `turn` again and again, one call at a time. wake() starts
// the next turn early. After a failed turn, the loop waits for a backoff.
import { backoff } from './backoff.ts';

export interface Loop {
  /**
   * Starts the next turn now, or right after the current turn. Does not shorten the backoff after a
   * failed turn.
   */
  wake(): void;
  /** Starts no further turn. Resolves when the current turn has ended. */
  stop(): Promise<void>;
}

export interface LoopOptions {
  /** Name of the loop, such as "collecting". It labels the loop's metrics. */
  name?: string;
  /**
   * Delay (ms) between a turn that returned false and the next turn. wake() ends the delay early.
   * If `idleMs` is a function, it is called after each such turn and returns the delay.
   */
  idleMs: number | (() => number);
  /**
   * One turn of the loop. Returns true to request another turn at once. When it throws, the loop
   * reports the error and continues after a backoff.
   */
  turn: () => Promise<boolean>;
  /** Called after every failed turn, with the number of consecutive failures. */
  onError: (error: unknown, failures: number) => void;
}

/**
 * Observes every turn of all loops of this process. The argument `loop` is the same object for all
 * turns of one loop.
 */
export interface LoopObserver {
  started: (name: string) => void;
  succeeded: (loop: object) => void;
  failed: (loop: object, name: string, error: unknown) => void;
  stopped: (loop: object) => void;
}

let observer: LoopObserver | undefined;

/**
 * Sets the observer of all loops of this process. The runner of a daemon calls this function when
 * the daemon starts and when it stops.
 */
export function observeLoops(next: LoopObserver | undefined): void {
  observer = next;
}

/**
 * Maximum backoff (ms) after failed turns. After Postgres recovers, the next turn therefore starts
 * within this time.
 */
const FAILURE_MS = 2000;

/** Starts a loop. When a turn throws, `onError` is called and the loop continues. */
export function startLoop({ name = 'other', idleMs, turn, onError }: LoopOptions): Loop {
  const identity = {};
  observer?.started(name);
  let stopped = false;
  let woken = false;
  // `stopped` and `woken` are read through functions. Otherwise TypeScript would assume that they
  // do not change while a turn is awaited.
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
  // The first turn is deferred until the caller has the loop's handle, because a turn may use the
  // handle.
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
