// The installation's on-chain addresses, and the chain reads of the API.
import pRetry from 'p-retry';
import { type ChainAccount, clockIn } from '../chain/program/accounts.ts';
import { CLOCK_SYSVAR } from '../chain/program/addresses.ts';
import { BLOCKHASH_LIFE } from '../chain/rpc/blocks.ts';
import { EndpointFailure, RpcError, RpcUnreachable } from '../chain/rpc/errors.ts';
import { isWitnessed, lifetimeKey, witnessExpiry } from '../chain/rpc/expiry.ts';
import { judgeLandings, type Landing } from '../chain/rpc/landing.ts';
import { newestSlot } from '../chain/rpc/responses.ts';
import type { Blockhash, Lifetime, Rpc } from '../chain/rpc/rpc.ts';
import { ServiceError } from '../errors.ts';

/** The addresses that every plan must name, in Base58. */
export interface BillingAddresses {
  readonly programId: string;
  readonly mint: string;
  /** The keeper's wallet. */
  readonly puller: string;
  readonly treasury: string;
  /** Wallets of standby keepers and of backup treasuries. Plans name these wallets too. */
  readonly standbyPullers?: readonly string[];
  readonly backupTreasuries?: readonly string[];
}

export type ChainReader = Pick<
  Rpc,
  | 'getMultipleAccounts'
  | 'getLatestBlockhash'
  | 'getMinimumBalanceForRentExemption'
  | 'getProgramAccounts'
  | 'getSignaturesForAddress'
  | 'getTransaction'
>;

/** A chain reader that also has the methods for the relay. */
export type ChainSender = ChainReader &
  Pick<
    Rpc,
    | 'endpoints'
    | 'getBlockHeight'
    | 'getHeights'
    | 'getHistoriesEverywhere'
    | 'getLifetimesEverywhere'
    | 'getSignatureStatuses'
    | 'getTransactionEverywhere'
    | 'sendTransaction'
    | 'simulateTransaction'
  >;

/**
 * An unsigned transaction (base64) and its blockhash. `lastValidBlockHeight` is the last block
 * height at which the transaction can land. `slot` is the slot that an RPC endpoint must have
 * reached to know the blockhash.
 */
export interface Unsigned {
  readonly transaction: string;
  readonly blockhash: string;
  readonly lastValidBlockHeight: bigint;
  readonly slot: bigint;
  /** Whether closing the subscription also revokes the approval. */
  readonly revokes?: boolean;
}

/**
 * Reads accounts and the cluster's clock (Unix seconds) at one slot. Throws a ServiceError
 * (INTERNAL_ERROR) when the chain is unreachable.
 */
export async function readAccounts(
  chain: ChainReader,
  addresses: readonly string[],
): Promise<{ accounts: (ChainAccount | null)[]; slot: bigint; now: bigint }> {
  const { accounts, slot } = await reaching(
    chain.getMultipleAccounts([...addresses, CLOCK_SYSVAR]),
  );
  return { accounts: accounts.slice(0, -1), slot, now: clockIn(accounts.at(-1) ?? null) };
}

/**
 * Reads a blockhash for a transaction that a wallet will sign. Throws a ServiceError
 * (INTERNAL_ERROR) when the chain is unreachable.
 */
export function readBlockhash(chain: ChainReader): Promise<Blockhash> {
  return reaching(chain.getLatestBlockhash());
}

/** The chain methods that check whether blockhashes have expired. */
export type ExpiryReader = Pick<Rpc, 'endpoints' | 'getLifetimesEverywhere'>;

/**
 * Asks all endpoints which of these blockhashes have expired. The returned function is true for a
 * blockhash that two endpoints (or the only one) report as expired, and false for a blockhash that
 * is not in `lifetimes`. If `lifetimes` is empty, the chain is not read. Throws a ServiceError
 * (INTERNAL_ERROR) when the chain is unreachable.
 */
export async function readExpired(
  chain: ExpiryReader,
  lifetimes: readonly Lifetime[],
): Promise<(lifetime: Lifetime) => boolean> {
  const ends = await reaching(witnessExpiry(chain, lifetimes));
  return (lifetime) => {
    const end = ends.get(lifetimeKey(lifetime));
    return end !== undefined && isWitnessed(chain, end.witnesses);
  };
}

