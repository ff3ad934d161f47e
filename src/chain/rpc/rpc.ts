// The part of Solana's JSON-RPC that the service uses, with parsed results: bigint for slots,
// heights and lamports, Buffer for data. Every method throws RpcUnreachable (the result is unknown,
// retry later) or RpcError (the request was refused, a retry is useless).
import type { ChainAccount } from '../program/accounts.ts';
import type { ClockAccount } from '../program/layouts.ts';
import type { EndpointHealth } from './endpoint.ts';
import type {
  SignatureStatus,
  Commitment,
  ConfirmedTransaction,
  Simulation,
  FoundTransaction,
  SignatureInfo,
} from './responses.ts';

/**
 * Options of account reads. `minSlot` is the minimum slot of the state that is read. Endpoints
 * behind this slot are skipped.
 */
export interface ReadOptions {
  readonly commitment?: Commitment;
  readonly minSlot?: bigint | undefined;
}

/** A recent blockhash for signing transactions. */
export interface Blockhash {
  readonly blockhash: string;
  /** The last block height at which a transaction with this blockhash can land. */
  readonly lastValidBlockHeight: bigint;
  /** Height of the block that the blockhash belongs to. */
  readonly blockHeight: bigint;
  readonly slot: bigint;
}

/**
 * The blockhash that a transaction was signed with, and two values that the endpoint returned
 * together with the blockhash.
 */
export interface Lifetime {
  readonly blockhash: string;
  readonly lastValidBlockHeight: bigint;
  /** Slot of the response that contained the blockhash; 0 when the slot is unknown. */
  readonly slot: bigint;
}

/** What one endpoint reports about blockhashes. */
export interface LifetimeResponse {
  /** The endpoint's finalized slot. */
  readonly slot: bigint;
  /**
   * One entry per requested blockhash. The entry is `live` if transactions with the blockhash may
   * still land. The entry is a slot if the blockhash had expired at this finalized slot. The entry
   * is undefined if the endpoint cannot tell.
   */
  readonly ends: readonly ('live' | bigint | undefined)[];
}

