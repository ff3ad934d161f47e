// How this installation takes part in the chain, and what the API asks of it.
import { CLOCK_SYSVAR } from '../chain/addresses.ts';
import type { ChainAccount } from '../chain/accounts.ts';
import { ChainDataError, decodeClock } from '../chain/layouts.ts';
import type { Rpc } from '../chain/rpc.ts';
import { RpcError, RpcUnreachable } from '../chain/rpc-errors.ts';
import { ServiceError } from '../errors.ts';

/** Addresses in Base58: what every plan must name. */
export interface Network {
  readonly programId: string;
  readonly mint: string;
  /** The keeper's wallet. */
  readonly puller: string;
  readonly treasury: string;
}

export type ChainReader = Pick<Rpc, 'getMultipleAccounts' | 'getLatestBlockhash'>;

/** Accounts, the slot that they are of and the cluster's clock (Unix seconds), read together. Throws a ServiceError (INTERNAL_ERROR) when the chain is out of reach. */
export async function readAccounts(
  chain: ChainReader,
  addresses: readonly string[],
): Promise<{ accounts: (ChainAccount | null)[]; slot: bigint; now: bigint }> {
  const { accounts, slot } = await reaching(chain.getMultipleAccounts([...addresses, CLOCK_SYSVAR]));
  const clock = accounts.at(-1);
  if (!clock) throw new ChainDataError('the Clock sysvar has no account');
  return { accounts: accounts.slice(0, -1), slot, now: decodeClock(clock.data).unixTimestamp };
}

/** A blockhash for a transaction that somebody else will sign. Throws a ServiceError (INTERNAL_ERROR) when the chain is out of reach. */
export async function readBlockhash(chain: ChainReader): Promise<string> {
  return (await reaching(chain.getLatestBlockhash())).blockhash;
}

async function reaching<T>(asked: Promise<T>): Promise<T> {
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

/** Unix seconds of a time, rounded down. */
export function unixSeconds(time: Date): bigint {
  return BigInt(Math.floor(time.getTime() / 1000));
}

/** The end of the year 9999, beyond which neither ISO 8601 nor anybody's plans go. */
const LAST_SECOND = 253_402_300_799n;

/** The time of Unix seconds. The program lets a plan end whenever its owner says, up to 2^63-1: that is the last second that can be written. */
export function timeOf(seconds: bigint): Date {
  return new Date(Number(seconds < LAST_SECOND ? seconds : LAST_SECOND) * 1000);
}
