import { type Keypair, signatureOf } from '../keypair.ts';
import { planAddress, subscriptionAddress } from '../program/addresses.ts';
import {
  closeInstruction,
  type Instruction,
  cancelSubscription,
  initAuthority,
  resumeSubscription,
  revokeAuthority,
  subscribe,
  type SubscriptionParties,
  UNKNOWN_INIT_ID,
} from '../program/instructions.ts';
import type { AuthorityAccount, PlanAccount, SubscriptionAccount } from '../program/layouts.ts';
import { compileMessage, serializeTransaction } from './message.ts';
import { createTokenAccount, revokeApproval } from './system-instructions.ts';
import { walletTransaction } from './wallet.ts';

/** A signed transaction that is ready to send, and its first signature in Base58. */
export interface SignedTransaction {
  readonly signature: string;
  readonly bytes: Buffer;
}

/**
 * Signs a legacy transaction whose fee payer is its only signer. Throws a RangeError when the
 * transaction needs a second signer or is too long.
 */
export function signTransaction(
  keypair: Keypair,
  instructions: readonly Instruction[],
  blockhash: string,
): SignedTransaction {
  const message = compileMessage(keypair.address, instructions, blockhash);
  if (message.header.numRequiredSignatures !== 1)
    throw new RangeError('signTransaction signs for one signer');
  const bytes = serializeTransaction(message, [keypair.sign(message.serialize())]);
  return { signature: signatureOf(bytes), bytes };
}

/** The on-chain state of a wallet that is about to subscribe. */
export interface SubscribeState {
  /** The plan on chain. The wallet agrees to exactly these terms. */
  readonly plan: PlanAccount;
  /** The wallet's SubscriptionAuthority. Null when the wallet has none. */
  readonly authority: AuthorityAccount | null;
  /** Whether the wallet has a token account for the mint. */
  readonly hasTokenAccount: boolean;
  /** Whether the SubscriptionAuthority is the delegate of the wallet's token account. */
  readonly approved: boolean;
  /**
   * The account of the wallet's earlier, expired subscription to the same plan. The new transaction
   * closes this account first. Null when the wallet has no such account.
   */
  readonly previous: SubscriptionAccount | null;
}

/**
 * Builds the unsigned transaction (base64) that opens a subscription, and derives the
 * subscription's address. If necessary, the transaction first creates the wallet's token account,
 * opens and approves the SubscriptionAuthority, and closes an expired subscription to the same
 * plan.
 */
export function subscribeTransaction(
  programId: string,
  {
    subscriber,
    state,
    blockhash,
  }: { subscriber: string; state: SubscribeState; blockhash: string },
): { transaction: string; subscription: string } {
  const { owner: merchant, planId, mint, amount, periodHours, createdAt } = state.plan;
  const plan = planAddress(programId, merchant, planId);
  const subscription = subscriptionAddress(programId, plan.address, subscriber).address;
  const terms = {
    planId,
    planBump: plan.bump,
    mint,
    amount,
    periodHours,
    createdAt,
    initId: state.authority?.initId ?? UNKNOWN_INIT_ID,
  };
  const instructions = [
    ...(state.hasTokenAccount
      ? []
      : [createTokenAccount({ payer: subscriber, owner: subscriber, mint })]),
    ...(state.authority !== null && state.approved
      ? []
      : [initAuthority(programId, { user: subscriber, mint })]),
    ...(state.previous === null
      ? []
      : [
          closeInstruction(programId, subscriber, {
            plan: plan.address,
            subscription,
            payer: state.previous.payer,
          }),
        ]),
    subscribe(programId, { subscriber, merchant, plan: plan.address, subscription, terms }),
  ];
  return { transaction: walletTransaction(subscriber, instructions, blockhash), subscription };
}

/**
 * Builds the unsigned transaction (base64) with which a wallet approves its SubscriptionAuthority
 * as delegate again. The transaction first creates the wallet's token account and opens the
 * authority if they do not exist.
 */
export function approveTransaction(
  programId: string,
  {
    user,
    mint,
    blockhash,
    hasTokenAccount = true,
  }: { user: string; mint: string; blockhash: string; hasTokenAccount?: boolean },
): string {
  const create = hasTokenAccount ? [] : [createTokenAccount({ payer: user, owner: user, mint })];
  return walletTransaction(user, [...create, initAuthority(programId, { user, mint })], blockhash);
}

/**
 * Builds the unsigned transaction (base64) that cancels a subscription at the end of the period.
 */
export function cancelTransaction(
  programId: string,
  parties: SubscriptionParties,
  blockhash: string,
): string {
  return walletTransaction(parties.subscriber, [cancelSubscription(programId, parties)], blockhash);
}

/**
 * Builds the unsigned transaction (base64) that undoes a cancellation. With `approves`, the
 * transaction first approves the wallet's authority again. If `hasTokenAccount` is false, the
 * transaction also creates the wallet's token account.
 */
export function resumeTransaction(
  programId: string,
  parties: SubscriptionParties & {
    mint: string;
    expiresAt: bigint;
    approves?: boolean;
    hasTokenAccount?: boolean;
  },
  blockhash: string,
): string {
  const { subscriber: user, mint, approves = false, hasTokenAccount = true } = parties;
  const instructions = [
    ...(hasTokenAccount ? [] : [createTokenAccount({ payer: user, owner: user, mint })]),
    ...(approves ? [initAuthority(programId, { user, mint })] : []),
    resumeSubscription(programId, parties),
  ];
  return walletTransaction(user, instructions, blockhash);
}

/**
 * Builds the unsigned transaction (base64) with which the subscriber closes an expired subscription
 * account. The account's rent goes to the wallet `payer`. With `revokes` (a mint), the transaction
 * also revokes the approval of the wallet's token account for this mint.
 */
export function closeTransaction(
  programId: string,
  parties: SubscriptionParties & { payer: string; revokes?: string | undefined },
  blockhash: string,
): string {
  const { subscriber, revokes: mint } = parties;
  const revoke = mint === undefined ? [] : [revokeApproval({ owner: subscriber, mint })];
  const close = closeInstruction(programId, subscriber, parties);
  return walletTransaction(subscriber, [close, ...revoke], blockhash);
}

/**
 * Builds the unsigned transaction (base64) that revokes the approval of the wallet's token account.
 * With `authorityPayer`, the transaction also closes the authority. The authority's rent goes to
 * `authorityPayer`, and no subscription under this authority can be charged again.
 */
export function revokeTransaction(
  programId: string,
  {
    user,
    mint,
    authorityPayer,
  }: { user: string; mint: string; authorityPayer?: string | undefined },
  blockhash: string,
): string {
  const receiver = authorityPayer === user ? undefined : authorityPayer;
  const instruction =
    authorityPayer === undefined
      ? revokeApproval({ owner: user, mint })
      : revokeAuthority(programId, { user, mint, receiver });
  return walletTransaction(user, [instruction], blockhash);
}
