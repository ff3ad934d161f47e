// Which endpoint may start a request next: how many are in flight in all, to each endpoint, and to each class of endpoints. In memory, per process.
//
// An endpoint's window starts at one request, grows by one with each success up to the cap and halves with each failure. Classes share places by the
// time that their requests hold them: failing endpoints get a quarter of the places, failing and slow ones together half, so that fast ones always
// have the other half. Within a class endpoints take turns; a turn lasts 100 ms of response time, and at least one request.
import type { ClaimedDelivery } from '../db/delivery-queue.ts';
import type { SendingEndpoint } from './endpoints.ts';

/** By the last requests: `slow` also while nothing is known. */
export type Pace = 'fast' | 'slow' | 'failing';

/** A delivery that this dispatcher has claimed. */
export interface Claimed extends ClaimedDelivery {
  claimId: string;
  /** performance.now() after which it must not be sent: its deadline would not end within the claim. */
  sendBefore: number;
}

/** A claimed delivery that can be sent. */
export interface Ready extends Claimed {
  endpoint: SendingEndpoint;
}

/** A dispatcher's state of one endpoint. */
export class EndpointQueue {
  readonly endpointId: string;
  /** Claimed and not sent yet, oldest due first. */
  ready: Ready[] = [];
  /** Requests that may be in flight. */
  window = 1;
  inFlight = 0;
  /** Smoothed; undefined before the first answer. */
  responseMs: number | undefined;
  isFailing = false;
  /** Requests that are left of its turn. */
  turn = 0;
  /** Its place in the order of turns. */
  waitingSince = 0;
  usedAt = performance.now();

  constructor(endpointId: string) {
    this.endpointId = endpointId;
  }

  get pace(): Pace {
    if (this.isFailing) return 'failing';
    return this.responseMs === undefined || this.responseMs > slowMs ? 'slow' : 'fast';
  }
}

/** A place in flight, counted for the class that its endpoint had when it was taken. */
export interface Place {
  queue: EndpointQueue;
  pace: Pace;
}

const slowMs = 250;
const turnMs = 100;
const paces: readonly Pace[] = ['fast', 'slow', 'failing'];

export class Concurrency {
  inFlight = 0;
  private readonly total: number;
  private readonly perEndpoint: number;
  private readonly byPace: Record<Pace, number> = { fast: 0, slow: 0, failing: 0 };
  /** Endpoints that may start a request, in the order of their turns. */
  private readonly waiting: Record<Pace, Set<EndpointQueue>> = {
    fast: new Set(),
    slow: new Set(),
    failing: new Set(),
  };
  private turns = 0;

  constructor({ total, perEndpoint }: { total: number; perEndpoint: number }) {
    this.total = total;
    this.perEndpoint = perEndpoint;
  }

  /** Places that are free for the class. */
  free(pace: Pace): number {
    const { fast, slow, failing } = this.byPace;
    const left = this.total - fast - slow - failing;
    if (pace === 'fast') return left;
    const half = Math.min(left, Math.ceil(this.total / 2) - slow - failing);
    return pace === 'slow' ? half : Math.min(half, Math.ceil(this.total / 4) - failing);
  }

  /** Call it when `ready` of an endpoint has changed. */
  update(queue: EndpointQueue): void {
    const set = this.waiting[queue.pace];
    if (queue.ready.length === 0 || queue.inFlight >= queue.window) set.delete(queue);
    else if (!set.has(queue)) {
      queue.waitingSince = this.turns += 1;
      set.add(queue);
    }
  }

  /** The endpoint whose turn it is; undefined when nothing may be sent. */
  next(): EndpointQueue | undefined {
    let next: EndpointQueue | undefined;
    for (const pace of paces) {
      if (this.free(pace) <= 0) continue;
      const [first] = this.waiting[pace];
      if (first !== undefined && (next === undefined || first.waitingSince < next.waitingSince))
        next = first;
    }
    return next;
  }

  /** Takes a place for a request to the endpoint that `next` returned. */
  take(queue: EndpointQueue): Place {
    const { pace } = queue;
    this.inFlight += 1;
    this.byPace[pace] += 1;
    queue.inFlight += 1;
    queue.usedAt = performance.now();
    queue.turn -= 1;
    if (queue.turn <= 0) {
      queue.turn = Math.floor(turnMs / Math.max(1, queue.responseMs ?? turnMs));
      this.waiting[pace].delete(queue);
    }
    this.update(queue);
    return { queue, pace };
  }

  /** Gives a place back after a request of `durationMs`. */
  give({ queue, pace }: Place, isGood: boolean, durationMs: number): void {
    this.inFlight -= 1;
    this.byPace[pace] -= 1;
    queue.inFlight -= 1;
    this.waiting[queue.pace].delete(queue);
    queue.isFailing = !isGood;
    queue.responseMs = ((queue.responseMs ?? durationMs) + durationMs) / 2;
    queue.window = isGood
      ? Math.min(this.perEndpoint, queue.window + 1)
      : Math.max(1, Math.floor(queue.window / 2));
    this.update(queue);
  }
}
