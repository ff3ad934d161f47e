import { SYSTEM_PROGRAM, TOKEN_PROGRAM } from './addresses.ts';
import {
  type AuthorityAccount,
  ChainDataError,
  type PlanAccount,
  type SubscriptionAccount,
  type TokenAccount,
  decodeAuthority,
  decodeClock,
  decodePlan,
  decodeSubscription,
  decodeTokenAccount,
} from './layouts.ts';

/** The content of an account on chain. Callers use null for an account that does not exist. */
export interface ChainAccount {
  readonly owner: string;
  readonly lamports: bigint;
  readonly data: Buffer;
}

/**
 * Whether the account was closed or never opened. For such an account RPC usually returns null,
 * which callers handle. But if someone has sent lamports to the address, RPC returns an empty
 * account of the System program, and this function returns true.
 */
export function isClosed({ owner, data }: ChainAccount): boolean {
  return owner === SYSTEM_PROGRAM && data.length === 0;
}

/**
 * Returns the chain's time (Unix seconds) in the account of the Clock sysvar. Throws ChainDataError
 * when there is no such account.
 */
export function clockIn(account: ChainAccount | null): bigint {
  if (account === null) throw new ChainDataError('the Clock sysvar has no account');
  return decodeClock(account.data).unixTimestamp;
}

// The owner of an account must be checked, because anyone can write the bytes of a Plan into an
// account of another program.
function dataOf(account: ChainAccount | null, owner: string, name: string): Buffer | null {
  if (account === null) return null;
  if (isClosed(account)) return null;
  if (account.owner !== owner)
    throw new ChainDataError(`a ${name} account belongs to ${owner}, this one to ${account.owner}`);
  return account.data;
}

/**
 * Decodes a Plan account of the program `programId`. Returns null for a closed account. Throws
 * ChainDataError for an account with another owner or content.
 */
export function planIn(account: ChainAccount | null, programId: string): PlanAccount | null {
  const data = dataOf(account, programId, 'Plan');
  return data && decodePlan(data);
}

/**
 * Decodes a SubscriptionDelegation account of the program `programId`. Returns null for a closed
 * account. Throws ChainDataError for an account with another owner or content.
 */
export function subscriptionIn(
  account: ChainAccount | null,
  programId: string,
): SubscriptionAccount | null {
  const data = dataOf(account, programId, 'SubscriptionDelegation');
  return data && decodeSubscription(data);
}

/**
 * Decodes a subscription account that is live, that is, not cancelled. Returns null for any other
 * account, also for one with another owner or content.
 */
export function liveSubscriptionIn(
  account: ChainAccount | null,
  programId: string,
): SubscriptionAccount | null {
  try {
    const found = subscriptionIn(account, programId);
    return found?.expiresAt === 0n ? found : null;
  } catch (error) {
    if (error instanceof ChainDataError) return null;
    throw error;
  }
}

/**
 * Decodes a SubscriptionAuthority account of the program `programId`. Returns null for a closed
 * account. Throws ChainDataError for an account with another owner or content.
 */
export function authorityIn(
  account: ChainAccount | null,
  programId: string,
): AuthorityAccount | null {
  const data = dataOf(account, programId, 'SubscriptionAuthority');
  return data && decodeAuthority(data);
}

/**
 * Decodes a token account of the SPL Token program. Returns null for a closed account. Throws
 * ChainDataError for an account with another owner or content.
 */
export function tokenAccountIn(account: ChainAccount | null): TokenAccount | null {
  const data = dataOf(account, TOKEN_PROGRAM, 'token');
  return data && decodeTokenAccount(data);
}
