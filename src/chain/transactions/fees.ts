// Chooses compute unit limits and priority fees for the keeper's transactions. A limit is the
// compute units used in simulations plus a margin. The priority fee follows a percentile of the
// cluster's recent fees, up to a cap in lamports.
import type { Log } from '../../log.ts';
import type { Rpc } from '../rpc/rpc.ts';
import { MICRO } from './network-fee.ts';
import { TRANSACTION_LIMITS } from './room.ts';

/**
 * Compute unit limit of a payment that was not simulated. The value is Solana's default of 200,000
 * units for each of three instructions.
 */
const DEFAULT_UNITS = 600_000;
/** Maximum priority fee per payment, in lamports. */
const MAX_LAMPORTS = 5_000n;
/** Minimum priority fee in micro-lamports per compute unit. */
const MIN_PRICE = 1_000n;
const PERCENTILE = 0.75;
const MAX_DOUBLINGS = 20;
/** How long the priority fee that was read from the chain is used. */
const PRICE_AGE_MS = 10_000;
/** Number of payments that are simulated for each value of `Shape.pulls`. */
const SAMPLES = 4;
/**
 * After all endpoints failed to simulate a transaction, no payment is simulated for this time (ms).
 */
const SAMPLE_PAUSE_MS = 60_000;
/**
 * A program that derives an address tries bump seeds until one fits. Each rejected seed costs this
 * number of compute units (Agave's create_program_address_units).
 */
const UNITS_A_TRY = 1500;
const MARGIN = 1.2;
/** Minimum time between two raises of the compute limit. */
const RAISE_PAUSE_MS = 30_000;
/**
 * Limit in bytes for the accounts that only one payment loads: subscription, plan, authority and
 * three token accounts. These accounts have about 1,500 bytes. The rest of the limit lets them
 * grow.
 */
export const OWN_DATA_BYTES = 4096;
const MAX_DATA_BYTES = TRANSACTION_LIMITS[1].loadedDataBytes;
/**
 * In addition to the data of each account, the runtime counts 64 bytes per account (SIMD-0186). A
 * transaction has at most 64 accounts.
 */
const ACCOUNTS_BYTES = 64 * 64;

/** The properties of a payment that decide how many compute units the payment uses. */
export interface Shape {
  readonly pulls: number;
  /**
   * Number of bump seeds that each pull rejects when it derives the address of the subscriber's
   * token account. The number differs by wallet.
   */
  readonly tries: number;
}

/**
 * The subscription and the start of the paid period. Both together identify a payment across all
 * its attempts.
 */
export interface PaidPeriod {
  readonly subscription: string;
  /** Start of the period in Unix seconds. */
  readonly periodStart: bigint;
}

/** Results of the simulations of payments with the same number of pulls. */
interface Learnt {
  samples: number;
  /** The most compute units that a simulation used. `tries` comes from the same simulation. */
  units: number;
  tries: number;
}

