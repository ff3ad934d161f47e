// Writes outcomes in batches: while one is written the next gathers, so that batches grow with the rate and a single outcome does not wait. With many
// waiting, a second batch is written beside the first. A batch that cannot be written is kept and tried again.
import { backoff } from '../backoff.ts';
import type { Sql } from '../db/connect.ts';
import { findRecorded, recordOutcomes, type Outcome } from '../db/delivery-queue.ts';

export interface CompleterParts {
  queue: Sql;
  /** Called after each batch that was written. */
  onWritten: () => void;
  /** Called with the number of outcomes whose claim was lost: another dispatcher has claimed these deliveries. */
  onLost: (count: number) => void;
  /** Called with each batch that could not be written, and how many times in a row. */
  onError: (error: unknown, failures: number) => void;
}

/** Outcomes of one statement. */
const batchLimit = 500;
/** At this number of waiting outcomes a second batch is written beside the first. */
const secondBatch = 300;
/** After a batch of `busyBatch` the next gathers for so long: large batches cost half as much per row. */
const busyBatch = 50;
const gatherMs = 10;

export class Completer {
  /** The last batch could not be written. */
  isFailing = false;
  private readonly parts: CompleterParts;
  private queued: Outcome[] = [];
  private inHand = 0;
  private writing = 0;
  private readonly writers = new Set<Promise<void>>();

  constructor(parts: CompleterParts) {
    this.parts = parts;
  }

  add(outcome: Outcome): void {
    this.queued.push(outcome);
    if (this.writing > 0 && (this.writing > 1 || this.queued.length < secondBatch)) return;
    this.writing += 1;
    const writer = this.drain().finally(() => this.writers.delete(writer));
    this.writers.add(writer);
  }

  /** Resolves when everything added so far is written. */
  async settled(): Promise<void> {
    while (this.writers.size > 0) await Promise.all(this.writers);
  }

  /** Outcomes that are not written yet. */
  get waiting(): number {
    return this.queued.length + this.inHand;
  }

  private async drain(): Promise<void> {
    // Outcomes of one turn of the event loop go into one batch.
    await new Promise(setImmediate);
    for (let failures = 0; this.queued.length > 0;) {
      const batch = this.queued.slice(0, batchLimit);
      this.queued = this.queued.slice(batch.length);
      this.inHand += batch.length;
      try {
        await this.write(batch);
        this.inHand -= batch.length;
        this.isFailing = false;
        failures = 0;
        this.parts.onWritten();
        if (batch.length >= busyBatch && this.queued.length < secondBatch)
          await new Promise((resolve) => setTimeout(resolve, gatherMs));
      } catch (error) {
        this.inHand -= batch.length;
        this.queued = batch.concat(this.queued);
        this.isFailing = true;
        failures += 1;
        this.parts.onError(error, failures);
        await new Promise((resolve) => setTimeout(resolve, backoff(failures, { cap: 2000 })));
      }
    }
    // Not in finally(): an outcome that is added before it runs needs a writer.
    this.writing -= 1;
  }

  private async write(batch: readonly Outcome[]): Promise<void> {
    const { queue, onLost } = this.parts;
    const written = await recordOutcomes(queue, batch);
    const missing = batch.filter(({ id }) => !written.has(id));
    if (missing.length > 0) {
      // A batch whose first answer was lost with its connection has been written already.
      const recorded = await findRecorded(queue, missing);
      onLost(missing.length - recorded.size);
    }
  }
}
