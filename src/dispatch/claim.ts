// How much to claim for which endpoint. Deliveries for the next 100 ms are claimed ahead, none for an endpoint that is slow or fails.
import { randomUUID } from 'node:crypto';
import type { Sql } from '../db/connect.ts';
import {
  claimDeliveries,
  releaseClaims,
  type ClaimedDelivery,
  type ClaimRequest,
} from '../db/delivery-queue.ts';
import type { DatabaseClock } from './clock.ts';
import {
  EndpointQueue,
  type Claimed,
  type Concurrency,
  type Pace,
  type Ready,
} from './concurrency.ts';

export interface ClaimerParts {
  /** connectClaims(). */
  claims: Sql;
  queue: Sql;
  clock: DatabaseClock;
  concurrency: Concurrency;
  claimMs: number;
  /** What must be left of a claim when a request starts. */
  reserveMs: number;
}

/** Endpoints of one statement. */
const requestLimit = 500;
const aheadMs = 100;
const aheadLimit = 500;
/** Claimed and not sent, over all endpoints. */
const readyLimit = 4000;
/** A row whose transaction commits later than this after queueing is found by a claim from the queue's start. */
const commitMs = 10_000;
/** So often is a busy endpoint's queue claimed from its start: expired claims are there. */
const fromStartMs = 30_000;
/** An endpoint that was idle for so long starts again with a window of one request. */
const forgetMs = 600_000;

/** An endpoint's rows in the queue. */
interface Known {
  queue: EndpointQueue;
  /** There may be rows to claim. */
  isDue: boolean;
  /** When the last claimed row was due. */
  claimedTo: number | undefined;
  /** performance.now() of the last claim from the start. */
  startedAt: number;
  pausedUntil: number;
}

export class Claimer {
  private readonly parts: ClaimerParts;
  private readonly known = new Map<string, Known>();
  /** With something due, in the order in which they were found. */
  private readonly due = new Set<Known>();
  /** Claimed too long ago to be sent. */
  private stale: Claimed[] = [];
  private readyCount = 0;

  constructor(parts: ClaimerParts) {
    this.parts = parts;
  }

  /** An endpoint has due rows. `isSwept`: they may be older than what was claimed last. */
  found(endpointId: string, isSwept: boolean): void {
    let known = this.known.get(endpointId);
    if (known === undefined) {
      known = {
        queue: new EndpointQueue(endpointId),
        isDue: false,
        claimedTo: undefined,
        startedAt: -Infinity,
        pausedUntil: 0,
      };
      this.known.set(endpointId, known);
    }
    if (isSwept && !known.isDue && known.queue.ready.length === 0) known.startedAt = -Infinity;
    this.setDue(known);
  }

  /** Whether a claim would find places to fill. */
  get isHungry(): boolean {
    if (this.stale.length > 0) return true;
    const left = this.places();
    for (const known of this.due) if (this.roomOf(known, left) > 0) return true;
    return false;
  }

  /** Claims what there is room for. Every delivery that is returned must be offered, released or finished. */
  async claim(): Promise<Claimed[]> {
    await this.releaseStale();
    const asked = new Map<string, { known: Known; room: number }>();
    const left = this.places();
    for (const known of this.due) {
      const room = this.roomOf(known, left);
      if (room <= 0) continue;
      left[known.queue.pace] -= room;
      asked.set(known.queue.endpointId, { known, room });
      if (asked.size === requestLimit) break;
    }
    if (asked.size === 0) return [];
    const requests = [...asked.values()].map(({ known, room }) => this.requestOf(known, room));
    // Rows that become due from here on are found again.
    for (const { known } of asked.values()) this.unsetDue(known);
    const claimId = randomUUID();
    const { claims, claimMs, reserveMs } = this.parts;
    const sendBefore = performance.now() + claimMs - reserveMs;
    let claimed: ClaimedDelivery[];
    try {
      claimed = await claimDeliveries(claims, requests, { claimId, claimMs });
    } catch (error) {
      // It may have claimed rows without an answer: they are found from the start.
      for (const { known } of asked.values()) this.again(known);
      throw error;
    }
    claimed.sort((a, b) => a.dueAt - b.dueAt || (a.id < b.id ? -1 : 1));
    const counts = new Map<string, number>();
    for (const { endpointId, dueAt } of claimed) {
      counts.set(endpointId, (counts.get(endpointId) ?? 0) + 1);
      const known = asked.get(endpointId)?.known;
      if (known !== undefined) known.claimedTo = dueAt;
    }
    for (const [endpointId, { known, room }] of asked)
      if (counts.get(endpointId) === room) this.setDue(known);
    return claimed.map((delivery) => ({ ...delivery, claimId, sendBefore }));
  }

