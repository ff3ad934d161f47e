// Finds out which accounts still use a wallet's approval. All subscriptions of a wallet share one
// approval, including subscriptions of other services that use the program.
import {
  type AuthorityAccount,
  ChainDataError,
  decodeSubscription,
  delegationFilter,
  kindOf,
} from '../../chain/program/layouts.ts';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import { isRunning } from '../actions/actions.ts';
import type { ChainReader, BillingAddresses } from '../chain-reads.ts';
import type { ChainView } from '../collecting/chain-view.ts';

/**
 * Returns the number of on-chain accounts, other than `except`, that can still move tokens through
 * the authority. The accounts are counted at two commitments, and the larger number is returned.
 * `confirmed` includes accounts that are new. `finalized` includes accounts that were just closed,
 * because a fork may undo their closing. Undefined when the number is unknown.
 */
export async function countUsers(
  chain: Pick<ChainReader, 'getProgramAccounts'>,
  { programId }: BillingAddresses,
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
    return isRunning(decodeSubscription(data), now);
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
  chain: Pick<ChainReader, 'getProgramAccounts'>,
  network: BillingAddresses,
  { authority, authorityAddress, subscriberTokens: tokens, now }: ChainView,
  except: string,
): Promise<boolean> {
  // The token program refuses to revoke the approval of a frozen account.
  if (tokens?.delegate !== authorityAddress || tokens.state === 'frozen') return false;
  return authority === null || (await countUsers(chain, network, authority, { except, now })) === 0;
}
