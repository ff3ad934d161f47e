import type { ChainAccount } from './accounts.ts';
import type {
  Commitment,
  FoundTransaction,
  SignatureInfo,
  SignatureStatus,
  Simulation,
} from './answers.ts';
import type { EndpointHealth } from './endpoint.ts';
import { Failover, type FailoverOptions } from './failover.ts';
import type { ClockAccount } from './layouts.ts';
import { accountMethods } from './rpc-accounts.ts';
import { blockMethods } from './rpc-blocks.ts';
import { historyMethods, sendMethods } from './rpc-transactions.ts';
import type { TrustedClockOptions } from './trusted-clock.ts';

// The part of Solana's JSON-RPC that the service uses, with plain results: bigint for slots, heights and lamports, Buffers for data.
// Every method throws RpcUnreachable (nothing is known, try later) or RpcError (refused, trying again is no use).

/** Options of account reads. `minSlot`: the state is at least this new; endpoints that are behind it are skipped. */
export interface ReadOptions {
  readonly commitment?: Commitment;
  readonly minSlot?: bigint | undefined;
}

/** A blockhash to sign with. */
export interface Blockhash {
  readonly blockhash: string;
  /** The last block height at which a transaction with it can land. */
  readonly lastValidBlockHeight: bigint;
  /** The block height at which it was the newest. */
  readonly blockHeight: bigint;
  readonly slot: bigint;
}

export interface Rpc {
  /** Accounts in the order asked for, in batches of 100. `slot` is the oldest that any part is of. */
  getMultipleAccounts(
    addresses: readonly string[],
    options?: ReadOptions,
  ): Promise<{ slot: bigint; accounts: (ChainAccount | null)[] }>;
  /** Up to 100 accounts as each endpoint that is up has them: one answer for each. */
  getAccountsEverywhere(
    addresses: readonly string[],
    options?: Pick<ReadOptions, 'commitment'>,
  ): Promise<{ slot: bigint; accounts: (ChainAccount | null)[] }[]>;
  /** The cluster's clock, which programs use. It is one account and can be read together with others: see `decodeClock`. */
  getClock(options?: ReadOptions): Promise<ClockAccount>;
  /** Statuses of up to 256 signatures; null is unknown to that endpoint. `history` looks beyond the last 150 blocks, `everywhere` asks all endpoints. */
  getSignatureStatuses(
    signatures: readonly string[],
    options?: { history?: boolean; everywhere?: boolean; minSlot?: bigint | undefined },
  ): Promise<{ slot: bigint; statuses: (SignatureStatus | null)[] }>;
  /**
   * Sends a signed transaction with maxRetries 0 and no preflight to every endpoint (or one), and resolves with its signature once one took it.
   * After `withinMs` milliseconds it is handed to no further endpoint.
   */
  sendTransaction(
    bytes: Uint8Array,
    options?: { to?: 'all' | 'one'; withinMs?: number },
  ): Promise<string>;
  /** Runs a transaction without sending it, by default with the newest blockhash and unsigned. */
  simulateTransaction(
    bytes: Uint8Array,
    options?: { commitment?: Commitment; ownBlockhash?: boolean },
  ): Promise<Simulation & { slot: bigint }>;
  getLatestBlockhash(options?: { commitment?: Commitment }): Promise<Blockhash>;
  /** Slot and block height of one and the same block. */
  getHeight(options?: { commitment?: Commitment }): Promise<{ slot: bigint; blockHeight: bigint }>;
  getBlockHeight(options?: { commitment?: Commitment }): Promise<bigint>;
  getSlot(options?: { commitment?: Commitment }): Promise<bigint>;
  /** Unix seconds of a block, null when unknown. */
  getBlockTime(slot: bigint): Promise<bigint | null>;
  /** A transaction of any version. Endpoints are asked in turn until one returns it; without one it is unreadable, which is not the same as absent. */
  getTransaction(
    signature: string,
    options?: { commitment?: 'confirmed' | 'finalized' },
  ): Promise<FoundTransaction>;
  /** Transactions that name an address, newest first, up to 1,000; `before` and `until` are signatures. `everywhere` joins what all endpoints have. */
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
  /** Micro-lamports per compute unit that recent transactions writing to all these accounts paid at least, one figure per block. */
  getRecentPrioritizationFees(writable: readonly string[]): Promise<bigint[]>;
  /** Lamports that an account of `length` bytes must hold. */
  getMinimumBalanceForRentExemption(length: number): Promise<bigint>;
  /** Lamports that a message costs, null when its blockhash is not known any more. */
  getFeeForMessage(
    message: Uint8Array,
    options?: { commitment?: Commitment },
  ): Promise<bigint | null>;
  /** Transactions that an endpoint takes: a second, and at once now. Infinity without a limit. */
  sendRate(): { readonly perSecond: number; readonly allowed: number };
  health(): EndpointHealth[];
  close(): Promise<void>;
}

export interface RpcOptions extends FailoverOptions {
  /** Where transactions are sent; `urls` without it. */
  readonly sendUrls?: readonly string[] | undefined;
  /** Transactions per second to each endpoint. */
  readonly sendsPerSecond?: number | undefined;
  /** An endpoint whose clock is not believed is passed over. Without this every clock is believed, as on a local chain, whose users move it. */
  readonly clock?: TrustedClockOptions | undefined;
}

/**
 * Endpoints for sending, with rate limits of their own: a 429 on a send does not hold up reads. Endpoints that only send
 * cannot be asked for a genesis hash; another chain does not know the blockhash and drops the transaction.
 */
function createSends({ sendUrls, sendsPerSecond, ...options }: RpcOptions): Failover {
  return new Failover({
    ...options,
    urls: sendUrls ?? options.urls,
    refuses: sendUrls === undefined ? options.refuses : undefined,
    requestsPerSecond: sendsPerSecond,
    probeMs: Infinity,
  });
}

/** Opens a client over several RPC URLs; nothing is sent yet. Throws a TypeError for a bad URL. */
export function createRpc(options: RpcOptions): Rpc {
  const reads = new Failover(options);
  const sends = createSends(options);
  return {
    ...accountMethods(reads, options.clock),
    ...blockMethods(reads),
    ...historyMethods(reads),
    ...sendMethods(reads, sends),
    sendRate: () => ({ perSecond: options.sendsPerSecond ?? Infinity, allowed: sends.allowed() }),
    health: () => [...reads.health(), ...(options.sendUrls === undefined ? [] : sends.health())],
    async close() {
      await Promise.all([reads.close(), sends.close()]);
    },
  };
}
