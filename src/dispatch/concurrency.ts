// Limits requests in flight in total, per endpoint, per host and per class of endpoints. Selects
// the endpoint that sends next. The state is in memory, per process.
//
// An endpoint's window (its maximum of requests in flight) starts at one request. It grows by one
// with each success up to a cap and halves with each failure. WEBHOOK_ENDPOINT_CONCURRENCY limits
// all dispatchers together, and the cap is this process's share of this limit.
// WEBHOOK_HOST_CONCURRENCY limits the requests to all endpoints of a host, and is shared likewise.
//
// Failing endpoints get at most 1/4 of the process's requests in flight (places). Failing, slow and
// new endpoints together get at most 1/2, so half is left for fast endpoints. Two places are
// reserved for new endpoints, whose speed is unknown, so that they need not wait for slow
// endpoints.
//
// Endpoints of a class take turns. In a turn, an endpoint starts (100 ms / its response time)
// requests, at least one. Requests to an endpoint with maxPerSecond start at even intervals. The
// processes share maxPerSecond in the same way as WEBHOOK_ENDPOINT_CONCURRENCY, so all processes
// together stay within both limits, also while a process starts or stops.
import type { ClaimedDelivery } from '../db/delivering/delivery-queue.ts';
import type { SendingEndpoint } from './endpoints.ts';
import type { Host } from './hosts.ts';

/** Class of an endpoint, decided by its latest requests. It is `new` before its first response. */
export type Pace = 'fast' | 'slow' | 'failing' | 'new';

/** A delivery claimed by this dispatcher. */
export interface Claimed extends ClaimedDelivery {
  claimId: string;
  /**
   * performance.now() after which the delivery must not be sent, because its claim ends too soon.
   */
  sendBefore: number;
}

/** A claimed delivery with its endpoint, ready to be sent. */
export interface Ready extends Claimed {
  endpoint: SendingEndpoint;
}

/** A dispatcher's in-memory state for one endpoint. */
export class EndpointQueue {
  readonly endpointId: string;
  /** Claimed but unsent deliveries, oldest due first. */
  ready: Ready[] = [];
  /** Undefined before the first claimed delivery. */
  host: Host | undefined;
  /** Maximum number of requests in flight to this endpoint. */
  window = 1;
  inFlight = 0;
  /** Smoothed response time in ms; undefined before the first response. */
  responseMs: number | undefined;
  isFailing = false;
  /** Number of requests left in the endpoint's current turn. */
  requestsLeft = 0;
  /** Position in the order of turns; the lowest value is next. */
  waitingSince = 0;
  usedAt = performance.now();
  /** Requests per second that all dispatchers together may start; null means no limit. */
  maxPerSecond: number | null = null;
  /** performance.now() before which no request may start. */
  notBefore = 0;
  /** Timer that ends at notBefore; undefined when the endpoint does not wait for notBefore. */
  timer: NodeJS.Timeout | undefined;

  constructor(endpointId: string) {
    this.endpointId = endpointId;
  }

  get pace(): Pace {
    if (this.isFailing) return 'failing';
    if (this.responseMs === undefined) return 'new';
    return this.responseMs > SLOW_MS ? 'slow' : 'fast';
  }
}

/**
 * One request in flight takes one place. The place counts for the class that the endpoint had when
 * the request started.
 */
export interface Place {
  queue: EndpointQueue;
  pace: Pace;
  host: Host | undefined;
}

/** Response time above which an endpoint counts as slow. */
const SLOW_MS = 250;
/**
 * Time budget of an endpoint's turn: the faster an endpoint responds, the more requests it may
 * start in one turn.
 */
const TURN_BUDGET_MS = 100;
/** Number of places that are reserved for new endpoints. */
const NEW_PLACES = 2;
const paces: readonly Pace[] = ['fast', 'new', 'slow', 'failing'];

