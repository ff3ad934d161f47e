// The part of Solana's JSON-RPC that the service uses, with parsed results: bigint for slots,
// heights and lamports, Buffers for data. Every method throws RpcUnreachable (result unknown, retry
// later) or RpcError (refused, a retry is useless).
import type { ChainAccount } from '../program/accounts.ts';
import type { ClockAccount } from '../program/layouts.ts';
import type { EndpointHealth } from './endpoint.ts';
import type {
  SignatureStatus,
  Commitment,
  Simulation,
  FoundTransaction,
  SignatureInfo,
} from './responses.ts';

/**
 * Options of account reads. `minSlot`: the minimum slot of the state; endpoints that are behind it
 * are skipped.
 */
export interface ReadOptions {
  readonly commitment?: Commitment;
  readonly minSlot?: bigint | undefined;
}

/** A blockhash to sign with. */
export interface Blockhash {
  readonly blockhash: string;
  /** The last block height at which a transaction with it can land. */
  readonly lastValidBlockHeight: bigint;
  /** The block height of the blockhash's own block. */
  readonly blockHeight: bigint;
  readonly slot: bigint;
}

/**
 * A blockhash that a transaction was signed with, and what the endpoint that gave it reported about
 * it.
 */
export interface Lifetime {
  readonly blockhash: string;
  readonly lastValidBlockHeight: bigint;
  /** Slot of that response; 0 when it is not known. */
  readonly slot: bigint;
}

/** What one endpoint reports about blockhashes at finalized. */
export interface LifetimeResponse {
  /** Its finalized slot. */
  readonly slot: bigint;
  /**
   * In the order of the request. A slot: as of then no transaction with the blockhash can land any
   * more. Undefined: no response about it.
   */
  readonly ends: readonly ('live' | bigint | undefined)[];
}

export interface Rpc {
  /**
   * Accounts in the given order, read in batches of 100. `slot` is the oldest slot of the batches.
   */
  getMultipleAccounts(
    addresses: readonly string[],
    options?: ReadOptions,
  ): Promise<{ slot: bigint; accounts: (ChainAccount | null)[] }>;
  /** Up to 100 accounts, read from every endpoint that is up: one result per endpoint. */
  getAccountsEverywhere(
    addresses: readonly string[],
    options?: Pick<ReadOptions, 'commitment'>,
  ): Promise<{ slot: bigint; accounts: (ChainAccount | null)[] }[]>;
  /**
   * The cluster's clock, which programs use. It is an account and can be read together with others
   * (`decodeClock`).
   */
  getClock(options?: ReadOptions): Promise<ClockAccount>;
  /**
   * Statuses of up to 256 signatures; null when unknown. `history` searches beyond the last 150
   * blocks, `everywhere` queries all endpoints, of which `witnesses` responded.
   */
  getSignatureStatuses(
    signatures: readonly string[],
    options?: { history?: boolean; everywhere?: boolean; minSlot?: bigint | undefined },
  ): Promise<{ slot: bigint; witnesses: number; statuses: (SignatureStatus | null)[] }>;
  /**
   * Sends a signed transaction with maxRetries 0 and without preflight to every endpoint (or one),
   * and resolves with its signature once one accepts it. After `withinMs` it is not sent to further
   * endpoints.
   */
  sendTransaction(
    bytes: Uint8Array,
    options?: { to?: 'all' | 'one'; withinMs?: number },
  ): Promise<string>;
  /**
   * Simulates a transaction as of `minSlot` or later, by default with the latest blockhash;
   * signatures are not verified.
   */
  simulateTransaction(
    bytes: Uint8Array,
    options?: { commitment?: Commitment; ownBlockhash?: boolean; minSlot?: bigint | undefined },
  ): Promise<Simulation & { slot: bigint }>;
  getLatestBlockhash(options?: { commitment?: Commitment }): Promise<Blockhash>;
  /**
   * Whether an endpoint accepts this blockhash; false too where it has not seen its block yet.
   */
  isBlockhashValid(blockhash: string, options?: { commitment?: Commitment }): Promise<boolean>;
  /**
   * Whether blockhashes can be used any more, by every endpoint that is up: one response per
   * endpoint. An endpoint is asked only for the blockhashes whose last block height its own
   * finalized height has passed, and for a limited number of them.
   */
  getLifetimesEverywhere(lifetimes: readonly Lifetime[]): Promise<LifetimeResponse[]>;
  /** Number of endpoints that are read from. */
  endpoints(): number;
  /** Slot and block height of the same block. */
  getHeight(options?: { commitment?: Commitment }): Promise<{ slot: bigint; blockHeight: bigint }>;
  /** The same of every endpoint that responds. */
  getHeights(options?: {
    commitment?: Commitment;
  }): Promise<{ slot: bigint; blockHeight: bigint }[]>;
  getBlockHeight(options?: { commitment?: Commitment }): Promise<bigint>;
  /** `everywhere`: the newest slot of all endpoints. */
  getSlot(options?: { commitment?: Commitment; everywhere?: boolean }): Promise<bigint>;
  /** Unix seconds of a block, null when unknown. */
  getBlockTime(slot: bigint): Promise<bigint | null>;
  /**
   * A transaction of any version. Endpoints are tried in turn until one returns it; otherwise it is
   * unreadable, which does not mean absent.
   */
  getTransaction(
    signature: string,
    options?: { commitment?: 'confirmed' | 'finalized' },
  ): Promise<FoundTransaction>;
  /**
   * Up to 1,000 transactions of an address, newest first; `before` and `until` are signatures.
   * `everywhere` merges the lists of all endpoints.
   */
  getSignaturesForAddress(
    address: string,
    options?: {
      before?: string | undefined;
      until?: string | undefined;
      limit?: number;
      commitment?: 'confirmed' | 'finalized';
      everywhere?: boolean;
    },
  ): Promise<SignatureInfo[]>;
  getBalance(address: string, options?: ReadOptions): Promise<bigint>;
  getGenesisHash(): Promise<string>;
  /**
   * Per recent block, the lowest price in micro-lamports per compute unit paid by transactions that
   * write to these accounts.
   */
  getRecentPrioritizationFees(writable: readonly string[]): Promise<bigint[]>;
  /** Minimum balance in lamports of an account of `length` bytes. */
  getMinimumBalanceForRentExemption(length: number): Promise<bigint>;
  /** Fee of a message in lamports; null when its blockhash has expired. */
  getFeeForMessage(
    message: Uint8Array,
    options?: { commitment?: Commitment },
  ): Promise<bigint | null>;
  /**
   * Send rate per endpoint: transactions per second, and the number allowed now. Infinity without a
   * limit.
   */
  sendRate(): { readonly perSecond: number; readonly allowed: number };
  health(): EndpointHealth[];
  close(): Promise<void>;
}

// The part of Solana's JSON-RPC that the service uses, with parsed results: bigint for slots,
// heights and lamports, Buffers for data. Every method throws RpcUnreachable (result unknown, retry
// later) or RpcError (refused, a retry is useless).
