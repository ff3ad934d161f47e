// Outcomes are written in batches: while one is being written the next gathers, so that batches grow with the rate and a lone outcome waits for
// nobody. What cannot be written is kept and tried again: the database may be away for a while.
import { backoff } from '../backoff.ts';
import type { Outcome } from '../db/deliveries.ts';

export interface Recorder {
  add(outcome: Outcome): void;
  /** Resolves when everything added so far is written. */
  settled(): Promise<void>;
  readonly waiting: number;
}

export interface RecorderOptions {
  write: (outcomes: Outcome[]) => Promise<void>;
  /** Told of every batch that could not be written, and how many times in a row. */
  onError: (error: unknown, failures: number) => void;
}

/** Bounds one statement. */
const batchLimit = 1000;
/** After a batch of this many the next gathers for a little: places are free already, and large batches cost half as much per row. */
const busyBatch = 50;
const gatherMs = 15;

export function createRecorder({ write, onError }: RecorderOptions): Recorder {
  let queue: Outcome[] = [];
  let running: Promise<void> | undefined;

  const drain = async () => {
    // All that ended in this turn of the event loop goes into one batch.
    await new Promise(setImmediate);
    for (let failures = 0; queue.length > 0;) {
      const batch = queue.slice(0, batchLimit);
      try {
        await write(batch);
        queue = queue.slice(batch.length);
        failures = 0;
        if (batch.length >= busyBatch && queue.length < batchLimit) await new Promise((resolve) => setTimeout(resolve, gatherMs));
      } catch (error) {
        failures += 1;
        onError(error, failures);
        await new Promise((resolve) => setTimeout(resolve, backoff(failures, { cap: 2000 })));
      }
    }
    running = undefined;
  };

  return {
    add(outcome) {
      queue.push(outcome);
      running ??= drain();
    },
    async settled() {
      await running;
    },
    get waiting() {
      return queue.length;
    },
  };
}
