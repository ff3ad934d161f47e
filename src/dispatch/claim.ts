// Decides how many deliveries to claim per endpoint, and claims them. For a fast endpoint, also
// claims ahead (prefetches) the deliveries that will be sent within the next 100 ms.
import { randomUUID } from 'node:crypto';
import {
  claimDeliveries,
  releaseClaims,
  type ClaimedDelivery,
  type ClaimRequest,
} from '../db/delivering/delivery-queue.ts';
import type { Sql } from '../db/postgres/connect.ts';
import type { DatabaseClock } from './clock.ts';
import {
  EndpointQueue,
  type Claimed,
  type Concurrency,
  type Pace,
  type Ready,
} from './concurrency.ts';
import { type Host, Hosts } from './hosts.ts';
import type { DispatchTimes } from './times.ts';

export interface ClaimerParts {
  /**
   * A connection pool that is used only for claims. The pool prepares no statements, so that
   * Postgres plans each claim for the present length of the queue.
   */
  claims: Sql;
  queue: Sql;
  clock: DatabaseClock;
  concurrency: Concurrency;
  claimMs: number;
  /** A request starts only if its claim remains valid for at least this time (ms). */
  reserveMs: number;
  times: DispatchTimes['claim'];
}

/** Maximum number of endpoints per claim statement. */
const MAX_ENDPOINTS = 500;
const MAX_AHEAD = 500;
/** Maximum number of claimed but unsent deliveries over all endpoints. */
const MAX_READY = 4000;
/**
 * Maximum number of claimed but unsent deliveries to one host, so that the endpoints of a crowded
 * host do not use up MAX_READY.
 */
const MAX_READY_OF_HOST = 1000;

/** The claimer's state of one endpoint. */
interface EndpointState {
  queue: EndpointQueue;
  /** True when the queue may have rows to claim. */
  isDue: boolean;
  /** due_at of the last claimed row. */
  claimedTo: number | undefined;
  /** Time (performance.now()) of the last claim that read the queue from its start. */
  startedAt: number;
  pausedUntil: number;
}

export class Claimer {
  readonly #parts: ClaimerParts;
  readonly #states = new Map<string, EndpointState>();
  /** Endpoints with due rows, in the order in which they were found. */
  readonly #due = new Set<EndpointState>();
  /** Claimed deliveries that will not be sent under this claim. The next claim() releases them. */
  #stale: Claimed[] = [];
  #readyCount = 0;
  readonly #hosts = new Hosts();

  constructor(parts: ClaimerParts) {
    this.#parts = parts;
  }

  /**
   * Reports that an endpoint has due rows. `isSwept`: a sweep found the rows, so they may be due
   * earlier than the last claimed row. If the endpoint is idle, its next claim reads the queue from
   * the start, to find such rows. For a busy endpoint, a claim does so every `fromStartMs` anyway.
   */
  found(endpointId: string, isSwept: boolean): void {
    let state = this.#states.get(endpointId);
    if (state === undefined) {
      state = {
        queue: new EndpointQueue(endpointId),
        isDue: false,
        claimedTo: undefined,
        startedAt: -Infinity,
        pausedUntil: 0,
      };
      this.#states.set(endpointId, state);
    }
    if (isSwept && !state.isDue && state.queue.ready.length === 0) state.startedAt = -Infinity;
    this.#setDue(state);
  }