  /** Makes a claimed delivery ready to be sent. */
  offer(delivery: Ready): void {
    const known = this.known.get(delivery.endpointId);
    if (known === undefined) return;
    known.queue.ready.push(delivery);
    this.readyCount += 1;
    this.parts.concurrency.update(known.queue);
  }

  /** The next delivery of an endpoint; undefined when its claim is too old. */
  take({ endpointId, ready }: EndpointQueue): Ready | undefined {
    const known = this.known.get(endpointId);
    const now = performance.now();
    for (let next = ready.shift(); next !== undefined; next = ready.shift()) {
      this.readyCount -= 1;
      if (next.sendBefore > now) return next;
      this.stale.push(next);
      if (known !== undefined) this.again(known);
    }
    return undefined;
  }

  /** Gives deliveries back and claims nothing of their endpoint for `ms`. */
  async pause(deliveries: readonly Claimed[], ms: number): Promise<void> {
    for (const { endpointId } of deliveries) {
      const known = this.known.get(endpointId);
      if (known === undefined) continue;
      known.pausedUntil = performance.now() + ms;
      this.again(known);
    }
    await releaseClaims(this.parts.queue, deliveries);
  }

  /** Gives back everything that is ready. */
  async release(): Promise<void> {
    for (const { queue } of this.known.values()) {
      this.stale.push(...queue.ready);
      this.readyCount -= queue.ready.length;
      queue.ready = [];
      this.parts.concurrency.update(queue);
    }
    await this.releaseStale();
  }

  /** Forgets endpoints that were idle for ten minutes. */
  forget(): void {
    const before = performance.now() - forgetMs;
    for (const [endpointId, { queue, isDue }] of this.known)
      if (!isDue && queue.inFlight === 0 && queue.ready.length === 0 && queue.usedAt < before)
        this.known.delete(endpointId);
  }

  private async releaseStale(): Promise<void> {
    const { stale } = this;
    this.stale = [];
    await releaseClaims(this.parts.queue, stale);
  }

  private unsetDue(known: Known): void {
    known.isDue = false;
    this.due.delete(known);
  }

  private setDue(known: Known): void {
    known.isDue = true;
    this.due.add(known);
  }

  /** Its rows are due again, old ones too. */
  private again(known: Known): void {
    known.startedAt = -Infinity;
    this.setDue(known);
  }

  private requestOf(known: Known, room: number): ClaimRequest {
    const now = performance.now();
    const isFromStart = known.claimedTo === undefined || now - known.startedAt > fromStartMs;
    if (isFromStart) known.startedAt = now;
    const recent = this.parts.clock.now() - commitMs;
    const floor = isFromStart ? null : Math.min(known.claimedTo ?? recent, recent);
    return { endpointId: known.queue.endpointId, room, floor };
  }

  /** Free places of each class; for fast endpoints also what may be ready. */
  private places(): Record<Pace, number> {
    const { concurrency } = this.parts;
    return {
      fast: Math.max(0, readyLimit - this.readyCount),
      slow: concurrency.free('slow'),
      failing: concurrency.free('failing'),
    };
  }

  private roomOf({ queue, pausedUntil }: Known, left: Record<Pace, number>): number {
    if (pausedUntil > performance.now()) return 0;
    const { pace, responseMs = Infinity, window, inFlight, ready } = queue;
    const free = window - inFlight - ready.length;
    if (pace !== 'fast') return Math.min(free, left[pace]);
    const ahead = Math.min(aheadLimit, Math.ceil((window * aheadMs) / Math.max(1, responseMs)));
    // Refilled when it is half empty: few large claims cost less than many small ones.
    return ready.length > ahead / 2 ? 0 : Math.min(free + ahead, left.fast);
  }
}
