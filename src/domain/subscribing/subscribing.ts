// Builds the unsigned transactions with which a subscriber opens, cancels, resumes, repairs and
// closes a subscription.
import {
  authorityIn,
  planIn,
  subscriptionIn,
  tokenAccountIn,
} from '../../chain/program/accounts.ts';
import {
  authorityAddress,
  subscriptionAddress,
  tokenAccountAddress,
} from '../../chain/program/addresses.ts';
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import {
  approveTransaction,
  cancelTransaction,
  closeTransaction,
  resumeTransaction,
  subscribeTransaction,
} from '../../chain/transactions/subscriptions.ts';
import type { PlanRow } from '../../db/plans.ts';
import type { SubscriptionRow } from '../../db/subscriptions.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import {
  type ChainReader,
  type Network,
  readAccounts,
  readBlockhash,
  type Unsigned,
} from './chain-reads.ts';
import { partiesOf, planFaults } from './plans.ts';
import { OWN_PLAN_FAULT } from './registration.ts';

// An approval starts at u64::MAX, and every payment reduces it. Once less than half is left, the
// next transaction that the wallet signs renews the approval.
const AMPLE_APPROVAL = 2n ** 63n;

/**
 * Builds the transaction (base64) that opens a subscription and creates the accounts that the
 * wallet lacks. Also returns the subscription's address. Throws CONFLICT when the plan takes no
 * subscriptions or the wallet is already subscribed on chain, and INTERNAL_ERROR when the chain is
 * unreachable.
 */
export async function openingTransaction(
  chain: ChainReader,
  network: Network,
  plan: PlanRow,
  wallet: string,
): Promise<Unsigned & { subscriptionPda: string }> {
  if (plan.status !== 'active')
    throw new ServiceError(
      'CONFLICT',
      `The plan is ${plan.status}: it takes no new subscriptions.`,
    );
  if (wallet === plan.owner) throw invalidField('planId', OWN_PLAN_FAULT);
  const authority = authorityAddress(network.programId, wallet, plan.mint).address;
  const { accounts, now } = await readAccounts(chain, [
    plan.planPda,
    authority,
    tokenAccountAddress(wallet, plan.mint).address,
    subscriptionAddress(network.programId, plan.planPda, wallet).address,
  ]);
  const [planAccount = null, authorityAccount = null, wallets = null, previousAccount = null] =
    accounts;
  const onChain = planIn(planAccount, network.programId);
  if (
    onChain === null ||
    planFaults(plan, onChain, partiesOf(plan, network)).length > 0 ||
    (onChain.endTs !== 0n && onChain.endTs <= now)
  ) {
    throw new ServiceError('CONFLICT', 'The plan is not on chain with its terms any more.');
  }
  if (onChain.status !== 'active')
    throw new ServiceError(
      'CONFLICT',
      'The plan is sunset on chain: it takes no new subscriptions.',
    );
  const previous = subscriptionIn(previousAccount, network.programId);
  if (previous !== null && (previous.expiresAt === 0n || previous.expiresAt > now)) {
    const next = previous.expiresAt === 0n ? 'register it' : 'resume it, or wait for its end';
    throw new ServiceError(
      'CONFLICT',
      `This wallet has a subscription to the plan on chain already: ${next}.`,
    );
  }
  const tokens = tokenAccountIn(wallets);
  const state = {
    plan: onChain,
    authority: authorityIn(authorityAccount, network.programId),
    hasTokenAccount: tokens !== null,
    approved:
      tokens !== null && tokens.delegate === authority && tokens.delegatedAmount >= AMPLE_APPROVAL,
    previous,
  };
  const { blockhash, lastValidBlockHeight, slot } = await readBlockhash(chain);
  const { transaction, subscription } = subscribeTransaction(network.programId, {
    subscriber: wallet,
    state,
    blockhash,
  });
  return { transaction, blockhash, lastValidBlockHeight, slot, subscriptionPda: subscription };
}

/**
 * Builds the transaction that cancels at the end of the current period. Throws CONFLICT when the
 * chain has no subscription or it is already cancelled.
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
 * the subscription is not cancelled or has ended.
 */
export async function resumingTransaction(
  chain: ChainReader,
  network: Network,
  plan: PlanRow,
  row: SubscriptionRow,
): Promise<Unsigned> {
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
 * token account, so that payments can be collected. Throws CONFLICT when the approval is in place
 * or the subscription cannot be repaired.
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
  if (tokens?.delegate === authority && tokens.delegatedAmount >= AMPLE_APPROVAL)
    throw new ServiceError('CONFLICT', 'The approval is in place: there is nothing to repair.');
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
 * Builds the transaction that closes the account of an ended subscription. The rent returns to its
 * payer. Throws CONFLICT when the subscription has not ended.
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
  return unsigned(chain, (blockhash) =>
    closeTransaction(network.programId, { ...parties(plan, row), payer: account.payer }, blockhash),
  );
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
