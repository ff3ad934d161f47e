// The state of a chain, and the limits for the number of blocks, transactions and accounts that are
// kept. LiteSVM holds the accounts and the clock. The state in this file holds blocks and past
// transactions.
import type { EventEmitter } from 'node:events';
import type { TransactionMetadata } from 'litesvm/dist/internal.js';
import type { Key } from './keys.ts';
import type { TransactionError } from './transaction-error.ts';
import type { AccountState, Details, Vm } from './vm.ts';
import type { WireTransaction } from './wire/message.ts';

/**
 * Number of blocks by which the newest finalized block is below the block being built, as on a
 * public cluster.
 */
export const FINALITY_BLOCKS = 32;
/** Maximum number of blocks by which the second HTTP endpoint can be behind the main endpoint. */
export const MAX_LAG = 160;
/**
 * Number of blocks whose account changes can be undone. This number covers the oldest state that a
 * request can read (finalized, on the lagging endpoint) and the longest possible fork.
 */
export const JOURNAL_BLOCKS = FINALITY_BLOCKS + MAX_LAG + 2;
/**
 * Number of blocks for which a blockhash stays valid: a transaction can land in the BLOCKHASH_AGE
 * blocks after the block of its blockhash.
 */
export const BLOCKHASH_AGE = 150;
/**
 * Number of blocks for which the status of a transaction is kept, even if its payload has been
 * dropped.
 */
export const STATUS_BLOCKS = 300;
/** Number of blocks that the chain keeps. getBlockTime can read the time of these blocks. */
export const BLOCKS_KEPT = 10_000;
/**
 * Number of transactions that getTransaction and getSignaturesForAddress can read. Each transaction
 * takes about 5 kB of memory.
 */
export const TRANSACTIONS_KEPT = 20_000;
/**
 * Maximum number of transactions in a block. A full block is sealed at once, which bounds memory
 * under load.
 */
export const TRANSACTIONS_PER_BLOCK = 2_048;
/** Maximum number of accounts in the cache of accounts that were decoded from LiteSVM. */
export const ACCOUNTS_CACHED = 20_000;
/**
 * Length of a slot in milliseconds: the default time between blocks. When blocks are made on
 * demand, each block moves the clock by this time.
 */
export const SLOT_MS = 300;
/** Number of slots in an epoch, as on mainnet. */
export const EPOCH_SLOTS = 432_000;

/**
 * The token balance of an account before and after a transaction, in base units. `before` or
 * `after` is null when the account was not a token account at that time. `index` is the account's
 * index among the transaction's keys.
 */
export interface TokenChange {
  readonly index: number;
  readonly mint: Key;
  readonly owner: Key;
  readonly program: Key;
  readonly decimals: number;
  readonly before: bigint | null;
  readonly after: bigint | null;
}

/**
 * The details of a transaction. A transaction loses its payload when TRANSACTIONS_KEPT newer
 * transactions have landed.
 */
export interface Payload {
  readonly bytes: Buffer;
  readonly fee: number;
  /** The keys that the transaction took from lookup tables. */
  readonly loaded: { readonly writable: readonly Key[]; readonly readonly: readonly Key[] };
  /**
   * Lamports of every account before and after the transaction, in the order of the transaction's
   * keys.
   */
  readonly before: readonly bigint[];
  readonly after: readonly bigint[];
  readonly tokens: readonly TokenChange[];
  details: TransactionMetadata | Details;
}

/** A transaction that is in a block. `id` is its first signature. */
export interface Landed {
  readonly id: Key;
  readonly slot: number;
  readonly height: number;
  readonly err: TransactionError | null;
  /** The price that the transaction paid for its compute units, in micro-lamports per unit. */
  readonly price: bigint;
  payload: Payload | null;
}

/** A block. The last block of the chain is still being built and has no blockhash yet. */
export interface Block {
  readonly slot: number;
  readonly parentSlot: number;
  readonly height: number;
  /** The chain's clock in this block, in milliseconds since 1970. */
  readonly time: number;
  hash: Key;
  /**
   * The states that the changed accounts had before this block. The map is emptied when
   * JOURNAL_BLOCKS newer blocks exist.
   */
  undo: Map<Key, AccountState | null>;
  /** The block's transactions. The list is emptied when JOURNAL_BLOCKS newer blocks exist. */
  transactions: Landed[];
}

