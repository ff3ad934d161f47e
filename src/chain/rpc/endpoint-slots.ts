// Reads the newest slot and the clock of each endpoint at an interval. The failover ranks endpoints
// by these slots, and rejects a response whose slot is implausibly far ahead of these slots.
import { setTimeout as pause } from 'node:timers/promises';
import type { ClockAccount } from '../program/layouts.ts';
import type { RpcEndpoint } from './endpoint.ts';
import { PLACE_REQUEST, placeIn, TrustedSlots, type TrustedSlotsOptions } from './trusted-slots.ts';

export interface PlacesOptions {
  readonly endpoints: readonly RpcEndpoint[];
  readonly everyMs: number;
  /** Options for checking the slots in responses. When undefined, every slot is accepted. */
  readonly slots: TrustedSlotsOptions | undefined;
  /** Calls a method of one endpoint. */
  readonly ask: (
    endpoint: RpcEndpoint,
    method: string,
    params: readonly unknown[],
    read: (result: unknown) => ClockAccount,
  ) => Promise<ClockAccount>;
}

/** Maximum time (ms) that calls wait for the first reading of the endpoints' slots. */
const FIRST_MS = 2000;

export class EndpointPlaces {
  readonly #options: PlacesOptions;
  readonly #trusted: TrustedSlots<string> | undefined;
  #nextAt: number;
  #probing: Promise<void> = Promise.resolve();
  #first: Promise<void> | undefined;
  #isKnown: boolean;

  constructor(options: PlacesOptions) {
    const { endpoints, everyMs, slots } = options;
    this.#options = options;
    this.#trusted = slots && new TrustedSlots(slots);
    this.#isKnown = slots === undefined;
    this.#nextAt = endpoints.length === 1 || everyMs === Infinity ? Infinity : -Infinity;
  }

  /**
   * If the interval since the last reading has passed, reads the slots of all endpoints in the
   * background.
   */
  refresh(): void {
    const now = performance.now();
    if (now < this.#nextAt) return;
    this.#nextAt = now + this.#options.everyMs;
    this.#probing = this.#read(now);
    if (this.#trusted !== undefined) this.#first ??= this.#settled(this.#probing);
  }

  /**
   * Resolves when the endpoints' slots have been read, or after FIRST_MS. Returns undefined when
   * there is nothing to wait for, so that the caller continues without an await.
   */
  known(): Promise<void> | undefined {
    return this.#isKnown ? undefined : this.#first;
  }

  /** Throws an EndpointFailure when the response has an implausible slot. */
  check(endpoint: RpcEndpoint, result: unknown): void {
    this.#trusted?.check(endpoint.host, result);
  }

  async close(): Promise<void> {
    await this.#probing;
  }

  async #settled(probing: Promise<void>): Promise<void> {
    const late = new AbortController();
    await Promise.race([
      probing,
      pause(FIRST_MS, undefined, { signal: late.signal }).catch(() => undefined),
    ]);
    late.abort();
    this.#isKnown = true;
  }

  async #read(now: number): Promise<void> {
    const { endpoints, ask } = this.#options;
    const ready = endpoints.filter((endpoint) => endpoint.delay(now) === 0);
    const places = await Promise.all(
      ready.map(async (endpoint) => {
        const reading = await ask(endpoint, ...PLACE_REQUEST, placeIn).catch(() => undefined);
        if (reading !== undefined) this.#trusted?.record(endpoint.host, reading);
        return reading === undefined ? [] : [{ endpoint, slot: reading.slot }];
      }),
    );
    const reported = places.flat();
    const isPlausible = ({ endpoint, slot }: { endpoint: RpcEndpoint; slot: bigint }) =>
      slot <= (this.#trusted?.plausible(endpoint.host) ?? slot);
    const newest = Math.max(...reported.filter(isPlausible).map(({ slot }) => Number(slot)));
    // The lag is the distance to `newest`, the newest plausible slot. An endpoint that reports an
    // implausible slot above `newest` gets the distance as lag too, so that the failover calls it
    // last.
    for (const { endpoint, slot } of reported) endpoint.setLag(Math.abs(newest - Number(slot)));
  }
}
