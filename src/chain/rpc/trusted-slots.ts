// Judges slots. They are stored, and a row is only decided by chain state of its slot or later: an
// endpoint that reports a slot of the far future would stop the row.
import { CLOCK_SYSVAR } from '../program/addresses.ts';
import { type ClockAccount, decodeClock } from '../program/layouts.ts';
import { EndpointFailure } from './errors.ts';
import { accounts, inContext } from './responses.ts';

export interface TrustedSlotsOptions {
  /** Called at most once an hour with a rejected slot and the newest slot that is plausible. */
  readonly onDisbelief: (slot: bigint, plausible: bigint) => void;
  /** Unix seconds of this machine. */
  readonly machineSeconds?: () => number;
  /** A monotonic clock in milliseconds. */
  readonly monotonicMs?: () => number;
}

/** Where an endpoint was. */
interface Reading {
  readonly slot: bigint;
  /** Unix seconds of the chain at that slot. */
  readonly seconds: number;
  readonly at: number;
}

/** Slots that an endpoint may be ahead of what the time explains: two minutes at 400 ms. */
const MAX_AHEAD = 300n;
/** More than a cluster makes: slots take 400 ms, later 200. */
const SLOTS_PER_SECOND = 10;
const REPORT_MS = 3_600_000;

/** The request for an endpoint's place: the clock has slot and time of one block. */
export const PLACE_REQUEST = [
  'getMultipleAccounts',
  [[CLOCK_SYSVAR], { commitment: 'confirmed', encoding: 'base64' }],
] as const;

export function placeIn(result: unknown): ClockAccount {
  const [clock] = inContext(result, undefined, (value) => accounts(value, 1)).value;
  if (!clock) throw new EndpointFailure('malformed', 'the Clock sysvar has no account');
  return decodeClock(clock.data);
}

/**
 * Judges the slots that endpoints report. A slot is plausible when the place of another endpoint
 * and the time since explain it. An endpoint that hangs has an old clock, so a good endpoint is not
 * rejected for it. Without another endpoint, its own last slot counts; its first one is believed.
 */
export class TrustedSlots<Endpoint extends object> {
  readonly #options: TrustedSlotsOptions;
  readonly #readings = new Map<Endpoint, Reading>();
  #reportedAt = -Infinity;

  constructor(options: TrustedSlotsOptions) {
    this.#options = options;
  }

  /**
   * Records the place that an endpoint reports, believed or not: two endpoints that agree are
   * right.
   */
  record(endpoint: Endpoint, { slot, unixTimestamp }: ClockAccount): void {
    this.#readings.set(endpoint, { slot, seconds: Number(unixTimestamp), at: this.#now() });
  }

  /** The newest slot that is plausible for this endpoint; undefined when nothing is known. */
  plausible(endpoint: Endpoint): bigint | undefined {
    const others = [...this.#readings].filter(([other]) => other !== endpoint);
    const own = this.#readings.get(endpoint);
    const known = others.length > 0 ? others.map(([, reading]) => reading) : own ? [own] : [];
    const bounds = known.map((reading) => this.#boundBy(reading));
    return bounds.length === 0 ? undefined : bounds.reduce((a, b) => (a > b ? a : b));
  }

  /** Throws an EndpointFailure when a response has a context with an implausible slot. */
  check(endpoint: Endpoint, result: unknown): void {
    const slot = contextSlot(result);
    if (slot === undefined) return;
    const plausible = this.plausible(endpoint);
    if (plausible === undefined || slot <= plausible) {
      if (this.#isAlone(endpoint))
        this.record(endpoint, { slot, unixTimestamp: BigInt(Math.floor(this.#seconds())) });
      return;
    }
    if (this.#now() - this.#reportedAt > REPORT_MS) {
      this.#reportedAt = this.#now();
      this.#options.onDisbelief(slot, plausible);
    }
    throw new EndpointFailure('malformed', `its slot ${slot} is far ahead, at most ${plausible}`);
  }

  #isAlone(endpoint: Endpoint): boolean {
    return [...this.#readings.keys()].every((one) => one === endpoint);
  }

  #boundBy({ slot, seconds, at }: Reading): bigint {
    // The machine may have been suspended, or its clock be set: the longer time counts.
    const passed = Math.max(0, this.#seconds() - seconds, (this.#now() - at) / 1000);
    return slot + MAX_AHEAD + BigInt(Math.ceil(passed * SLOTS_PER_SECOND));
  }

  #seconds(): number {
    return (this.#options.machineSeconds ?? (() => Date.now() / 1000))();
  }

  #now(): number {
    return (this.#options.monotonicMs ?? (() => performance.now()))();
  }
}

/**
 * The slot of the context of a response; undefined without one. Its shape is checked where it is
 * read.
 */
function contextSlot(result: unknown): bigint | undefined {
  const { context } = (result ?? {}) as { context?: { slot?: unknown } | null };
  const slot = context?.slot;
  return Number.isSafeInteger(slot) ? BigInt(slot as number) : undefined;
}
