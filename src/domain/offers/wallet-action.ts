// Builds the unsigned transactions with which a wallet cancels, resumes, repairs and closes a
// subscription, or revokes its approval, and pays the network fee itself.
import { walletTransaction } from '../../chain/transactions/wallet.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import type { SubscriptionRow } from '../../db/subscriptions/subscriptions.ts';
import { ServiceError } from '../../errors.ts';
import { type Action, decideAction, obstacleError } from '../actions/actions.ts';
import { readWalletView, type WalletView } from '../actions/wallet-view.ts';
import {
  type ChainReader,
  type BillingAddresses,
  reaching,
  readBlockhash,
  type Unsigned,
} from '../chain-reads.ts';
import { countUsers, isLastUser } from './approval.ts';

/** Throws CONFLICT if the merchant has cancelled: a resume on chain does not undo that. */
export function refuseMerchantsCancel(row: Pick<SubscriptionRow, 'cancelRequestedBy'>): void {
  if (row.cancelRequestedBy === 'merchant')
    throw new ServiceError('CONFLICT', 'The merchant has cancelled this subscription.');
}

/**
 * Builds the transaction for a subscription of the wallet. Closing also revokes the approval if no
 * other account uses it. Throws CONFLICT with the obstacle (actions.ts). Throws CONFLICT for a
 * resume after the merchant has cancelled, because a resume on chain does not undo the merchant's
 * cancellation. Throws INTERNAL_ERROR when the chain is unreachable.
 */
export async function subscriptionTransaction(
  chain: ChainReader,
  network: BillingAddresses,
  { purpose, plan, row }: { purpose: Action['purpose']; plan: PlanRow; row: SubscriptionRow },
): Promise<Unsigned> {
  if (purpose === 'resume') refuseMerchantsCancel(row);
  const { subscriberWallet: wallet, subscriptionPda: except } = row;
  const names = { programId: network.programId, mint: plan.mint };
  const view = await reaching(readWalletView(chain, names, { wallet, plan }));
  const revokes = purpose === 'close' && (await isLastUser(chain, network, view, except));
  const action = { purpose, wallet, plan, withdraws: revokes };
  const unsigned = await unsignedAction(chain, names, action, view);
  return purpose === 'close' ? { ...unsigned, revokes } : unsigned;
}

export interface Revocation extends Unsigned {
  /**
   * Number of on-chain accounts that can no longer move tokens after the revocation; null when the
   * number is unknown.
   */
  readonly users: number | null;
}

/**
 * Builds the transaction that revokes the approval. If `closesAuthority` is set, the transaction
 * also closes the authority and thus ends every subscription under it for good. Throws CONFLICT
 * when there is nothing to revoke, and INTERNAL_ERROR when the chain is unreachable.
 */
export async function revokingTransaction(
  chain: ChainReader,
  network: BillingAddresses,
  wallet: string,
  closesAuthority: boolean,
): Promise<Revocation> {
  const view = await reaching(readWalletView(chain, network, { wallet, plan: null }));
  const action = { purpose: 'revoke', wallet, plan: null, withdraws: closesAuthority } as const;
  const [unsigned, users] = await Promise.all([
    unsignedAction(chain, network, action, view),
    view.authority === null ? 0 : countUsers(chain, network, view.authority, view),
  ]);
  return { ...unsigned, users: users ?? null };
}

async function unsignedAction(
  chain: ChainReader,
  names: Pick<BillingAddresses, 'programId' | 'mint'>,
  action: Action,
  view: WalletView,
): Promise<Unsigned> {
  const decided = decideAction(names, action, view);
  if ('obstacle' in decided) throw obstacleError(decided.obstacle);
  const { blockhash, lastValidBlockHeight, slot } = await readBlockhash(chain);
  const transaction = walletTransaction(action.wallet, decided.instructions, blockhash);
  return { transaction, blockhash, lastValidBlockHeight, slot };
}