/**
 * A transaction that the fault 'hold' delays. The transaction runs when the block at `height` is
 * opened.
 */
export interface HeldTransaction {
  readonly transaction: WireTransaction;
  readonly height: number;
}

/**
 * The faults that are switched on. If a fault has a count, each use lowers the count by one, and
 * the fault ends at 0. A fault with the count Infinity lasts until it is cleared.
 */
export interface Faults {
  drop: number;
  hold: { blocks: number; count: number } | null;
  lag: number;
  height: HeightFault | null;
  rate: RateLimit | null;
  responses: ResponseFault[];
}

/**
 * A fault: an endpoint adds `blocks` to the block heights that it reports. `blocks` may be
 * negative.
 */
export interface HeightFault {
  readonly blocks: number;
  readonly endpoint: ResponseFault['endpoint'];
}

/**
 * Maximum number of requests per second (`requests`), and of sendTransaction requests per second
 * (`sends`). A request above a limit gets the HTTP status 429.
 */
export interface RateLimit {
  readonly requests: number;
  readonly sends: number;
  /**
   * Whether all connections to an endpoint share one limit, or each connection has its own limit.
   */
  readonly per: 'endpoint' | 'connection';
}

/**
 * A fault: a request to `endpoint` that calls one of `methods` gets the HTTP status `status`. If
 * `status` is null, the request gets no response. If `methods` is null, the fault applies to all
 * methods.
 */
export interface ResponseFault {
  readonly status: 429 | 500 | null;
  readonly retryAfter: number;
  readonly methods: ReadonlySet<string> | null;
  readonly endpoint: 'main' | 'lagging' | 'both';
  count: number;
}

/**
 * The events of a chain.
 * - `block`: a new block was opened.
 * - `changed`: accounts changed in the block being built.
 * - `received`: a transaction arrived.
 * - `forked`: the blocks above a height were dropped.
 * - `faultsCleared`: all faults were cleared.
 */
export interface ChainEvents {
  block: [];
  changed: [keys: readonly Key[], landed: Landed | null];
  received: [id: Key];
  forked: [height: number];
  faultsCleared: [];
}

/** An open data directory, to which a chain is written. */
export interface Store {
  /**
   * Writes a sealed block to the log. The caller must call append() before the next block changes
   * any account, because the log takes the accounts' current states.
   */
  append(chain: Chain, block: Block): void;
  /**
   * Writes a fork to the log. The fork dropped the blocks above `height`, and restored `accounts`
   * to their states before the dropped blocks.
   */
  appendFork(height: number, accounts: ReadonlyMap<Key, AccountState | null>): void;
  close(): void;
}

export interface Chain {
  readonly vm: Vm;
  /** Milliseconds between blocks. With 0, blocks are made only on demand. */
  blockMs: number;
  readonly seed: Buffer;
  readonly genesisHash: Key;
  /** The kept blocks in order of height, without gaps. The last block is being built. */
  readonly blocks: Block[];
  /**
   * Height up to which blocks count as finalized, even if too few blocks follow them. Such blocks
   * are (1) the first block, (2) blocks from a data directory, (3) blocks that were finalized
   * before a fork.
   */
  floor: number;
  /** Milliseconds by which the chain's clock is ahead of the machine's clock. */
  offset: number;
  epochStart: { epoch: number; time: number };
  /**
   * Cache of decoded accounts by key. The value null means that the account does not exist. The
   * value undefined means that the account has changed and was not read since.
   */
  readonly hot: Map<Key, AccountState | null | undefined>;
  readonly landed: Landed[];
  readonly byId: Map<Key, Landed>;
  /** Index in `landed` of the oldest transaction that still has its payload. */
  firstPayload: number;
  transactionCount: number;
  held: HeldTransaction[];
  readonly faults: Faults;
  readonly events: EventEmitter<ChainEvents>;
  readonly store: Store | null;
}
