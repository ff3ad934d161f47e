// Caches the progress of offers that this process has returned, by holder. Past a rate limit, the
// holders still get the cached progress. This costs no look-up of the holder and at most one
// look-up of an offer per second.
import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { OfferProgress } from '../../domain/offers/hand-over.ts';

/** Milliseconds after which the progress is read again. */
const FRESH_MS = 1000;
/** When this many entries are stored, the entry that was returned longest ago is deleted. */
const MAX_ENTRIES = 10_000;

interface CacheEntry {
  progress: OfferProgress;
  /** Time of the reading by performance.now(). */
  readAt: number;
}

export class ProgressCache {
  readonly #read: (id: string) => Promise<OfferProgress>;
  readonly #own: readonly string[];
  /** Maps each holder and offer to the last returned progress. The oldest entry is first. */
  readonly #entries = new Map<string, CacheEntry>();

  /**
   * `pageOrigins`: the origins of the service's own pages. A POST of such a page has the header
   * Origin, a GET has none. Both count as the same holder.
   */
  constructor(read: (id: string) => Promise<OfferProgress>, pageOrigins: readonly string[]) {
    this.#read = read;
    this.#own = pageOrigins;
  }

  /** Reads the progress of an offer for its holder. Throws NOT_FOUND if the offer is gone. */
  async read(request: FastifyRequest, id: string): Promise<OfferProgress> {
    const progress = await this.#read(id);
    const key = this.#keyOf(request, id);
    this.#entries.delete(key);
    this.#entries.set(key, { progress, readAt: performance.now() });
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > MAX_ENTRIES && oldest !== undefined) this.#entries.delete(oldest);
    return progress;
  }

  /**
   * Returns the progress of an offer, at most a second old. Returns undefined if this process has
   * not returned this offer's progress to the same credentials and Origin before.
   */
  async find(request: FastifyRequest, id: string): Promise<OfferProgress | undefined> {
    const entry = this.#entries.get(this.#keyOf(request, id));
    if (entry === undefined) return undefined;
    if (performance.now() - entry.readAt >= FRESH_MS) {
      entry.readAt = performance.now();
      entry.progress = await this.#read(id);
    }
    return entry.progress;
  }

  #keyOf({ headers: { authorization = '', origin = '' } }: FastifyRequest, id: string): string {
    const page = this.#own.includes(origin) ? '' : origin;
    return createHash('sha256').update(`${id}\n${page}\n${authorization}`).digest('base64');
  }
}
