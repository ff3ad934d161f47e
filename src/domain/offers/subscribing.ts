// Builds the unsigned transactions with which a subscriber cancels, resumes, repairs and closes a
// subscription. opening.ts builds the transactions that subscribe.
import { authorityIn, subscriptionIn, tokenAccountIn } from '../../chain/program/accounts.ts';
import { authorityAddress, tokenAccountAddress } from '../../chain/program/addresses.ts';
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import {
  approveTransaction,
  cancelTransaction,
  closeTransaction,
  resumeTransaction,
} from '../../chain/transactions/subscriptions.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import type { SubscriptionRow } from '../../db/subscriptions/subscriptions.ts';
import { ServiceError } from '../../errors.ts';
import {
  type ChainReader,
  type Network,
  readAccounts,
  readBlockhash,
  type Unsigned,
} from '../chain-reads.ts';
import { frozenWallet } from '../plans/selling.ts';
import { hasAmpleApproval } from '../registration/opening.ts';
import { isLastUser } from './approval.ts';

/**
 * Builds the transaction that cancels at the end of the current period. Throws CONFLICT when the
 * chain has no subscription or the subscription is already cancelled.
 */
export async function cancellingTransaction(
  chain: ChainReader,
  network: Network,
  plan: PlanRow,
  row: SubscriptionRow,
): Promise<Unsigned> {
  const { account } = await onChain(chain, network, row);
  if (account.expiresAt !== 0n)
    throw new ServiceError('CONFLICT', 'The subscription is cancelled on chain already.');
  return unsigned(chain, (blockhash) =>
    cancelTransaction(network.programId, parties(plan, row), blockhash),
  );
}

/**
 * Builds the transaction that undoes a cancellation before it takes effect. Throws CONFLICT when
 * the subscription is not cancelled or has ended. Also throws CONFLICT when the merchant has
 * cancelled, because a resume on chain does not undo the merchant's cancellation.
 */
export async function resumingTransaction(
  chain: ChainReader,
  network: Network,
  plan: PlanRow,
  row: SubscriptionRow,
): Promise<Unsigned> {
  if (row.cancelRequestedBy === 'merchant')
    throw new ServiceError('CONFLICT', 'The merchant has cancelled this subscription.');
  const { account, now } = await onChain(chain, network, row);
  if (account.expiresAt === 0n)
    throw new ServiceError('CONFLICT', 'The subscription is not cancelled on chain.');
  if (account.expiresAt <= now)
    throw new ServiceError('CONFLICT', 'The subscription has ended on chain: subscribe again.');
  const { expiresAt } = account;
  return unsigned(chain, (blockhash) =>
    resumeTransaction(
      network.programId,
      { ...parties(plan, row), mint: plan.mint, expiresAt },
      blockhash,
    ),
  );
}

/**
 * Builds the transaction that renews the approval of the wallet's authority and recreates a missing
 * token account, so that payments can be collected. Throws CONFLICT when the approval is in place,
 * the wallet is frozen or the subscription cannot be repaired.
 */
export async function repairingTransaction(
  chain: ChainReader,
  network: Network,
  plan: PlanRow,
  row: SubscriptionRow,
): Promise<Unsigned> {
  const { programId } = network;
  const user = row.subscriberWallet;
  const authority = authorityAddress(programId, user, plan.mint).address;
  const { accounts } = await readAccounts(chain, [
    row.subscriptionPda,
    authority,
    tokenAccountAddress(user, plan.mint).address,
  ]);
  const subscription = subscriptionIn(accounts[0] ?? null, programId);
  if (subscription === null || subscription.expiresAt !== 0n)
    throw new ServiceError('CONFLICT', 'The subscription is not live on chain: subscribe again.');
  if (authorityIn(accounts[1] ?? null, programId)?.initId !== subscription.initId)
    throw new ServiceError(
      'CONFLICT',
      'The wallet has closed the authority of this subscription: cancel it and subscribe again.',
    );
  const tokens = tokenAccountIn(accounts[2] ?? null);
  if (hasAmpleApproval(tokens, authority))
    throw new ServiceError('CONFLICT', 'The approval is in place: there is nothing to repair.');
  if (tokens?.state === 'frozen') throw frozenWallet();
  return unsigned(chain, (blockhash) =>
    approveTransaction(programId, {
      user,
      mint: plan.mint,
      hasTokenAccount: tokens !== null,
      blockhash,
    }),
  );
}

/**
 * Builds the transaction that closes the account of an ended subscription. The rent returns to the
 * wallet that paid it. If no other account uses the wallet's approval, the transaction also revokes
 * the approval. Throws CONFLICT when the subscription has not ended.
 */
export async function closingTransaction(
  chain: ChainReader,
  network: Network,
  plan: PlanRow,
  row: SubscriptionRow,
): Promise<Unsigned> {
  const { account, now } = await onChain(chain, network, row);
  if (account.expiresAt === 0n || account.expiresAt > now) {
    throw new ServiceError(
      'CONFLICT',
      'The subscription has not ended on chain: cancel it first, then wait for the end of its period.',
    );
  }
  const { mint } = plan;
  const { subscriberWallet: wallet, subscriptionPda: except } = row;
  const isLast = await isLastUser(chain, network, { wallet, mint, except });
  const closing = {
    ...parties(plan, row),
    payer: account.payer,
    revokes: isLast ? mint : undefined,
  };
  const built = await unsigned(chain, (blockhash) =>
    closeTransaction(network.programId, closing, blockhash),
  );
  return { ...built, revokes: isLast };
}

async function unsigned(
  chain: ChainReader,
  build: (blockhash: string) => string,
): Promise<Unsigned> {
  const { blockhash, lastValidBlockHeight, slot } = await readBlockhash(chain);
  return { transaction: build(blockhash), blockhash, lastValidBlockHeight, slot };
}

function parties(plan: PlanRow, { subscriberWallet, subscriptionPda }: SubscriptionRow) {
  return { subscriber: subscriberWallet, plan: plan.planPda, subscription: subscriptionPda };
}

async function onChain(
  chain: ChainReader,
  network: Network,
  row: SubscriptionRow,
): Promise<{ account: SubscriptionAccount; now: bigint }> {
  const { accounts, now } = await readAccounts(chain, [row.subscriptionPda]);
  const account = subscriptionIn(accounts[0] ?? null, network.programId);
  if (account === null)
    throw new ServiceError('CONFLICT', 'The subscription is not on chain any more.');
  return { account, now };
}
