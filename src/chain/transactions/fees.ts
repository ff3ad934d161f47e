// Decides compute limits and priority fees of the keeper's transactions. A limit is the use in
// simulations plus a margin. The priority fee is a percentile of recent fees, with a cap in
// lamports.
import type { Log } from '../../log.ts';
import type { Rpc } from '../rpc/rpc.ts';
import { TRANSACTION_LIMITS } from './room.ts';
import { MICRO } from './system-instructions.ts';

/**
 * Compute unit limit of a payment that was not simulated: the maximum that Solana allows for the
 * payment's instructions.
 */
const DEFAULT_UNITS = 600_000;
/** Maximum priority fee per payment, in lamports. */
const MAX_LAMPORTS = 5_000n;
/** Minimum price in micro-lamports per compute unit. */
const MIN_PRICE = 1_000n;
const PERCENTILE = 0.75;
const MAX_DOUBLINGS = 20;
const PRICE_AGE_MS = 10_000;
/** Number of simulations of each shape of payment. */
const SAMPLES = 4;
/** Pause (ms) in simulations after every endpoint refused one. */
const SAMPLE_PAUSE_MS = 60_000;
/**
 * Compute units that a program uses for each bump seed that it tries and rejects when it derives an
 * address (Agave's create_program_address_units).
 */
const UNITS_A_TRY = 1500;
const MARGIN = 1.2;
const RAISE_PAUSE_MS = 30_000;
/**
 * Bytes of the accounts that only one payment loads: subscription, plan, authority and three token
 * accounts. They have some 1,500 bytes; the rest is room to grow.
 */
export const OWN_DATA_BYTES = 4096;
const MAX_DATA_BYTES = TRANSACTION_LIMITS[1].loadedDataBytes;
/**
 * Loaded bytes that accounts count in addition to their data: 64 per account (SIMD-0186), for at
 * most 64 accounts.
 */
const ACCOUNTS_BYTES = 64 * 64;

/** The properties of a payment that decide its compute cost. */
export interface Shape {
  readonly pulls: number;
  /**
   * Number of bump seeds that each pull rejects before it derives the subscriber's token account.
   * The number differs by wallet.
   */
  readonly tries: number;
}

/** Identifies a payment across its attempts: the subscription and the start of the period. */
export interface PaidPeriod {
  readonly subscription: string;
  /** Start of the period in Unix seconds. */
  readonly periodStart: bigint;
}

/** Results of the simulations of payments with the same number of pulls. */
interface Learnt {
  samples: number;
  /** Compute units of the most expensive simulation, and the `tries` of its payment. */
  units: number;
  tries: number;
}

/** Learns limits and fees from simulations and from the outcome of sent transactions. */
export class Fees {
  readonly #rpc: Pick<Rpc, 'getRecentPrioritizationFees' | 'simulateTransaction'>;
  readonly #log: Log;
  readonly #learnt = new Map<number, Learnt>();
  /**
   * By subscription: the latest period that had an expired attempt, and its number of expired
   * attempts.
   */
  readonly #expiries = new Map<string, { periodStart: bigint; count: number }>();
  #margin = MARGIN;
  #raisedAt = -Infinity;
  #untakenAt = -Infinity;
  #loadedBytes: number | undefined;
  #price = MIN_PRICE;
  #pricedAt = -Infinity;

  constructor(rpc: Pick<Rpc, 'getRecentPrioritizationFees' | 'simulateTransaction'>, log: Log) {
    this.#rpc = rpc;
    this.#log = log;
  }

