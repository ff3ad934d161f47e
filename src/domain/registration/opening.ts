// Builds the unsigned transaction with which a wallet subscribes. The transaction opens a new
// subscription account, or resumes an existing account. An account can be resumed if it is
// cancelled and has not expired, and if its registration has ended.
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
import type {
  AuthorityAccount,
  PlanAccount,
  SubscriptionAccount,
  TokenAccount,
} from '../../chain/program/layouts.ts';
import { timeOf } from '../../chain/time.ts';
import {
  cancelInstructions,
  resumeInstructions,
  subscribeInstructions,
} from '../../chain/transactions/subscriptions.ts';
import { walletTransaction } from '../../chain/transactions/wallet.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { findNewestRegistration } from '../../db/subscriptions/account-registrations.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import {
  type ChainReader,
  type Network,
  readAccounts,
  readBlockhash,
  type Unsigned,
} from '../chain-reads.ts';
import { partiesOf, planFaults } from '../plans/plans.ts';
import { blockedPlan, blockOf, frozenWallet } from '../plans/selling.ts';
import type { BlockReason } from '../reasons.ts';
import { isOfAccount } from './ended.ts';
import { endedByMerchant, OWN_PLAN_FAULT } from './registration.ts';

/**
 * An approval starts at u64::MAX, and every payment reduces it. Once less than half is left, the
 * next transaction that the wallet signs renews the approval.
 */
const AMPLE_APPROVAL = 2n ** 63n;

/** Returns whether the token account approves the authority, with at least AMPLE_APPROVAL left. */
export function hasAmpleApproval(tokens: TokenAccount | null, authority: string): boolean {
  return tokens?.delegate === authority && tokens.delegatedAmount >= AMPLE_APPROVAL;
}

interface Parts {
  sql: Queryable;
  chain: ChainReader;
  network: Network;
}

/**
 * The transaction that opens or resumes a subscription. `resumes` tells whether the transaction
 * resumes a cancelled account.
 */
export interface Opening extends Unsigned {
  subscriptionPda: string;
  resumes: boolean;
  /** The block height when the transaction was built. */
  blockHeight: bigint;
  ground: OpeningGround;
}

/** The subscription that a change of plan replaces. The opening transaction first cancels it. */
interface Replaced {
  planPda: string;
  subscriptionPda: string;
}

/** The wallet's accounts for a plan. */
export interface OpeningGround {
  plan: PlanAccount;
  authority: AuthorityAccount | null;
  hasTokenAccount: boolean;
  approved: boolean;
  frozen: boolean;
  /** Why the plan's payments cannot be collected. */
  blocked: BlockReason | null;
  previous: SubscriptionAccount | null;
  /** The account that a change of plan replaces. */
  replaced: SubscriptionAccount | null;
  now: bigint;
}

/**
 * Builds the transaction (base64) with which the wallet subscribes. The transaction also creates
 * missing accounts and a missing approval. If `replaced` is given, the transaction first cancels
 * the replaced subscription. Throws CONFLICT when (1) the plan takes no subscriptions, (2) the
 * wallet is frozen or already subscribed, (3) the merchant has ended the wallet's subscription.
 * Throws INTERNAL_ERROR when the chain is unreachable.
 */
export async function openingTransaction(
  parts: Parts,
  plan: PlanRow,
  wallet: string,
  replaced?: Replaced,
): Promise<Opening> {
  const { chain, network } = parts;
  const {
    found: ground,
    subscriptionPda,
    isRunning,
  } = await readOpening(parts, plan, wallet, replaced);
  const { previous } = ground;
  const { programId } = network;
  const { blockhash, lastValidBlockHeight, blockHeight, slot } = await readBlockhash(chain);
  const cancels =
    replaced === undefined || ground.replaced?.expiresAt !== 0n
      ? []
      : cancelInstructions(programId, {
          subscriber: wallet,
          plan: replaced.planPda,
          subscription: replaced.subscriptionPda,
        });
  const opens =
    isRunning && previous !== null
      ? resumeInstructions(programId, {
          subscriber: wallet,
          plan: plan.planPda,
          subscription: subscriptionPda,
          mint: plan.mint,
          expiresAt: previous.expiresAt,
          approves: !ground.approved,
          hasTokenAccount: ground.hasTokenAccount,
        })
      : subscribeInstructions(programId, { subscriber: wallet, state: ground }).instructions;
  const transaction = walletTransaction(wallet, [...cancels, ...opens], blockhash);
  const unsigned = { transaction, blockhash, lastValidBlockHeight, slot };
  return { ...unsigned, subscriptionPda, resumes: isRunning, blockHeight, ground };
}

/**
 * Reads the wallet's accounts for a plan, and whether subscribing resumes an account. Throws as
 * openingTransaction does.
 */
