// How this installation takes part in the chain, and what the API asks of it.
import { CLOCK_SYSVAR } from '../chain/addresses.ts';
import type { ChainAccount } from '../chain/accounts.ts';
import { ChainDataError, decodeClock } from '../chain/layouts.ts';
import type { Blockhash, Rpc } from '../chain/rpc.ts';
import { RpcError, RpcUnreachable } from '../chain/rpc-errors.ts';
import { ServiceError } from '../errors.ts';

/** Addresses in Base58: what every plan must name. */
export interface Network {
  readonly programId: string;
  readonly mint: string;
  /** The keeper's wallet. */
  readonly puller: string;
  readonly treasury: string;
  /** Keepers that stand by and backup treasuries: plans name them too. */
  readonly standbyPullers?: readonly string[];
  readonly backupTreasuries?: readonly string[];
}

export type ChainReader = Pick<
  Rpc,
  'getMultipleAccounts' | 'getLatestBlockhash' | 'getMinimumBalanceForRentExemption'
>;

/** What the relay asks besides. */
export type ChainSender = ChainReader &
  Pick<Rpc, 'getBlockHeight' | 'getSignatureStatuses' | 'sendTransaction' | 'simulateTransaction'>;

/** A transaction for a wallet to sign (base64), its blockhash, and the last block height at which it can land. */
export interface Unsigned {
  readonly transaction: string;
  readonly blockhash: string;
  readonly lastValidBlockHeight: bigint;
}

/** Accounts, the slot that they are of and the cluster's clock (Unix seconds), read together. Throws a ServiceError (INTERNAL_ERROR) when the chain is out of reach. */
export async function readAccounts(
  chain: ChainReader,
  addresses: readonly string[],
): Promise<{ accounts: (ChainAccount | null)[]; slot: bigint; now: bigint }> {
  const { accounts, slot } = await reaching(
    chain.getMultipleAccounts([...addresses, CLOCK_SYSVAR]),
  );
  const clock = accounts.at(-1);
  if (!clock) throw new ChainDataError('the Clock sysvar has no account');
  return { accounts: accounts.slice(0, -1), slot, now: decodeClock(clock.data).unixTimestamp };
}

/** A blockhash for a transaction that a wallet will sign. Throws a ServiceError (INTERNAL_ERROR) when the chain is out of reach. */
export function readBlockhash(chain: ChainReader): Promise<Blockhash> {
  return reaching(chain.getLatestBlockhash());
}

/** Waits for an answer of the chain. Throws a ServiceError (INTERNAL_ERROR) when it is out of reach. */
export async function reaching<T>(asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof RpcUnreachable || error instanceof RpcError)) throw error;
    const refusal = new ServiceError(
      'INTERNAL_ERROR',
      'The Solana network cannot be reached just now; nothing was stored. Try again in a moment.',
    );
    refusal.cause = error;
    throw refusal;
  }
}
