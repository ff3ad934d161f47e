// Limits and priority fee of the keeper's transactions: what simulations used with a margin, and a percentile of what others pay, capped in lamports.
import type { Rpc } from './rpc.ts';
import { TRANSACTION_LIMITS } from './transaction-room.ts';
import type { Log } from '../log.ts';

/** Compute units of a payment that was not simulated: what Solana allows for its instructions at the most. */
const DEFAULT_UNITS = 600_000;
/** Lamports that a payment pays at most beside its share of the signature. */
const MOST_LAMPORTS = 5_000n;
/** Micro-lamports per compute unit: the least that is offered. */
const LEAST_PRICE = 1_000n;
const MICRO = 1_000_000n;
const PERCENTILE = 0.75;
const MOST_DOUBLINGS = 20;
const PRICE_AGE_MS = 10_000;
/** Simulations of each shape. */
const SAMPLES = 4;
/** How long no simulation is tried after one that no endpoint took (ms). */
const SAMPLE_PAUSE_MS = 60_000;
/** Compute units for each bump seed that a program tries and rejects when it derives an address (Agave's create_program_address_units). */
const UNITS_A_TRY = 1500;
const MARGIN = 1.2;
const RAISE_PAUSE_MS = 30_000;
/** Accounts that only one payment loads: subscription, plan, authority and three token accounts, some 1,500 bytes, with room to grow. */
export const OWN_DATA_BYTES = 4096;
const MOST_DATA_BYTES = TRANSACTION_LIMITS[1].loadedDataBytes;
/** Each account counts for this much more than its data (SIMD-0186), and a transaction has 64 at most. */
const ACCOUNTS_BYTES = 64 * 64;

/** What the cost of a payment depends on. */
export interface Shape {
  readonly pulls: number;
  /** Bump seeds that each pull rejects before it derives the subscriber's token account: they differ from wallet to wallet. */
  readonly tries: number;
}

/** A payment that is tried until it lands. */
export interface PaidPeriod {
  readonly subscription: string;
  /** Unix seconds. */
  readonly periodStart: bigint;
}

/** What was learnt of payments with so many pulls. */
interface Learnt {
  samples: number;
  /** The costliest sample, and how many tries it had. */
  units: number;
  tries: number;
}

/** Learns from simulations and from how transactions end. */
export class Fees {
  readonly #rpc: Pick<Rpc, 'getRecentPrioritizationFees' | 'simulateTransaction'>;
  readonly #log: Log;
  readonly #learnt = new Map<number, Learnt>();
  /** Attempts that expired for the newest period of which one did, by subscription. */
  readonly #expiries = new Map<string, { periodStart: bigint; count: number }>();
  #margin = MARGIN;
  #raisedAt = -Infinity;
  #untakenAt = -Infinity;
  #loadedBytes: number | undefined;
  #price = LEAST_PRICE;
  #pricedAt = -Infinity;

  constructor(rpc: Pick<Rpc, 'getRecentPrioritizationFees' | 'simulateTransaction'>, log: Log) {
    this.#rpc = rpc;
    this.#log = log;
  }

