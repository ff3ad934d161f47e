// The state of a chain, and the limits of what is kept. LiteSVM holds the accounts and the clock.
// This state holds blocks and history.
import type { EventEmitter } from 'node:events';
import type { TransactionMetadata } from 'litesvm/dist/internal.js';
import type { Store } from './disk/store.ts';
import type { Key } from './keys.ts';
import type { TransactionError } from './transaction-error.ts';
import type { AccountState, Details, Vm } from './vm.ts';
import type { WireTransaction } from './wire/message.ts';

/**
 * Number of heights between the newest finalized block and the block being built, as on a cluster.
 */
export const FINALITY_BLOCKS = 32;
/** The maximum lag of the lagging endpoint, in blocks. */
export const MAX_LAG = 160;
/**
 * Number of blocks whose account changes can be undone. It covers the oldest readable state
 * (finalized on the lagging endpoint) and the longest possible fork.
 */
export const JOURNAL_BLOCKS = FINALITY_BLOCKS + MAX_LAG + 2;
/**
 * Number of blocks after the block of a blockhash in which a transaction with this blockhash can
 * land.
 */
export const BLOCKHASH_AGE = 150;
/**
 * Number of blocks for which signature statuses are kept, even of transactions without a payload.
 */
export const STATUS_BLOCKS = 300;
/** Number of blocks whose time getBlockTime can read. */
export const BLOCKS_KEPT = 10_000;
/**
 * Number of transactions that getTransaction and getSignaturesForAddress can read. Each takes some
 * 5 kB of memory.
 */
export const TRANSACTIONS_KEPT = 20_000;
/**
 * Maximum number of transactions in a block. A full block is sealed, which bounds memory under
 * load.
 */
export const TRANSACTIONS_PER_BLOCK = 2_048;
/** Maximum number of LiteSVM accounts in the cache of decoded accounts. */
export const ACCOUNTS_CACHED = 20_000;
/**
 * Length of a slot in milliseconds. It is the default block time, and the step of the clock when
 * blocks are made on demand.
 */
export const SLOT_MS = 300;
/** Number of slots in an epoch, as on mainnet. */
export const EPOCH_SLOTS = 432_000;

/**
 * The balance of a token account before and after a transaction. `before` or `after` is null when
 * the account was not a token account at that time.
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
 * The details of a transaction. They are dropped when TRANSACTIONS_KEPT newer transactions have
 * landed.
 */
export interface Payload {
  readonly bytes: Buffer;
  readonly fee: number;
  /** The keys that the transaction took from lookup tables. */
  readonly loaded: { readonly writable: readonly Key[]; readonly readonly: readonly Key[] };
  /** Lamports of every account before and after the transaction, in the order of its keys. */
  readonly before: readonly bigint[];
  readonly after: readonly bigint[];
  readonly tokens: readonly TokenChange[];
  details: TransactionMetadata | Details;
}

/** A transaction that is in a block. */
export interface Landed {
  readonly id: Key;
  readonly slot: number;
  readonly height: number;
  readonly err: TransactionError | null;
  /** The price that the transaction paid, in micro-lamports per compute unit. */
  readonly price: bigint;
  payload: Payload | null;
}

/** A block. The last block of the chain is being built and has no hash yet. */
export interface Block {
  readonly slot: number;
  readonly parentSlot: number;
  readonly height: number;
  /** The chain's clock in this block, in milliseconds since 1970. */
  readonly time: number;
  hash: Key;
  /**
   * The previous states of the accounts that the block changed. Emptied when JOURNAL_BLOCKS newer
   * blocks exist.
   */
  undo: Map<Key, AccountState | null>;
  /** The block's transactions. Emptied when JOURNAL_BLOCKS newer blocks exist. */
  transactions: Landed[];
}

/** A transaction that the fault 'hold' delays until the block being built has this height. */
export interface HeldTransaction {
  readonly transaction: WireTransaction;
  readonly height: number;
}

/**
 * The faults that are switched on. A count goes down to 0 with each use. A fault with the count
 * Infinity lasts until it is cleared.
 */
export interface Faults {
  drop: number;
  hold: { blocks: number; count: number } | null;
  lag: number;
  height: HeightFault | null;
  rate: RateLimit | null;
  responses: ResponseFault[];
}

/** A fault: an endpoint reports block heights that are too high by `blocks`. */
export interface HeightFault {
  readonly blocks: number;
  readonly endpoint: ResponseFault['endpoint'];
}

/**
 * Maximum number of requests per second (`requests`), and of sendTransaction requests (`sends`). A
 * request above the limit gets status 429.
 */
export interface RateLimit {
  readonly requests: number;
  readonly sends: number;
  /** Whether all connections of an endpoint share the limit, or each connection has its own. */
  readonly per: 'endpoint' | 'connection';
}

/**
 * A fault: certain HTTP requests get the response `status`. When `status` is null they get no
 * response.
 */
export interface ResponseFault {
  readonly status: 429 | 500 | null;
  readonly retryAfter: number;
  readonly methods: ReadonlySet<string> | null;
  readonly endpoint: 'main' | 'lagging' | 'both';
  count: number;
}

/**
 * The events of a chain: a new block was opened, accounts changed in the block being built, a
 * transaction arrived, the blocks above a height were dropped, all faults were cleared.
 */
export interface ChainEvents {
  block: [];
  changed: [keys: readonly Key[], landed: Landed | null];
  received: [id: Key];
  forked: [height: number];
  faultsCleared: [];
}

/** The whole state of a chain. */
export interface Chain {
  readonly vm: Vm;
  /** Milliseconds between blocks. With 0, blocks are made on demand only. */
  readonly blockMs: number;
  readonly seed: Buffer;
  readonly genesisHash: Key;
  /** Blocks in order of height, without gaps. The last block is being built. */
  readonly blocks: Block[];
  /**
   * Height up to which blocks are finalized even without later blocks: the first block, blocks from
   * a data directory, and blocks that were finalized before a fork.
   */
  floor: number;
  /** Milliseconds by which the chain's clock is ahead of the machine's clock. */
  offset: number;
  epochStart: { epoch: number; time: number };
  /**
   * Cache of decoded accounts. Null: the account does not exist. Undefined: it has changed and was
   * not read since.
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
