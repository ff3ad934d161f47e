// Writes outcomes in batches. While a batch is written, the next batch collects outcomes. If many
// outcomes wait, a second batch is written in parallel. A failed batch is kept and retried.
import { backoff } from '../backoff.ts';
import { findRecorded, recordOutcomes, type Outcome } from '../db/delivering/delivery-queue.ts';
import type { Sql } from '../db/postgres/connect.ts';

export interface CompleterParts {
  queue: Sql;
  gatherMs: number;
  /** Called after each written batch. */
  onWritten: () => void;
  /**
   * Called with the number of outcomes that were dropped because their claim had expired. Another
   * dispatcher may have claimed the deliveries of these outcomes.
   */
  onLost: (count: number) => void;
  /** Called when a batch cannot be written, with the number of consecutive failures. */
  onError: (error: unknown, failures: number) => void;
}

/** Maximum number of outcomes per statement. */
const MAX_BATCH = 500;
/** A second batch is written in parallel when at least this number of outcomes waits. */
const SECOND_BATCH = 300;
/**
 * After a batch of this many outcomes, the next batch is collected for `gatherMs`, because a large
 * batch costs half as much per row.
 */
const BUSY_BATCH = 50;

export class Completer {
  /** True when the last batch could not be written. */
  isFailing = false;
  readonly #parts: CompleterParts;
  #queued: Outcome[] = [];
  #inHand = 0;
  #writing = 0;
  readonly #writers = new Set<Promise<void>>();

  constructor(parts: CompleterParts) {
    this.#parts = parts;
  }

  add(outcome: Outcome): void {
    this.#queued.push(outcome);
    if (this.#writing > 0 && (this.#writing > 1 || this.#queued.length < SECOND_BATCH)) return;
    this.#writing += 1;
    const writer = this.#drain().finally(() => this.#writers.delete(writer));
    this.#writers.add(writer);
  }

  /** Resolves when all outcomes added so far are written. */
  async settled(): Promise<void> {
    while (this.#writers.size > 0) await Promise.all(this.#writers);
  }

  /** Number of outcomes that are not written yet. */
  get waiting(): number {
    return this.#queued.length + this.#inHand;
  }

  async #drain(): Promise<void> {
    // Outcomes that are added in the same event-loop turn share a batch.
    await new Promise(setImmediate);
    for (let failures = 0; this.#queued.length > 0;) {
      const batch = this.#queued.slice(0, MAX_BATCH);
      this.#queued = this.#queued.slice(batch.length);
      this.#inHand += batch.length;
      try {
        await this.#write(batch);
        this.#inHand -= batch.length;
        this.isFailing = false;
        failures = 0;
        this.#parts.onWritten();
        if (batch.length >= BUSY_BATCH && this.#queued.length < SECOND_BATCH)
          await new Promise((resolve) => setTimeout(resolve, this.#parts.gatherMs));
      } catch (error) {
        this.#inHand -= batch.length;
        this.#queued = batch.concat(this.#queued);
        this.isFailing = true;
        failures += 1;
        this.#parts.onError(error, failures);
        await new Promise((resolve) => setTimeout(resolve, backoff(failures, { cap: 2000 })));
      }
    }
    // Decremented here and not in the finally() of add(), which runs later. An outcome that is
    // added in between must start a new writer, because this writer no longer looks at the queue.
    this.#writing -= 1;
  }

  async #write(batch: readonly Outcome[]): Promise<void> {
    const { queue, onLost } = this.#parts;
    const written = await recordOutcomes(queue, batch);
    const missing = batch.filter(({ id }) => !written.has(id));
    if (missing.length > 0) {
      // An earlier write of this batch may have recorded these outcomes before its connection was
      // lost. Recorded outcomes do not count as lost.
      const recorded = await findRecorded(queue, missing);
      onLost(missing.length - recorded.size);
    }
  }
}