export interface Rpc {
  /**
   * Reads accounts in batches of 100 and returns them in the given order. `slot` is the oldest slot
   * of the batches.
   */
  getMultipleAccounts(
    addresses: readonly string[],
    options?: ReadOptions,
  ): Promise<{ slot: bigint; accounts: (ChainAccount | null)[] }>;
  /** Reads up to 100 accounts from every endpoint that is up. Returns one result per endpoint. */
  getAccountsEverywhere(
    addresses: readonly string[],
    options?: Pick<ReadOptions, 'commitment'>,
  ): Promise<{ slot: bigint; accounts: (ChainAccount | null)[] }[]>;
  /** Reads the cluster's clock, from which on-chain programs get the time. */
  getClock(options?: ReadOptions): Promise<ClockAccount>;
  /**
   * Reads the time (Unix seconds) of every URL that responds: its clock, or the time of its newest
   * block if it does not return the clock.
   */
  getTimesEverywhere(): Promise<bigint[]>;
  /**
   * Reads the statuses of up to 256 signatures; null for an unknown signature. `history` searches
   * beyond the last 150 blocks. `everywhere` asks all endpoints; `witnesses` is the number of
   * endpoints that responded. With `since`, `witnesses` counts only endpoints that keep the blocks
   * since this slot. The status of a signature comes from any endpoint. Before a final failure is
   * returned, all endpoints are asked, also without `everywhere`. If only one endpoint reports it,
   * the status is marked as doubted (SignatureStatus).
   */
  getSignatureStatuses(
    signatures: readonly string[],
    options?: {
      history?: boolean;
      everywhere?: boolean;
      minSlot?: bigint | undefined;
      since?: bigint | undefined;
    },
  ): Promise<{ slot: bigint; witnesses: number; statuses: (SignatureStatus | null)[] }>;
  /**
   * Sends a signed transaction with maxRetries 0 and without preflight, by default to all endpoints
   * that are up. With `to: 'one'`, tries one endpoint after the other. Resolves with the
   * transaction's signature once one endpoint accepts the transaction. After `withinMs` (ms) the
   * transaction is not sent to further endpoints.
   */
  sendTransaction(
    bytes: Uint8Array,
    options?: { to?: 'all' | 'one'; withinMs?: number },
  ): Promise<string>;
  /**
   * Simulates a transaction on the state at `minSlot` or later, without verifying signatures. The
   * endpoint replaces the transaction's blockhash by the latest blockhash unless `ownBlockhash` is
   * set.
   */
  simulateTransaction(
    bytes: Uint8Array,
    options?: { commitment?: Commitment; ownBlockhash?: boolean; minSlot?: bigint | undefined },
  ): Promise<Simulation & { slot: bigint }>;
  getLatestBlockhash(options?: { commitment?: Commitment }): Promise<Blockhash>;
  /**
   * Asks every endpoint that is up whether blockhashes have expired. Returns one response per
   * endpoint. A blockhash is live until the endpoint's finalized block height is above the
   * blockhash's last valid block height, or 600 slots have passed. After that, isBlockhashValid
   * decides, at finalized and at the endpoint's newest block. It is called for at most 64
   * blockhashes per endpoint.
   */
  getLifetimesEverywhere(lifetimes: readonly Lifetime[]): Promise<LifetimeResponse[]>;
  /**
   * Number of endpoints that serve reads. URLs of one host and port count as one endpoint, here and
   * wherever several endpoints have to agree.
   */
  endpoints(): number;
  /** Reads the slot and the block height of an endpoint's newest block at `commitment`. */
  getHeight(options?: { commitment?: Commitment }): Promise<{ slot: bigint; blockHeight: bigint }>;
  /** Reads slot and block height from every endpoint that responds. */
  getHeights(options?: {
    commitment?: Commitment;
  }): Promise<{ slot: bigint; blockHeight: bigint }[]>;
  getBlockHeight(options?: { commitment?: Commitment }): Promise<bigint>;
  /**
   * Reads the newest slot of one endpoint. With `everywhere`, reads the newest slot of all
   * endpoints.
   */
  getSlot(options?: { commitment?: Commitment; everywhere?: boolean }): Promise<bigint>;
  /** Reads the time of a block in Unix seconds; null when the endpoint does not know the time. */
  getBlockTime(slot: bigint): Promise<bigint | null>;
  /**
   * Reads a transaction of any version from the first endpoint that returns the transaction in a
   * readable form. If no endpoint does, the result is an UnreadableTransaction. An unreadable
   * transaction may be on chain.
   */
  getTransaction(
    signature: string,
    options?: { commitment?: 'confirmed' | 'finalized' },
  ): Promise<FoundTransaction>;
  /**
   * Reads a transaction, by default a finalized one, from every endpoint. `copies` has each
   * readable response; they differ if an endpoint is wrong. `witnesses` is the number of endpoints
   * that returned one.
   */
  getTransactionEverywhere(
    signature: string,
    options?: { commitment?: 'confirmed' | 'finalized' },
  ): Promise<{ copies: readonly ConfirmedTransaction[]; witnesses: number }>;
  /**
   * Lists up to 1,000 transactions of an address, newest first. `before` and `until` are signatures
   * that bound the list. `everywhere` merges the lists of all endpoints: a transaction is
   * successful if one of them lists it as successful.
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
  /**
   * Lists the transactions of an address, by default the finalized ones, at every endpoint that has
   * reached the slot `minSlot`. Returns one list per endpoint. `isWhole` is false if the list may
   * lack transactions since the slot `since`, because the endpoint does not keep these blocks or
   * the list is full (1,000).
   */
  getHistoriesEverywhere(
    address: string,
    options: { minSlot: bigint; since: bigint; commitment?: 'confirmed' | 'finalized' },
  ): Promise<{ listed: SignatureInfo[]; isWhole: boolean }[]>;
  getBalance(address: string, options?: ReadOptions): Promise<bigint>;
  getGenesisHash(): Promise<string>;
  /**
   * Reads one priority fee per recent block: the lowest price (micro-lamports per compute unit) of
   * a transaction that writes to these accounts.
   */
  getRecentPrioritizationFees(writable: readonly string[]): Promise<bigint[]>;
  /** Reads the minimum balance in lamports of an account of `length` bytes. */
  getMinimumBalanceForRentExemption(length: number): Promise<bigint>;
  /**
   * Reads the program's accounts whose data has the given bytes (Base58) at the given offsets. The
   * option `slice` limits the data in the result to this part of each account's data. Many
   * endpoints limit or refuse this method.
   */
  getProgramAccounts(
    programId: string,
    filters: readonly { offset: number; bytes: string }[],
    options?: { commitment?: Commitment; slice?: { offset: number; length: number } },
  ): Promise<{ address: string; account: ChainAccount }[]>;
  /**
   * Reads the network fee of a message in lamports; null when the message's blockhash has expired.
   */
  getFeeForMessage(
    message: Uint8Array,
    options?: { commitment?: Commitment },
  ): Promise<bigint | null>;
  /** Milliseconds until the rate limit of an endpoint allows a read. */
  readDelay(): number;
  /**
   * The send rate of each endpoint: transactions per second, and the number of transactions that
   * may be sent now. Both are Infinity without a limit.
   */
  sendRate(): { readonly perSecond: number; readonly allowed: number };
  health(): EndpointHealth[];
  close(): Promise<void>;
}
