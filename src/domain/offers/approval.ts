// The approval that a wallet gives its authority. This file counts the accounts that still use the
// approval, and builds the transaction that revokes it. All subscriptions of a wallet share one
// approval, including subscriptions of other services that use the program.
import { authorityIn, tokenAccountIn } from '../../chain/program/accounts.ts';
import { authorityAddress, tokenAccountAddress } from '../../chain/program/addresses.ts';
import {
  type AuthorityAccount,
  ChainDataError,
  decodeSubscription,
  delegationFilter,
  kindOf,
  type TokenAccount,
} from '../../chain/program/layouts.ts';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import { revokeTransaction } from '../../chain/transactions/subscriptions.ts';
import { ServiceError } from '../../errors.ts';
import {
  type ChainReader,
  type Network,
  readAccounts,
  readBlockhash,
  type Unsigned,
} from '../chain-reads.ts';
import { frozenWallet } from '../plans/selling.ts';

interface Held {
  readonly authority: AuthorityAccount | null;
  readonly tokens: TokenAccount | null;
  /** Whether the token account has approved the wallet's authority. */
  readonly isApproved: boolean;
  /** Chain time, Unix seconds. */
  readonly now: bigint;
}

/**
 * Reads the wallet's authority and token account. Throws INTERNAL_ERROR when the chain is
 * unreachable.
 */
async function readApproval(
  chain: ChainReader,
  { programId }: Network,
  wallet: string,
  mint: string,
): Promise<Held> {
  const address = authorityAddress(programId, wallet, mint).address;
  const { accounts, now } = await readAccounts(chain, [
    address,
    tokenAccountAddress(wallet, mint).address,
  ]);
  const authority = authorityIn(accounts[0] ?? null, programId);
  const tokens = tokenAccountIn(accounts[1] ?? null);
  return { authority, tokens, isApproved: tokens?.delegate === address, now };
}

/**
 * Returns the number of on-chain accounts, other than `except`, that can still move tokens through
 * the authority. The accounts are counted at two commitments, and the larger number is returned.
 * `confirmed` includes accounts that are new. `finalized` includes accounts that were just closed,
 * because a fork may undo their closing. Undefined when the number is unknown.
 */
async function countUsers(
  chain: Pick<ChainReader, 'getProgramAccounts'>,
  { programId }: Network,
  authority: AuthorityAccount,
  { except, now }: { except?: string; now: bigint },
): Promise<number | undefined> {
  const filter = delegationFilter(authority.user, authority.initId);
  try {
    const counts = await Promise.all(
      (['confirmed', 'finalized'] as const).map(async (commitment) => {
        const found = await chain.getProgramAccounts(programId, filter, { commitment });
        return found.filter(
          ({ address, account }) => address !== except && isUser(account.data, now),
        ).length;
      }),
    );
    return Math.max(...counts);
  } catch (error) {
    if (error instanceof RpcError || error instanceof RpcUnreachable) return undefined;
    throw error;
  }
}

/**
 * Returns whether an account under the authority may still move tokens. Returns false only for an
 * expired subscription.
 */
function isUser(data: Buffer, now: bigint): boolean {
  if (kindOf(data) !== 'subscription') return true;
  try {
    const { expiresAt } = decodeSubscription(data);
    return expiresAt === 0n || expiresAt > now;
  } catch (error) {
    if (error instanceof ChainDataError) return true;
    throw error;
  }
}

/**
 * Whether the transaction that closes the account `except` should also revoke the approval, because
 * no other account uses the approval. False if the number of other accounts is unknown.
 */
export async function isLastUser(
  chain: ChainReader,
  network: Network,
  { wallet, mint, except }: { wallet: string; mint: string; except: string },
): Promise<boolean> {
  const { authority, isApproved, tokens, now } = await readApproval(chain, network, wallet, mint);
  // The token program refuses to revoke the approval of a frozen account.
  if (!isApproved || tokens?.state === 'frozen') return false;
  return authority === null || (await countUsers(chain, network, authority, { except, now })) === 0;
}

export interface Revocation extends Unsigned {
  /**
   * Number of on-chain accounts that can no longer move tokens after the revocation; null when the
   * number is unknown.
   */
  users: number | null;
}

/**
 * Builds the transaction that revokes the approval. If `closesAuthority` is set, the transaction
 * also closes the authority and thus ends every subscription under it for good. Throws CONFLICT
 * when there is nothing to revoke.
 */
export async function revokingTransaction(
  chain: ChainReader,
  network: Network,
  wallet: string,
  closesAuthority: boolean,
): Promise<Revocation> {
  const { programId, mint } = network;
  const { authority, isApproved, tokens, now } = await readApproval(chain, network, wallet, mint);
  if (closesAuthority && authority === null)
    throw new ServiceError('CONFLICT', 'The authority of this wallet is closed already.');
  if (tokens === null || (!isApproved && !closesAuthority))
    throw new ServiceError('CONFLICT', 'The wallet has not approved payments: nothing to revoke.');
  if (tokens.state === 'frozen') throw frozenWallet();
  const users = authority === null ? 0 : await countUsers(chain, network, authority, { now });
  const { blockhash, lastValidBlockHeight, slot } = await readBlockhash(chain);
  const authorityPayer = closesAuthority ? authority?.payer : undefined;
  const transaction = revokeTransaction(
    programId,
    { user: wallet, mint, authorityPayer },
    blockhash,
  );
  return { transaction, blockhash, lastValidBlockHeight, slot, users: users ?? null };
}
