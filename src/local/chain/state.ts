// The chain's state and its limits. LiteSVM has accounts and a clock; blocks, commitment and
// history are kept here.
import type { EventEmitter } from 'node:events';
import type { TransactionMetadata } from 'litesvm/dist/internal.js';
import type { Store } from './disk/store.ts';
import type { Key } from './keys.ts';
import type { TransactionError } from './transaction-error.ts';
import type { AccountState, Details, Vm } from './vm.ts';
import type { WireTransaction } from './wire/message.ts';

/**
 * A sealed block is final when this many more have been sealed on top (31 confirmations and the
 * block itself, as on a cluster).
 */
export const FINALITY_BLOCKS = 32;
/** Maximum lag of the lagging endpoint, in blocks. */
export const MAX_LAG = 160;
/**
 * Blocks whose account changes can still be taken back: every view (final on a lagging endpoint is
 * the oldest) and every fork needs no more.
 */
export const JOURNAL_BLOCKS = FINALITY_BLOCKS + MAX_LAG + 2;
/** A blockhash is good for transactions in this many blocks after its own. */
export const BLOCKHASH_AGE = 150;
/**
 * Signature statuses are known this many blocks back even when the transaction itself is no longer
 * kept.
 */
export const STATUS_BLOCKS = 300;
/** Blocks that getBlockTime knows. */
export const BLOCKS_KEPT = 10_000;
/** Transactions that getTransaction and getSignaturesForAddress know, some 5 kB each. */
export const TRANSACTIONS_KEPT = 20_000;
/**
 * A block is sealed early at this number of transactions: it bounds the journal and the statuses
 * under load.
 */
export const TRANSACTIONS_PER_BLOCK = 2_048;
/** Accounts cached as decoded copies of LiteSVM's own. */
export const ACCOUNTS_CACHED = 20_000;
/**
 * Nominal length of a slot in ms: the default block time, and the clock increment of time travel
 * and blocks on demand.
 */
export const SLOT_MS = 300;
/** Slots of an epoch, as on mainnet. */
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

/** The details of a landed transaction, kept until TRANSACTIONS_KEPT newer ones have landed. */
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
  /** Micro-lamports per compute unit that it paid. */
  readonly price: bigint;
  payload: Payload | null;
}

/** A block. The last one of the chain is still being built and has no hash. */
export interface Block {
  readonly slot: number;
  readonly parentSlot: number;
  readonly height: number;
  /** ms since 1970, of the chain's clock. */
  readonly time: number;
  hash: Key;
  /** Accounts that the block changed, as they were before it. Emptied beyond JOURNAL_BLOCKS. */
  undo: Map<Key, AccountState | null>;
  /** Emptied beyond JOURNAL_BLOCKS. */
  transactions: Landed[];
}

/** A transaction that waits for a block by order of a fault. */
export interface HeldTransaction {
  readonly transaction: WireTransaction;
  readonly height: number;
}

/** Faults that tests have switched on. Numbers count down; Infinity lasts until cleared. */
export interface Faults {
  drop: number;
  hold: { blocks: number; count: number } | null;
  lag: number;
  height: HeightFault | null;
  rate: RateLimit | null;
  answers: AnswerFault[];
}

/** Block heights that an endpoint tells, this much too high. */
export interface HeightFault {
  readonly blocks: number;
  readonly endpoint: AnswerFault['endpoint'];
}

/** Requests, and transactions sent among them, that are answered in any second; others get 429. */
export interface RateLimit {
  readonly requests: number;
  readonly sends: number;
  /** Whether all clients of an endpoint share the limit or each connection has its own. */
  readonly per: 'endpoint' | 'connection';
}

/** HTTP requests that get a wrong answer: a status, or nothing at all. */
export interface AnswerFault {
  readonly status: 429 | 500 | null;
  readonly retryAfter: number;
  readonly methods: ReadonlySet<string> | null;
  readonly endpoint: 'main' | 'lagging' | 'both';
  count: number;
}

/**
 * Events of a chain: the head changed, accounts changed in the block being built, a transaction
 * arrived, blocks above a height were forgotten, faults were switched off.
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
  /** 0 when blocks come on demand only. */
  readonly blockMs: number;
  readonly seed: Buffer;
  readonly genesisHash: Key;
  /** Ascending heights without gaps. The last one is being built. */
  readonly blocks: Block[];
  /**
   * Blocks up to this height count as final: the first block, or the last one that a restart found.
   */
  floor: number;
  /** ms that the chain's clock is ahead of the machine's. */
  offset: number;
  epochStart: { epoch: number; time: number };
  /** Accounts as they are now; undefined for one that has changed and was not read since. */
  readonly hot: Map<Key, AccountState | null | undefined>;
  readonly landed: Landed[];
  readonly byId: Map<Key, Landed>;
  /** Index in `landed` of the first one that still has its payload. */
  firstPayload: number;
  transactionCount: number;
  held: HeldTransaction[];
  readonly faults: Faults;
  readonly events: EventEmitter<ChainEvents>;
  readonly store: Store | null;
}