  /** True when claim() can claim further deliveries, or has claims to release. */
  get isHungry(): boolean {
    if (this.#stale.length > 0) return true;
    const left = this.#places();
    for (const state of this.#due) if (this.#roomOf(state, left) > 0) return true;
    return false;
  }

  /**
   * Claims deliveries, up to the limits for prefetched deliveries and for requests in flight. The
   * caller must pass each returned delivery to offer() or pause(), or write its outcome.
   */
  async claim(): Promise<Claimed[]> {
    await this.#releaseStale();
    const requested = new Map<string, { state: EndpointState; room: number }>();
    const left = this.#places();
    for (const state of this.#due) {
      const room = this.#roomOf(state, left);
      if (room <= 0) continue;
      left[state.queue.pace] -= room;
      requested.set(state.queue.endpointId, { state, room });
      if (requested.size === MAX_ENDPOINTS) break;
    }
    if (requested.size === 0) return [];
    const requests = [...requested.values()].map(({ state, room }) => this.#requestOf(state, room));
    // isDue is cleared before the claim. If found() reports a row during the claim, isDue is set
    // again.
    for (const { state } of requested.values()) this.#unsetDue(state);
    const claimId = randomUUID();
    const { claims, claimMs, reserveMs } = this.#parts;
    const sendBefore = performance.now() + claimMs - reserveMs;
    let claimed: ClaimedDelivery[];
    try {
      claimed = await claimDeliveries(claims, requests, { claimId, claimMs });
    } catch (error) {
      // The statement may have claimed rows although its response was lost. The next claim reads
      // the queue from its start, so that it finds these rows after their claims have expired.
      for (const { state } of requested.values()) this.#again(state);
      throw error;
    }
    claimed.sort((a, b) => a.dueAt - b.dueAt || (a.id < b.id ? -1 : 1));
    const counts = new Map<string, number>();
    for (const { endpointId, dueAt } of claimed) {
      counts.set(endpointId, (counts.get(endpointId) ?? 0) + 1);
      const state = requested.get(endpointId)?.state;
      if (state !== undefined) state.claimedTo = dueAt;
    }
    for (const [endpointId, { state, room }] of requested)
      if (counts.get(endpointId) === room) this.#setDue(state);
    return claimed.map((delivery) => ({ ...delivery, claimId, sendBefore }));
  }

  /**
   * Adds claimed deliveries to the deliveries that can be sent. If the host of a delivery already
   * has too many there, releases the delivery instead.
   */
  async offer(deliveries: readonly Ready[]): Promise<void> {
    const crowded = deliveries.filter((delivery) => !this.#offer(delivery));
    if (crowded.length > 0) await this.pause(crowded, this.#parts.times.crowdedMs);
  }

  /** Returns false, without adding the delivery, if its host has too many deliveries. */
  #offer(delivery: Ready): boolean {
    const state = this.#states.get(delivery.endpointId);
    if (state === undefined) return true;
    const host = this.#hosts.get(delivery.endpoint.host);
    state.queue.host = host;
    if (host.ready >= MAX_READY_OF_HOST) return false;
    state.queue.maxPerSecond = delivery.endpoint.maxPerSecond;
    if (delivery.endpoint.maxPerSecond === null) state.queue.notBefore = 0;
    state.queue.ready.push(delivery);
    this.#countReady(host, 1);
    this.#parts.concurrency.update(state.queue);
    return true;
  }

  #countReady(host: Host | undefined, count: number): void {
    this.#readyCount += count;
    if (host !== undefined) host.ready += count;
  }

  /**
   * Takes an endpoint's next delivery whose claim lasts long enough for a request. Returns
   * undefined when there is no such delivery.
   */
  take({ endpointId, ready, host }: EndpointQueue): Ready | undefined {
    const state = this.#states.get(endpointId);
    const now = performance.now();
    for (let next = ready.shift(); next !== undefined; next = ready.shift()) {
      this.#countReady(host, -1);
      if (next.sendBefore > now) return next;
      this.#stale.push(next);
      if (state !== undefined) this.#again(state);
    }
    return undefined;
  }

  /**
   * Decides again for each endpoint whether it may start requests. Called when this process's share
   * of WEBHOOK_ENDPOINT_CONCURRENCY has changed.
   */
  refresh(): void {
    for (const { queue } of this.#states.values()) this.#parts.concurrency.update(queue);
  }

  /** Releases deliveries and makes no claims for their endpoints during the next `ms`. */
  async pause(deliveries: readonly Claimed[], ms: number): Promise<void> {
    for (const { endpointId } of deliveries) {
      const state = this.#states.get(endpointId);
      if (state === undefined) continue;
      state.pausedUntil = performance.now() + ms;
      this.#again(state);
    }
    await releaseClaims(this.#parts.queue, deliveries);
  }

  /** Releases all unsent deliveries. */
  async release(): Promise<void> {
    for (const { queue } of this.#states.values()) {
      this.#stale.push(...queue.ready);
      this.#countReady(queue.host, -queue.ready.length);
      queue.ready = [];
      this.#parts.concurrency.update(queue);
    }
    await this.#releaseStale();
  }

  /** Drops the state of endpoints that were idle for ten minutes, and of idle hosts. */
  forget(): void {
    this.#hosts.forget();
    const before = performance.now() - this.#parts.times.forgetMs;
    for (const [endpointId, { queue, isDue }] of this.#states)
      if (!isDue && queue.inFlight === 0 && queue.ready.length === 0 && queue.usedAt < before)
        this.#states.delete(endpointId);
  }

  async #releaseStale(): Promise<void> {
    const stale = this.#stale;
    this.#stale = [];
    await releaseClaims(this.#parts.queue, stale);
  }

  #unsetDue(state: EndpointState): void {
    state.isDue = false;
    this.#due.delete(state);
  }

  #setDue(state: EndpointState): void {
    state.isDue = true;
    this.#due.add(state);
  }

  /** Marks an endpoint as due. The next claim then reads the endpoint's queue from its start. */
  #again(state: EndpointState): void {
    state.startedAt = -Infinity;
    this.#setDue(state);
  }

  #requestOf(state: EndpointState, room: number): ClaimRequest {
    const now = performance.now();
    const isFromStart =
      state.claimedTo === undefined || now - state.startedAt > this.#parts.times.fromStartMs;
    if (isFromStart) state.startedAt = now;
    const recent = this.#parts.clock.now() - this.#parts.times.commitMs;
    const floor = isFromStart ? null : Math.min(state.claimedTo ?? recent, recent);
    return { endpointId: state.queue.endpointId, room, floor };
  }

  /**
   * Returns how many more deliveries may be claimed for each class of endpoints. For fast
   * endpoints, the limit is MAX_READY. For every other class, it is the number of requests that the
   * class may start now, because its deliveries are not prefetched.
   */
  #places(): Record<Pace, number> {
    const { concurrency } = this.#parts;
    return {
      fast: Math.max(0, MAX_READY - this.#readyCount),
      slow: concurrency.free('slow'),
      failing: concurrency.free('failing'),
      new: concurrency.free('new'),
    };
  }

  #roomOf({ queue, pausedUntil }: EndpointState, left: Record<Pace, number>): number {
    if (pausedUntil > performance.now()) return 0;
    const { pace, responseMs = Infinity, inFlight, ready } = queue;
    const window = this.#parts.concurrency.windowOf(queue);
    if (window === 0 || this.#parts.concurrency.isCrowded(queue)) return 0;
    const free = window - inFlight - ready.length;
    // An endpoint with a limit per second gets at most one second's deliveries. The others are left
    // for a later claim or for another dispatcher.
    const rated = Math.ceil(this.#parts.concurrency.rateOf(queue)) - ready.length;
    if (pace !== 'fast') return Math.min(free, left[pace], rated);
    const ahead = Math.min(
      MAX_AHEAD,
      Math.ceil((window * this.#parts.times.aheadMs) / Math.max(1, responseMs)),
    );
    // The prefetch buffer is refilled when it is half empty, because one large claim is cheaper
    // than many small claims.
    return ready.length > ahead / 2 ? 0 : Math.min(free + ahead, left.fast, rated);
  }
}
