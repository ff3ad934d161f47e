// Compute limit and priority fee of collections: simulation x 1.2, and the median of recent fees on our writable accounts, capped (chain.md).
import type { Rpc } from '../chain/rpc.ts';
import type { Log } from '../log.ts';

/** Compute units where a simulation tells nothing: what Solana allows for the instructions of a collection at the most. */
const DEFAULT_UNITS = 600_000;
const MOST_UNITS = 1_400_000;
/** Micro-lamports per compute unit at the most: with some 100,000 units a payment costs 5,000 lamports at most beside its signature. */
const MOST_PRICE = 50_000n;
const PRICE_AGE_MS = 10_000;
/** Simulations of each shape. */
const SAMPLES = 4;
/** What programs pay for each bump seed they try in vain when they derive an address (Agave's create_program_address_units). */
const UNITS_A_TRY = 1500;
const MARGIN = 1.2;
const RAISE_PAUSE_MS = 30_000;

/** What a collection's cost depends on. */
export interface Shape {
  readonly pulls: number;
  readonly creations: number;
  /** Bump seeds that each pull tries in vain to derive the subscriber's token account: they differ from wallet to wallet. */
  readonly tries: number;
}

export interface Fees {
  /** Micro-lamports per compute unit, at most 10 s old; the last known one while RPC does not tell. */
  price(writable: readonly string[]): Promise<bigint>;
  /** The compute limit for a transaction. */
  units(shape: Shape): number;
  /** Whether more is to be learnt by simulating a transaction of this shape. */
  wantsSample(shape: Shape): boolean;
  /** Simulates a transaction; one that would fail tells nothing. */
  sample(shape: Shape, bytes: Uint8Array): Promise<void>;
  /** A transaction ran out of compute units. */
  exceeded(shape: Shape): void;
}

/** What was learnt of transactions with so many pulls and creations. */
interface Learnt {
  samples: number;
  /** The costliest sample, and how many tries it had. */
  units: number;
  tries: number;
  factor: number;
  raisedAt: number;
}

const keyOf = ({ pulls, creations }: Shape) => `${pulls} pulls, ${creations} accounts`;

/** Fees by what `rpc` tells. */
export function createFees(rpc: Pick<Rpc, 'getRecentPrioritizationFees' | 'simulateTransaction'>, log: Log): Fees {
  const learnt = new Map<string, Learnt>();
  let price = 0n;
  let pricedAt = -Infinity;
  return {
    async price(writable) {
      if (performance.now() - pricedAt < PRICE_AGE_MS) return price;
      pricedAt = performance.now();
      try {
        price = median(await rpc.getRecentPrioritizationFees(writable));
        if (price > MOST_PRICE) {
          log.warn({ price: price.toString(), cap: MOST_PRICE.toString() }, 'priority fees are above our cap');
          price = MOST_PRICE;
        }
      } catch (error) {
        // Old fees only make a payment slower; not paying at all would be worse.
        log.debug({ err: error }, 'priority fees are not known');
      }
      return price;
    },
    units(shape) {
      const known = learnt.get(keyOf(shape));
      if (known === undefined || known.samples === 0) return DEFAULT_UNITS;
      const more = UNITS_A_TRY * shape.pulls * Math.max(0, shape.tries - known.tries);
      return Math.min(MOST_UNITS, Math.ceil(known.factor * (known.units + more)));
    },
    wantsSample: (shape) => (learnt.get(keyOf(shape))?.samples ?? 0) < SAMPLES,
    async sample(shape, bytes) {
      const { err, unitsConsumed } = await rpc.simulateTransaction(bytes);
      if (err !== null || unitsConsumed === null || unitsConsumed === 0n) return;
      const known = learnt.get(keyOf(shape)) ?? { samples: 0, units: 0, tries: 0, factor: MARGIN, raisedAt: -Infinity };
      known.samples += 1;
      if (Number(unitsConsumed) > known.units) Object.assign(known, { units: Number(unitsConsumed), tries: shape.tries });
      learnt.set(keyOf(shape), known);
    },
    exceeded(shape) {
      const known = learnt.get(keyOf(shape));
      // A batch that fails as a whole is one reason to raise.
      if (known === undefined || performance.now() - known.raisedAt < RAISE_PAUSE_MS) return;
      known.raisedAt = performance.now();
      known.factor *= 1.5;
      log.warn({ shape: keyOf(shape), factor: known.factor }, 'a payment ran out of compute units: the limit is raised');
    },
  };
}

function median(values: readonly bigint[]): bigint {
  const sorted = [...values].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  return sorted[Math.floor(sorted.length / 2)] ?? 0n;
}