  /** Micro-lamports per compute unit that others pay, at most 10 s old; the last known price while RPC does not answer. */
  async price(): Promise<bigint> {
    if (performance.now() - this.#pricedAt < PRICE_AGE_MS) return this.#price;
    this.#pricedAt = performance.now();
    try {
      // Without accounts: on accounts that only we write, recent fees are our own.
      this.#price = othersPrice(await this.#rpc.getRecentPrioritizationFees([]));
    } catch (error) {
      // Old fees only make a payment slower; not paying at all would be worse.
      this.#log.debug({ err: error }, 'priority fees unknown');
    }
    return this.#price;
  }

  /** The priority fee in lamports of a transaction with these payments: doubled for each attempt that expired, with a cap for each payment. */
  priorityFee(payments: readonly PaidPeriod[], price: bigint, units: number): bigint {
    const expired = Math.max(0, ...payments.map((one) => this.expiries(one)));
    const raised = price * 2n ** BigInt(Math.min(expired, MOST_DOUBLINGS));
    const lamports = (raised * BigInt(units) + MICRO - 1n) / MICRO;
    const most = MOST_LAMPORTS * BigInt(payments.length);
    return lamports < most ? lamports : most;
  }

  /** Attempts of this payment that expired. Another keeper may have collected a period: what expired for one counts for no other. */
  expiries({ subscription, periodStart }: PaidPeriod): number {
    const known = this.#expiries.get(subscription);
    return known?.periodStart === periodStart ? known.count : 0;
  }

  /** An attempt of this payment expired. */
  expired(payment: PaidPeriod): void {
    const { subscription, periodStart } = payment;
    this.#expiries.set(subscription, { periodStart, count: this.expiries(payment) + 1 });
  }

  /** A payment of this subscription landed. */
  landed(subscription: string): void {
    this.#expiries.delete(subscription);
  }

  /** The compute units of a payment at most. */
  units({ pulls, tries }: Shape): number {
    const known = this.#learnt.get(pulls);
    if (known === undefined) return DEFAULT_UNITS;
    const more = UNITS_A_TRY * pulls * Math.max(0, tries - known.tries);
    return Math.min(
      TRANSACTION_LIMITS[1].computeUnits,
      Math.ceil(this.#margin * (known.units + more)),
    );
  }

  /** Bytes of accounts that a transaction loads at most beside OWN_DATA_BYTES for each payment: programs and mint. */
  sharedData(): number {
    const most = MOST_DATA_BYTES - TRANSACTION_LIMITS[1].addresses * OWN_DATA_BYTES;
    if (this.#loadedBytes === undefined) return most;
    return Math.min(most, Math.ceil(this.#margin * this.#loadedBytes) + ACCOUNTS_BYTES);
  }

  /** Whether more is to be learnt by simulating a payment of this shape. */
  wantsSample({ pulls }: Shape): boolean {
    if (performance.now() - this.#untakenAt < SAMPLE_PAUSE_MS) return false;
    return (this.#learnt.get(pulls)?.samples ?? 0) < SAMPLES;
  }

  /** Simulates the transaction of one payment; one that would fail tells nothing. Throws as the RPC client does. */
  async sample({ pulls, tries }: Shape, bytes: Uint8Array): Promise<void> {
    const answer = await this.#rpc.simulateTransaction(bytes).catch((error: unknown) => {
      this.#untakenAt = performance.now();
      this.#log.debug({ err: error }, 'payment not simulated');
      throw error;
    });
    const { err, unitsConsumed, loadedDataBytes } = answer;
    if (err !== null || unitsConsumed === null || unitsConsumed === 0n) return;
    const known = this.#learnt.get(pulls) ?? { samples: 0, units: 0, tries: 0 };
    known.samples += 1;
    if (Number(unitsConsumed) > known.units)
      Object.assign(known, { units: Number(unitsConsumed), tries });
    this.#learnt.set(pulls, known);
    if (loadedDataBytes !== null)
      this.#loadedBytes = Math.max(this.#loadedBytes ?? 0, Number(loadedDataBytes));
  }

  /** A transaction exceeded its limits. A batch that fails as a whole is one reason to raise them. */
  exceeded(): void {
    if (performance.now() - this.#raisedAt < RAISE_PAUSE_MS) return;
    this.#raisedAt = performance.now();
    this.#margin *= 1.5;
    this.#log.warn({ margin: this.#margin }, 'payment exceeded its limits; limits raised');
  }
}

/** A percentile of the fees that are not zero, at least the floor. */
function othersPrice(fees: readonly bigint[]): bigint {
  const paid = fees.filter((fee) => fee > 0n).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const found = paid[Math.floor(paid.length * PERCENTILE)] ?? 0n;
  return found > LEAST_PRICE ? found : LEAST_PRICE;
}
