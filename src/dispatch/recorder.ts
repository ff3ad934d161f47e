// Outcomes are written in batches: while one is being written the next gathers, so that batches grow with the rate and a lone outcome waits for
// nobody. Where many wait a second batch is written beside the first: one alone would leave Postgres idle while it waits for the disk, for the
// processor or for the next batch. What cannot be written is kept and tried again: the database may be away for a while.
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
/** From so many on that nobody is writing a second batch begins beside the first. */
const secondBatch = 750;
/** After a batch of this many the next gathers for a little: places are free already, and large batches cost half as much per row. */
const busyBatch = 50;
const gatherMs = 15;

export function createRecorder({ write, onError }: RecorderOptions): Recorder {
  let queue: Outcome[] = [];
  let inHand = 0;
  let writing = 0;
  const writers = new Set<Promise<void>>();

  const drain = async () => {
    // All that ended in this turn of the event loop goes into one batch.
    await new Promise(setImmediate);
    for (let failures = 0; queue.length > 0;) {
      const batch = queue.slice(0, batchLimit);
      queue = queue.slice(batch.length);
      inHand += batch.length;
      try {
        await write(batch);
        inHand -= batch.length;
        failures = 0;
        if (batch.length >= busyBatch && queue.length < secondBatch) await new Promise((resolve) => setTimeout(resolve, gatherMs));
      } catch (error) {
        inHand -= batch.length;
        queue = batch.concat(queue);
        failures += 1;
        onError(error, failures);
        await new Promise((resolve) => setTimeout(resolve, backoff(failures, { cap: 2000 })));
      }
    }
    // At once: what is added before the promise tells of it needs a writer of its own.
    writing -= 1;
  };
  const startWriter = () => {
    writing += 1;
    const writer = drain().finally(() => writers.delete(writer));
    writers.add(writer);
  };

  return {
    add(outcome) {
      queue.push(outcome);
      if (writing === 0 || (writing === 1 && queue.length >= secondBatch)) startWriter();
    },
    async settled() {
      while (writers.size > 0) await Promise.all(writers);
    },
    get waiting() {
      return queue.length + inHand;
    },
  };
}