/** Learns limits and fees from simulations and from the outcome of sent transactions. */
export class Fees {
  readonly #rpc: Pick<Rpc, 'getRecentPrioritizationFees' | 'simulateTransaction'>;
  readonly #log: Log;
  readonly #learnt = new Map<number, Learnt>();
  /**
   * For each subscription, the latest period that had an expired attempt, and the number of expired
   * attempts in that period.
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
   * Returns the recent priority fee in micro-lamports per compute unit. Reads the fee again if the
   * last read began at least 10 s ago. If the read fails, returns the last known fee.
   */
  async price(): Promise<bigint> {
    if (performance.now() - this.#pricedAt < PRICE_AGE_MS) return this.#price;
    this.#pricedAt = performance.now();
    try {
      // The request names no accounts, so the response covers all transactions of the cluster. If
      // the request named accounts that only this keeper writes to, the response would have only
      // this keeper's own fees.
      this.#price = othersPrice(await this.#rpc.getRecentPrioritizationFees([]));
    } catch (error) {
      // The last known price remains in use. A price that is too low only delays a payment, whereas
      // an error here would stop all payments.
      this.#log.debug({ err: error }, 'priority fees unknown');
    }
    return this.#price;
  }

  /**
   * Returns the priority fee in lamports of a transaction with these payments. The fee doubles with
   * each expired attempt of a payment. The maximum is MAX_LAMPORTS per payment.
   */
  priorityFee(payments: readonly PaidPeriod[], price: bigint, units: number): bigint {
    const expired = Math.max(0, ...payments.map((one) => this.expiries(one)));
    const raised = price * 2n ** BigInt(Math.min(expired, MAX_DOUBLINGS));
    const lamports = (raised * BigInt(units) + MICRO - 1n) / MICRO;
    const max = MAX_LAMPORTS * BigInt(payments.length);
    return lamports < max ? lamports : max;
  }

  /**
   * Returns the number of expired attempts of this payment. Attempts for an earlier period are not
   * counted. `#expiries` may still have such attempts, because another keeper may have made the
   * payment for the earlier period.
   */
  expiries({ subscription, periodStart }: PaidPeriod): number {
    const expiry = this.#expiries.get(subscription);
    return expiry?.periodStart === periodStart ? expiry.count : 0;
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

  /** Returns the compute unit limit of a payment with this shape. */
  units({ pulls, tries }: Shape): number {
    const sample = this.#learnt.get(pulls);
    if (sample === undefined) return DEFAULT_UNITS;
    const more = UNITS_A_TRY * pulls * Math.max(0, tries - sample.tries);
    return Math.min(
      TRANSACTION_LIMITS[1].computeUnits,
      Math.ceil(this.#margin * (sample.units + more)),
    );
  }

  /**
   * Returns the limit in bytes for the accounts that all payments share (programs and mint). The
   * limit of a transaction is this value plus OWN_DATA_BYTES for each payment.
   */
  sharedData(): number {
    const max = MAX_DATA_BYTES - TRANSACTION_LIMITS[1].addresses * OWN_DATA_BYTES;
    if (this.#loadedBytes === undefined) return max;
    return Math.min(max, Math.ceil(this.#margin * this.#loadedBytes) + ACCOUNTS_BYTES);
  }

  /**
   * Whether a payment of this shape should be simulated to learn how many compute units it uses.
   */
  wantsSample({ pulls }: Shape): boolean {
    if (performance.now() - this.#untakenAt < SAMPLE_PAUSE_MS) return false;
    return (this.#learnt.get(pulls)?.samples ?? 0) < SAMPLES;
  }

  /**
   * Simulates the transaction of one payment and learns its compute units and loaded bytes. Learns
   * nothing if the simulated transaction fails. Throws RpcUnreachable or RpcError if no endpoint
   * runs the simulation.
   */
  async sample({ pulls, tries }: Shape, bytes: Uint8Array): Promise<void> {
    const response = await this.#rpc.simulateTransaction(bytes).catch((error: unknown) => {
      this.#untakenAt = performance.now();
      this.#log.debug({ err: error }, 'payment not simulated');
      throw error;
    });
    const { err, unitsConsumed, loadedDataBytes } = response;
    if (err !== null || unitsConsumed === null || unitsConsumed === 0n) return;
    const sample = this.#learnt.get(pulls) ?? { samples: 0, units: 0, tries: 0 };
    sample.samples += 1;
    if (Number(unitsConsumed) > sample.units)
      Object.assign(sample, { units: Number(unitsConsumed), tries });
    this.#learnt.set(pulls, sample);
    if (loadedDataBytes !== null)
      this.#loadedBytes = Math.max(this.#loadedBytes ?? 0, Number(loadedDataBytes));
  }

  /**
   * Raises all limits after a transaction exceeded its limits. Further calls within 30 s are
   * ignored, so that a batch of such failures raises the limits once.
   */
  exceeded(): void {
    if (performance.now() - this.#raisedAt < RAISE_PAUSE_MS) return;
    this.#raisedAt = performance.now();
    this.#margin *= 1.5;
    this.#log.warn({ margin: this.#margin }, 'payment exceeded its limits; limits raised');
  }
}

/**
 * Returns the 75th percentile of the fees above zero, but at least MIN_PRICE. Fees are
 * micro-lamports per compute unit.
 */
function othersPrice(fees: readonly bigint[]): bigint {
  const paid = fees.filter((fee) => fee > 0n).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const found = paid[Math.floor(paid.length * PERCENTILE)] ?? 0n;
  return found > MIN_PRICE ? found : MIN_PRICE;
}
