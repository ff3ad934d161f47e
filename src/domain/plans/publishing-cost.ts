import { tokenAccountAddress } from '../../chain/program/addresses.ts';
import { PLAN_LENGTH, TOKEN_ACCOUNT_LENGTH } from '../../chain/program/layouts.ts';
import { walletFee } from '../../chain/transactions/wallet.ts';
import { type ChainReader, readAccounts, reaching } from '../chain-reads.ts';

/**
 * Network fee in lamports. The transaction has up to two instructions. The first creates the
 * wallet's token account, the second creates the plan.
 */
const FEE = walletFee(2);

export interface PublishingCost {
  planRent: bigint;
  /** Rent of the wallet's token account; 0 if it exists. */
  tokenAccountRent: bigint;
  fee: bigint;
  total: bigint;
  /** Lamports that the wallet holds. */
  balance: bigint;
}

/**
 * Computes what a merchant's wallet pays for publishing a plan, in lamports. Throws INTERNAL_ERROR
 * when the chain is unreachable.
 */
export async function publishingCost(
  chain: ChainReader,
  { wallet, mint }: { wallet: string; mint: string },
): Promise<PublishingCost> {
  const rent = (length: number) => reaching(chain.getMinimumBalanceForRentExemption(length));
  const [{ accounts }, planRent, tokenRent] = await Promise.all([
    readAccounts(chain, [wallet, tokenAccountAddress(wallet, mint).address]),
    rent(PLAN_LENGTH),
    rent(TOKEN_ACCOUNT_LENGTH),
  ]);
  const [system = null, token = null] = accounts;
  const tokenAccountRent = token === null ? tokenRent : 0n;
  const total = planRent + tokenAccountRent + FEE;
  return { planRent, tokenAccountRent, fee: FEE, total, balance: system?.lamports ?? 0n };
}