/** Awaits an RPC response. Throws a ServiceError (INTERNAL_ERROR) when the chain is unreachable. */
export async function reaching<T>(response: Promise<T>): Promise<T> {
  try {
    return await response;
  } catch (error) {
    const message =
      'The Solana network cannot be reached just now; nothing was stored. Try again in a moment.';
    throw isOutOfReach(error) ? unavailable(message, error) : error;
  }
}

const isOutOfReach = (error: unknown): error is RpcUnreachable | RpcError =>
  error instanceof RpcUnreachable || error instanceof RpcError;

/** The error that the API returns with status 503. */
function unavailable(message: string, cause: RpcUnreachable | RpcError): ServiceError {
  const refusal = new ServiceError('INTERNAL_ERROR', message);
  refusal.cause = cause;
  return refusal;
}

/**
 * Reads the lifetime of a blockhash that a wallet has read from another endpoint. Assumes that the
 * blockhash is no newer than the newest block of the service's responding endpoints. These may lag
 * behind the wallet's endpoint by some blocks, but each of them knows the blockhash before its
 * block height passes the returned last valid height. Throws INTERNAL_ERROR.
 */
export async function readLifetimeOfNew(
  chain: Pick<Rpc, 'getHeights'>,
  blockhash: string,
): Promise<Lifetime> {
  const heights = await reaching(chain.getHeights({ commitment: 'processed' }));
  const lastValidBlockHeight = lastHeightOfNew(
    newestSlot(heights.map(({ blockHeight }) => blockHeight)),
  );
  return { blockhash, lastValidBlockHeight, slot: newestSlot(heights.map(({ slot }) => slot)) };
}

/**
 * The last block height at which a transaction can land if the wallet reads its blockhash at the
 * block height `blockHeight`.
 */
export const lastHeightOfNew = (blockHeight: bigint): bigint => blockHeight + BLOCKHASH_LIFE;

/**
 * Repeats a read of all endpoints while it returns undefined. Undefined means that too few
 * endpoints have answered, for example because one is slow or rate limited. After about four
 * seconds, throws INTERNAL_ERROR with this message. The message has to say what the caller can do.
 */
export async function readWitnessed<T>(
  message: string,
  read: () => Promise<T | undefined>,
): Promise<T> {
  const again = { retries: 4, minTimeout: 250, factor: 2 };
  const ask = async () => {
    const found = await read();
    if (found !== undefined) return found;
    const failure = new EndpointFailure('unreachable', 'fewer answered than have to agree');
    throw new RpcUnreachable('a read that two have to agree on', [failure]);
  };
  try {
    return await pRetry(ask, {
      ...again,
      shouldRetry: ({ error }) => isOutOfReach(error),
    });
  } catch (error) {
    throw isOutOfReach(error) ? unavailable(message, error) : error;
  }
}

/** A transaction that the relay has accepted. */
export interface Relayed {
  readonly signature: string;
  readonly lifetime: Lifetime;
}

/** Determines the outcome of the transaction (chain/rpc/landing.ts). Throws INTERNAL_ERROR. */
export async function readLanding(
  chain: ChainSender,
  { signature, lifetime }: Relayed,
): Promise<Pick<Landing, 'verdict' | 'status'>> {
  const sought = { signature, lifetime, needsTwo: true };
  const landings = await reaching(judgeLandings(chain, [sought]));
  return landings.get(sought) ?? { verdict: 'unknown', status: null };
}

/**
 * Whether the transaction can no longer take effect: its blockhash has expired and it has not
 * landed, or it has landed and its failure is final. Throws INTERNAL_ERROR.
 */
export async function hasLapsed(chain: ChainSender, relayed: Relayed): Promise<boolean> {
  const { verdict, status } = await readLanding(chain, relayed);
  if (verdict === 'dead') return true;
  return verdict === 'landed' && status?.commitment === 'finalized' && status.err !== null;
}
