// Offers whose progress this process has answered, by holder. Past a rate limit their holders still
// get the progress, which costs no look-up of the holder and at most one of an offer in a second.
import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { OfferProgress } from '../../domain/offers/hand-over.ts';

/** Milliseconds after which the progress is read again. */
const FRESH_MS = 1000;
/** When this many are stored, the one that was answered longest ago is deleted. */
const MAX_KNOWN = 10_000;

interface Known {
  progress: OfferProgress;
  /** Time of the reading by performance.now(). */
  readAt: number;
}

export class KnownProgress {
  readonly #read: (id: string) => Promise<OfferProgress>;
  readonly #own: readonly string[];
  /** Maps each holder and offer to the last answer. The oldest answer is first. */
  readonly #known = new Map<string, Known>();

  /**
   * `own`: the origins of the service's pages. Their POST has the header Origin and their GET has
   * none, so both stand for one holder.
   */
  constructor(read: (id: string) => Promise<OfferProgress>, own: readonly string[]) {
    this.#read = read;
    this.#own = own;
  }

  /** Reads the progress of an offer for its holder. Throws NOT_FOUND if the offer is gone. */
  async read(request: FastifyRequest, id: string): Promise<OfferProgress> {
    const progress = await this.#read(id);
    const key = this.#keyOf(request, id);
    this.#known.delete(key);
    this.#known.set(key, { progress, readAt: performance.now() });
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
    return progress;
  }

  /**
   * Returns the progress of an offer, at most a second old. Returns undefined if this process has
   * not answered the same credentials and Origin about this offer.
   */
  async find(request: FastifyRequest, id: string): Promise<OfferProgress | undefined> {
    const known = this.#known.get(this.#keyOf(request, id));
    if (known === undefined) return undefined;
    if (performance.now() - known.readAt >= FRESH_MS) {
      known.readAt = performance.now();
      known.progress = await this.#read(id);
    }
    return known.progress;
  }

  #keyOf({ headers: { authorization = '', origin = '' } }: FastifyRequest, id: string): string {
    const page = this.#own.includes(origin) ? '' : origin;
    return createHash('sha256').update(`${id}\n${page}\n${authorization}`).digest('base64');
  }
}
