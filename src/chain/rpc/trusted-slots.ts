// Checks the slots that endpoints report. The service stores such a slot in a database row, and
// later changes the row only with chain state of the stored slot or a newer slot. A stored slot in
// the far future would block the row.
import { CLOCK_SYSVAR } from '../program/addresses.ts';
import { type ClockAccount, decodeClock } from '../program/layouts.ts';
import { EndpointFailure } from './errors.ts';
import { accounts, inContext } from './responses.ts';

export interface TrustedSlotsOptions {
  /**
   * Called at most once an hour with a rejected slot and the highest slot that would have been
   * accepted.
   */
  readonly onDisbelief: (slot: bigint, plausible: bigint) => void;
  /** Unix seconds of this machine's clock. */
  readonly machineSeconds?: () => number;
  /** A monotonic clock in milliseconds. */
  readonly monotonicMs?: () => number;
}

/**
 * The slot that an endpoint reported last. `at` is the time of the report in milliseconds of the
 * monotonic clock.
 */
interface Reading {
  readonly slot: bigint;
  /** Unix seconds of the chain's clock at that slot. */
  readonly seconds: number;
  readonly at: number;
}

/**
 * Maximum number of slots by which a reported slot may exceed the expected slot: two minutes at 400
 * ms per slot.
 */
const MAX_AHEAD = 300n;
/**
 * Upper bound for the number of slots per second. Clusters make 2.5 slots per second today (400 ms
 * per slot) and are expected to make 5 later (200 ms per slot).
 */
const SLOTS_PER_SECOND = 10;
/** Minimum time between two alerts about implausible slots. */
const ALERT_INTERVAL_MS = 3_600_000;

/**
 * JSON-RPC method and parameters that read the Clock account, which has the slot and the time of
 * one block.
 */
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
 * Rejects a slot that is too far ahead of the last known slots of all other endpoints. A single
 * endpoint is compared with its own last slot. The allowed distance grows with the age of the last
 * slot, so that new slots are still accepted while another endpoint hangs.
 */
export class TrustedSlots<Endpoint> {
  readonly #options: TrustedSlotsOptions;
  readonly #readings = new Map<Endpoint, Reading>();
  #reportedAt = -Infinity;

  constructor(options: TrustedSlotsOptions) {
    this.#options = options;
  }

  /**
   * Records the slot and the clock that an endpoint reports, even if the slot is implausible. The
   * record makes similar slots of other endpoints plausible. Two endpoints with similar slots
   * therefore confirm each other.
   */
  record(endpoint: Endpoint, { slot, unixTimestamp }: ClockAccount): void {
    this.#readings.set(endpoint, { slot, seconds: Number(unixTimestamp), at: this.#now() });
  }

  /**
   * Returns the highest slot that is plausible for this endpoint, or undefined before the first
   * reading.
   */
  plausible(endpoint: Endpoint): bigint | undefined {
    const others = [...this.#readings].filter(([other]) => other !== endpoint);
    const lastReading = this.#readings.get(endpoint);
    const readings =
      others.length > 0 ? others.map(([, reading]) => reading) : lastReading ? [lastReading] : [];
    const bounds = readings.map((reading) => this.#boundBy(reading));
    return bounds.length === 0 ? undefined : bounds.reduce((a, b) => (a > b ? a : b));
  }

  /** Throws an EndpointFailure when the response names an implausible slot. */
  check(endpoint: Endpoint, result: unknown): void {
    const slot = slotOf(result);
    if (slot === undefined) return;
    const plausible = this.plausible(endpoint);
    if (plausible === undefined || slot <= plausible) {
      if (this.#isAlone(endpoint))
        this.record(endpoint, { slot, unixTimestamp: BigInt(Math.floor(this.#seconds())) });
      return;
    }
    if (this.#now() - this.#reportedAt > ALERT_INTERVAL_MS) {
      this.#reportedAt = this.#now();
      this.#options.onDisbelief(slot, plausible);
    }
    throw new EndpointFailure('malformed', `its slot ${slot} is far ahead, at most ${plausible}`);
  }

  #isAlone(endpoint: Endpoint): boolean {
    return [...this.#readings.keys()].every((one) => one === endpoint);
  }

  #boundBy({ slot, seconds, at }: Reading): bigint {
    // Time passed since the reading. This machine's clock may be set, and the monotonic clock may
    // stop while the machine is suspended. Therefore the longer of the two measured times counts.
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
 * Returns the slot in a response: that of its context, or `absoluteSlot` of getEpochInfo. Returns
 * undefined when it has neither.
 */
function slotOf(result: unknown): bigint | undefined {
  const { context, absoluteSlot } = (result ?? {}) as {
    context?: { slot?: unknown } | null;
    absoluteSlot?: unknown;
  };
  const slot = context?.slot ?? absoluteSlot;
  return Number.isSafeInteger(slot) ? BigInt(slot as number) : undefined;
}
