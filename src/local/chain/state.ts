// The state of a chain, and how much of it is kept. LiteSVM has accounts and a clock; blocks,
// commitments and history are here.
import type { EventEmitter } from 'node:events';
import type { TransactionMetadata } from 'litesvm/dist/internal.js';
import type { Store } from './disk/store.ts';
import type { Key } from './keys.ts';
import type { TransactionError } from './transaction-error.ts';
import type { AccountState, Details, Vm } from './vm.ts';
import type { WireTransaction } from './wire/message.ts';

/**
 * A block is finalized when the block being built is this many heights above it, as on a cluster.
 */
export const FINALITY_BLOCKS = 32;
/** The maximum lag of the lagging endpoint, in blocks. */
export const MAX_LAG = 160;
/**
 * The blocks whose account changes can be undone. The oldest view, finalized on a lagging endpoint,
 * and the longest fork need no more.
 */
export const JOURNAL_BLOCKS = FINALITY_BLOCKS + MAX_LAG + 2;
/** A blockhash is valid for transactions in this many blocks after its own. */
export const BLOCKHASH_AGE = 150;
/** The blocks whose signature statuses are kept, also of transactions without a payload. */
export const STATUS_BLOCKS = 300;
/** The blocks that getBlockTime can read. */
export const BLOCKS_KEPT = 10_000;
/** The transactions that getTransaction and getSignaturesForAddress can read, some 5 kB each. */
export const TRANSACTIONS_KEPT = 20_000;
/** A block is sealed at this number of transactions, which bounds memory under load. */
export const TRANSACTIONS_PER_BLOCK = 2_048;
/** The accounts of LiteSVM that are cached decoded. */
export const ACCOUNTS_CACHED = 20_000;
/** The length of a slot in ms: the default block time, and the step of the clock on demand. */
export const SLOT_MS = 300;
/** The slots of an epoch, as on mainnet. */
export const EPOCH_SLOTS = 432_000;

/** A token account's balance before and after a transaction; null where it was no token account. */
export interface TokenChange {
  readonly index: number;
  readonly mint: Key;
  readonly owner: Key;
  readonly program: Key;
  readonly decimals: number;
  readonly before: bigint | null;
  readonly after: bigint | null;
}

/** The details of a transaction, until TRANSACTIONS_KEPT newer ones have landed. */
export interface Payload {
  readonly bytes: Buffer;
  readonly fee: number;
  /** Keys from lookup tables. */
  readonly loaded: { readonly writable: readonly Key[]; readonly readonly: readonly Key[] };
  /** Lamports of every account, in the order of the keys. */
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
  /** The micro-lamports per compute unit that it paid. */
  readonly price: bigint;
  payload: Payload | null;
}

/** A block. The last one is being built and has no hash. */
export interface Block {
  readonly slot: number;
  readonly parentSlot: number;
  readonly height: number;
  /** The chain's clock, in ms since 1970. */
  readonly time: number;
  hash: Key;
  /** The accounts that the block changed, as they were before it. Empty after JOURNAL_BLOCKS. */
  undo: Map<Key, AccountState | null>;
  /** Empty after JOURNAL_BLOCKS. */
  transactions: Landed[];
}

/** A transaction that the fault 'hold' delays until a block of this height. */
export interface HeldTransaction {
  readonly transaction: WireTransaction;
  readonly height: number;
}

/** The faults that are on. Counts go down to 0; Infinity lasts until it is cleared. */
export interface Faults {
  drop: number;
  hold: { blocks: number; count: number } | null;
  lag: number;
  height: HeightFault | null;
  rate: RateLimit | null;
  responses: ResponseFault[];
}

/** An endpoint reports block heights that are too high by `blocks`. */
export interface HeightFault {
  readonly blocks: number;
  readonly endpoint: ResponseFault['endpoint'];
}

/** The most requests, and transactions sent among them, in a second; more get status 429. */
export interface RateLimit {
  readonly requests: number;
  readonly sends: number;
  /** All connections of an endpoint share the limit, or each has its own. */
  readonly per: 'endpoint' | 'connection';
}

/** HTTP requests that get this status; with null they get no response. */
export interface ResponseFault {
  readonly status: 429 | 500 | null;
  readonly retryAfter: number;
  readonly methods: ReadonlySet<string> | null;
  readonly endpoint: 'main' | 'lagging' | 'both';
  count: number;
}

/**
 * The events of a chain: a new block is being built, accounts changed in it, a transaction arrived,
 * the blocks above a height were dropped, all faults were cleared.
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
  /** 0 when blocks are made on demand only. */
  readonly blockMs: number;
  readonly seed: Buffer;
  readonly genesisHash: Key;
  /** By height, without gaps. The last one is being built. */
  readonly blocks: Block[];
  /** Blocks up to this height are finalized whatever follows: the first, and stored ones. */
  floor: number;
  /** The ms by which the chain's clock is ahead of the machine's. */
  offset: number;
  epochStart: { epoch: number; time: number };
  /** Cached accounts; undefined for one that has changed and was not read since. */
  readonly hot: Map<Key, AccountState | null | undefined>;
  readonly landed: Landed[];
  readonly byId: Map<Key, Landed>;
  /** The index in `landed` of the first transaction with a payload. */
  firstPayload: number;
  transactionCount: number;
  held: HeldTransaction[];
  readonly faults: Faults;
  readonly events: EventEmitter<ChainEvents>;
  readonly store: Store | null;
}