  /**
   * The recent price in micro-lamports per compute unit, at most 10 s old. While RPC does not
   * respond, it is the last known price.
   */
  async price(): Promise<bigint> {
    if (performance.now() - this.#pricedAt < PRICE_AGE_MS) return this.#price;
    this.#pricedAt = performance.now();
    try {
      // The query names no accounts: on accounts that only this keeper writes to, all recent fees
      // would be the keeper's own.
      this.#price = othersPrice(await this.#rpc.getRecentPrioritizationFees([]));
    } catch (error) {
      // The last known price remains in use. A low price only slows a payment down, and not paying
      // would be worse.
      this.#log.debug({ err: error }, 'priority fees unknown');
    }
    return this.#price;
  }

  /**
   * The priority fee of a transaction in lamports. It doubles with each expired attempt and is
   * capped per payment.
   */
  priorityFee(payments: readonly PaidPeriod[], price: bigint, units: number): bigint {
    const expired = Math.max(0, ...payments.map((one) => this.expiries(one)));
    const raised = price * 2n ** BigInt(Math.min(expired, MAX_DOUBLINGS));
    const lamports = (raised * BigInt(units) + MICRO - 1n) / MICRO;
    const max = MAX_LAMPORTS * BigInt(payments.length);
    return lamports < max ? lamports : max;
  }

  /**
   * Number of expired attempts of this payment. Expired attempts of another period do not count,
   * because another keeper may have collected that period.
   */
  expiries({ subscription, periodStart }: PaidPeriod): number {
    const known = this.#expiries.get(subscription);
    return known?.periodStart === periodStart ? known.count : 0;
  }

  /** Counts an expired attempt of this payment. */
  expired(payment: PaidPeriod): void {
    const { subscription, periodStart } = payment;
    this.#expiries.set(subscription, { periodStart, count: this.expiries(payment) + 1 });
  }

  /** Resets the count of expired attempts after a payment of this subscription landed. */
  landed(subscription: string): void {
    this.#expiries.delete(subscription);
  }

  /** The compute unit limit of a payment. */
  units({ pulls, tries }: Shape): number {
    const known = this.#learnt.get(pulls);
    if (known === undefined) return DEFAULT_UNITS;
    const more = UNITS_A_TRY * pulls * Math.max(0, tries - known.tries);
    return Math.min(
      TRANSACTION_LIMITS[1].computeUnits,
      Math.ceil(this.#margin * (known.units + more)),
    );
  }

  /**
   * Limit in bytes of the accounts that all payments load (programs and mint). Each payment needs
   * OWN_DATA_BYTES in addition.
   */
  sharedData(): number {
    const max = MAX_DATA_BYTES - TRANSACTION_LIMITS[1].addresses * OWN_DATA_BYTES;
    if (this.#loadedBytes === undefined) return max;
    return Math.min(max, Math.ceil(this.#margin * this.#loadedBytes) + ACCOUNTS_BYTES);
  }

  /** Whether a payment of this shape should be simulated to learn its cost. */
  wantsSample({ pulls }: Shape): boolean {
    if (performance.now() - this.#untakenAt < SAMPLE_PAUSE_MS) return false;
    return (this.#learnt.get(pulls)?.samples ?? 0) < SAMPLES;
  }

  /**
   * Simulates the transaction of one payment. A simulation that fails teaches nothing and is
   * ignored. Throws as the RPC client does.
   */
  async sample({ pulls, tries }: Shape, bytes: Uint8Array): Promise<void> {
    const response = await this.#rpc.simulateTransaction(bytes).catch((error: unknown) => {
      this.#untakenAt = performance.now();
      this.#log.debug({ err: error }, 'payment not simulated');
      throw error;
    });
    const { err, unitsConsumed, loadedDataBytes } = response;
    if (err !== null || unitsConsumed === null || unitsConsumed === 0n) return;
    const known = this.#learnt.get(pulls) ?? { samples: 0, units: 0, tries: 0 };
    known.samples += 1;
    if (Number(unitsConsumed) > known.units)
      Object.assign(known, { units: Number(unitsConsumed), tries });
    this.#learnt.set(pulls, known);
    if (loadedDataBytes !== null)
      this.#loadedBytes = Math.max(this.#loadedBytes ?? 0, Number(loadedDataBytes));
  }

  /**
   * Raises the limits after a transaction exceeded them. A pause between raises makes a batch of
   * such failures count once.
   */
  exceeded(): void {
    if (performance.now() - this.#raisedAt < RAISE_PAUSE_MS) return;
    this.#raisedAt = performance.now();
    this.#margin *= 1.5;
    this.#log.warn({ margin: this.#margin }, 'payment exceeded its limits; limits raised');
  }
}

/** A percentile of the fees above zero, but at least the minimum price. */
function othersPrice(fees: readonly bigint[]): bigint {
  const paid = fees.filter((fee) => fee > 0n).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const found = paid[Math.floor(paid.length * PERCENTILE)] ?? 0n;
  return found > MIN_PRICE ? found : MIN_PRICE;
}
