// A worker's loop with a stop handle: one turn at a time, woken early by wake(), slowed by backoff while turns fail.
import { backoff } from './backoff.ts';

export interface Loop {
  /** Runs the next turn now, or right after the current one. */
  wake(): void;
  /** Takes no further turn; resolves when the one in hand has ended. */
  stop(): Promise<void>;
}

export interface LoopOptions {
  /** Milliseconds between turns when nothing wakes the loop and the last turn left nothing to do; a function is asked after each turn. */
  idleMs: number | (() => number);
  /** One turn. `true` asks for another at once. It may throw: the loop reports it and goes on after a backoff. */
  turn: () => Promise<boolean>;
  /** Told of every failed turn and how many failed in a row. */
  onError: (error: unknown, failures: number) => void;
}

/** The longest wait after a failed turn: what failed (Postgres, mostly) is used again within this of its return. */
const failureMs = 2000;

/** Starts turning at once. Never rejects. */
export function startLoop({ idleMs, turn, onError }: LoopOptions): Loop {
  let stopped = false;
  let woken = false;
  // Functions, since both change while a turn is awaited.
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

  const run = async () => {
    let failures = 0;
    while (!isStopped()) {
      woken = false;
      let wait = 0;
      try {
        if (!(await turn())) wait = typeof idleMs === 'number' ? idleMs : idleMs();
        failures = 0;
      } catch (error) {
        failures += 1;
        onError(error, failures);
        wait = backoff(failures, { cap: failureMs });
      }
      if (isStopped()) break;
      if (wait > 0 && (!isWoken() || failures > 0)) await pause(wait);
      else await new Promise(setImmediate);
    }
  };
  // Not before the caller holds the handle, which a turn may use.
  const ended = Promise.resolve().then(run);

  return {
    wake() {
      woken = true;
      rouse?.();
    },
    async stop() {
      stopped = true;
      rouse?.();
      await ended;
    },
  };
}