export async function readOpening(
  { sql, chain, network }: Parts,
  plan: PlanRow,
  wallet: string,
  replaced?: Replaced,
): Promise<{ found: OpeningGround; subscriptionPda: string; isRunning: boolean }> {
  if (plan.status !== 'active')
    throw new ServiceError(
      'CONFLICT',
      `The plan is ${plan.status}: it takes no new subscriptions.`,
    );
  if (wallet === plan.owner) throw invalidField('planId', OWN_PLAN_FAULT);
  const found = await readGround(chain, network, plan, { wallet, replaced });
  const subscriptionPda = subscriptionAddress(network.programId, plan.planPda, wallet).address;
  const { previous, now } = found;
  const isRunning = previous !== null && (previous.expiresAt === 0n || previous.expiresAt > now);
  if (isRunning)
    await checkResumable(sql, subscriptionPda, previous, {
      ...found,
      isChange: replaced !== undefined,
    });
  if (found.blocked !== null) throw blockedPlan(found.blocked);
  if (found.frozen) throw frozenWallet();
  return { found, subscriptionPda, isRunning };
}

/**
 * Builds the transaction that resumes the account of an ended registration. Throws as
 * openingTransaction does. Also throws CONFLICT when the account has ended.
 */
export async function reopeningTransaction(
  parts: Parts,
  plan: PlanRow,
  wallet: string,
): Promise<Opening> {
  const opening = await openingTransaction(parts, plan, wallet);
  if (!opening.resumes)
    throw new ServiceError('CONFLICT', 'The subscription has ended on chain: subscribe again.');
  return opening;
}

/** Reads the wallet's accounts. Throws CONFLICT when the plan on chain takes no subscriptions. */
async function readGround(
  chain: ChainReader,
  network: Network,
  plan: PlanRow,
  { wallet, replaced }: { wallet: string; replaced: Replaced | undefined },
): Promise<OpeningGround> {
  const { programId } = network;
  const authority = authorityAddress(programId, wallet, plan.mint).address;
  const { accounts, now } = await readAccounts(chain, [
    plan.planPda,
    authority,
    tokenAccountAddress(wallet, plan.mint).address,
    subscriptionAddress(programId, plan.planPda, wallet).address,
    tokenAccountAddress(plan.owner, plan.mint).address,
    ...(replaced === undefined ? [] : [replaced.subscriptionPda]),
  ]);
  const [planAccount = null, authorityAccount = null, wallets = null, previous = null] = accounts;
  const [merchants = null, old = null] = accounts.slice(4);
  const onChain = planIn(planAccount, programId);
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
  const tokens = tokenAccountIn(wallets);
  const merchantTokens = tokenAccountIn(merchants);
  return {
    plan: onChain,
    authority: authorityIn(authorityAccount, programId),
    hasTokenAccount: tokens !== null,
    approved: hasAmpleApproval(tokens, authority),
    frozen: tokens?.state === 'frozen',
    blocked: blockOf(plan, network, { plan: onChain, merchantTokens }),
    previous: subscriptionIn(previous, programId),
    replaced: subscriptionIn(old, programId),
    now,
  };
}

/**
 * Throws CONFLICT unless the account can be resumed. The account must be cancelled, with the plan's
 * terms and the wallet's authority. Its registration must have ended without a force-cancel by the
 * merchant. Exception: in a change of plan, the registration may still be live if another change of
 * plan has replaced it.
 */
async function checkResumable(
  sql: Queryable,
  subscriptionPda: string,
  account: SubscriptionAccount,
  { plan, authority, isChange }: OpeningGround & { isChange: boolean },
): Promise<void> {
  const earlier = await findNewestRegistration(sql, subscriptionPda);
  const isRegistered = earlier !== undefined && isOfAccount(earlier, account);
  const subscribed = (next: string) =>
    new ServiceError(
      'CONFLICT',
      `This wallet has a subscription to the plan on chain already: ${next}.`,
    );
  const unregistered =
    'register it with POST /subscriber/subscriptions, unless GET /subscriber/subscriptions lists it';
  const registered = 'it is registered, and GET /subscriber/subscriptions lists it';
  const isLive = isRegistered && (earlier.status === 'active' || earlier.status === 'past_due');
  if (isLive && !(isChange && earlier.replacedBy !== null))
    throw subscribed(account.expiresAt === 0n ? registered : 'resume it, or wait for its end');
  if (isRegistered && earlier.isBarred) throw endedByMerchant();
  if (account.expiresAt === 0n) throw subscribed(unregistered);
  const end = timeOf(account.expiresAt).toISOString();
  const { amount, periodHours, createdAt } = plan;
  if (
    account.amount !== amount ||
    account.periodHours !== periodHours ||
    account.planCreatedAt !== createdAt
  )
    throw subscribed(`it has other terms than the plan: wait for its end, ${end}`);
  if (authority?.initId !== account.initId)
    throw subscribed(`its authority was closed, so it cannot be resumed: wait for its end, ${end}`);
}