export class Concurrency {
  inFlight = 0;
  readonly #total: number;
  readonly #perEndpoint: () => number;
  readonly #perEndpointOfAll: number;
  readonly #perHostOfAll: number;
  readonly #byPace: Record<Pace, number> = { fast: 0, slow: 0, failing: 0, new: 0 };
  /** Endpoints that can start a request, in the order of their turns. */
  readonly #waiting: Record<Pace, Set<EndpointQueue>> = {
    fast: new Set(),
    slow: new Set(),
    failing: new Set(),
    new: new Set(),
  };
  readonly #onDue: () => void;
  #turns = 0;

  /** `onDue` is called when an endpoint with a limit per second may start its next request. */
  constructor({
    total,
    perEndpoint,
    perEndpointOfAll,
    perHostOfAll,
    onDue = () => undefined,
  }: {
    total: number;
    /** This process's share of WEBHOOK_ENDPOINT_CONCURRENCY; the share may change. */
    perEndpoint: () => number;
    /** WEBHOOK_ENDPOINT_CONCURRENCY, the limit for all processes together. */
    perEndpointOfAll: number;
    /** WEBHOOK_HOST_CONCURRENCY, the limit for all processes together. */
    perHostOfAll: number;
    onDue?: () => void;
  }) {
    this.#total = total;
    this.#perEndpoint = perEndpoint;
    this.#perEndpointOfAll = perEndpointOfAll;
    this.#perHostOfAll = perHostOfAll;
    this.#onDue = onDue;
  }

  /** Returns the number of further requests that a class of endpoints may start. */
  free(pace: Pace): number {
    const { slow, failing } = this.#byPace;
    const left = this.#total - this.inFlight;
    if (pace === 'fast') return left;
    const half = Math.ceil(this.#total / 2);
    const unmeasured = this.#byPace.new;
    if (pace === 'new')
      return Math.min(left, Math.max(NEW_PLACES, half - slow - failing) - unmeasured);
    const most = Math.max(1, half - Math.max(NEW_PLACES, unmeasured));
    const shared = Math.min(left, most - slow - failing);
    return pace === 'slow' ? shared : Math.min(shared, Math.ceil(this.#total / 4) - failing);
  }

  /**
   * Puts the endpoint in the order of turns if it can start a request; otherwise takes it out. Call
   * this method whenever the endpoint's `ready` has changed.
   */
  update(queue: EndpointQueue): void {
    const set = this.#waiting[queue.pace];
    const waitMs = queue.notBefore - performance.now();
    if (queue.ready.length === 0 || queue.inFlight >= this.windowOf(queue)) set.delete(queue);
    else if (waitMs > 0) {
      set.delete(queue);
      this.#later(queue, waitMs);
    } else if (!set.has(queue)) {
      queue.waitingSince = this.#turns += 1;
      set.add(queue);
    }
  }

  #later(queue: EndpointQueue, ms: number): void {
    queue.timer ??= setTimeout(() => {
      queue.timer = undefined;
      this.update(queue);
      this.#onDue();
    }, ms).unref();
  }

  /** Returns the endpoint whose turn is next; undefined when no request can start. */
  next(): EndpointQueue | undefined {
    let next: EndpointQueue | undefined;
    for (const pace of paces) {
      if (this.free(pace) <= 0) continue;
      const first = this.#first(pace);
      if (first !== undefined && (next === undefined || first.waitingSince < next.waitingSince))
        next = first;
    }
    return next;
  }

  /**
   * Returns the endpoint of a class whose turn is next. When `perEndpoint` becomes smaller, an
   * endpoint in the order of turns may already have too many requests in flight to start another.
   * Such an endpoint loses its turn. An endpoint whose host is crowded keeps its turn.
   */
  #first(pace: Pace): EndpointQueue | undefined {
    for (const queue of this.#waiting[pace]) {
      if (queue.inFlight >= this.windowOf(queue)) this.#waiting[pace].delete(queue);
      else if (!this.isCrowded(queue)) return queue;
    }
    return undefined;
  }

  /** Returns the current maximum of requests in flight to an endpoint. */
  windowOf({ window }: EndpointQueue): number {
    return Math.min(window, this.#perEndpoint());
  }

  /** Whether this process already has the maximum of requests in flight to the endpoint's host. */
  isCrowded({ host }: EndpointQueue): boolean {
    if (host === undefined) return false;
    const part = this.#perEndpoint() / this.#perEndpointOfAll;
    return host.inFlight >= Math.floor(this.#perHostOfAll * part);
  }

  /**
   * Returns how many requests to an endpoint this process may start per second. The rate is never
   * 0, because take() divides by the rate. A process whose share is 0 still starts no requests,
   * because windowOf() is 0.
   */
  rateOf({ maxPerSecond }: EndpointQueue): number {
    const part = Math.max(1, this.#perEndpoint()) / this.#perEndpointOfAll;
    return maxPerSecond === null ? Infinity : maxPerSecond * part;
  }

  /** Takes a place for a request to `queue`, the endpoint returned by next(). */
  take(queue: EndpointQueue): Place {
    const { pace, host } = queue;
    this.inFlight += 1;
    if (host !== undefined) host.inFlight += 1;
    this.#byPace[pace] += 1;
    queue.inFlight += 1;
    queue.usedAt = performance.now();
    queue.notBefore = queue.usedAt + 1000 / this.rateOf(queue);
    queue.requestsLeft -= 1;
    if (queue.requestsLeft <= 0) {
      queue.requestsLeft = Math.floor(
        TURN_BUDGET_MS / Math.max(1, queue.responseMs ?? TURN_BUDGET_MS),
      );
      this.#waiting[pace].delete(queue);
    }
    this.update(queue);
    return { queue, pace, host };
  }

  /** Releases a place after a request that took `durationMs`. */
  give({ queue, pace, host }: Place, isGood: boolean, durationMs: number): void {
    this.inFlight -= 1;
    if (host !== undefined) host.inFlight -= 1;
    this.#byPace[pace] -= 1;
    queue.inFlight -= 1;
    this.#waiting[queue.pace].delete(queue);
    queue.isFailing = !isGood;
    queue.responseMs = ((queue.responseMs ?? durationMs) + durationMs) / 2;
    queue.window = isGood
      ? Math.max(1, Math.min(this.#perEndpoint(), queue.window + 1))
      : Math.max(1, Math.floor(queue.window / 2));
    this.update(queue);
  }
}
