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
 * Builds the instructions that open a subscription, and derives the subscription's address. If
 * necessary, the first instructions create the wallet's token account, open and approve the
 * SubscriptionAuthority, and close an expired subscription to the same plan. The subscriber pays
 * the token account's rent. `payer` pays all other rent.
 */
export function subscribeInstructions(
  programId: string,
  { subscriber, state, payer }: { subscriber: string; state: SubscribeState; payer?: string },
): { instructions: Instruction[]; subscription: string } {
  const { owner: merchant, planId, mint, amount, periodHours, createdAt } = state.plan;
  const plan = planAddress(programId, merchant, planId);
  const subscription = subscriptionAddress(programId, plan.address, subscriber).address;
  const initId = state.authority?.initId ?? UNKNOWN_INIT_ID;
  const terms = { planId, planBump: plan.bump, mint, amount, periodHours, createdAt, initId };
  const parties = { subscriber, merchant, plan: plan.address, subscription };
  const instructions = [
    ...(state.hasTokenAccount
      ? []
      : [createTokenAccount({ payer: subscriber, owner: subscriber, mint })]),
    ...(state.authority !== null && state.approved
      ? []
      : [initAuthority(programId, { user: subscriber, mint, payer })]),
    ...(state.previous === null
      ? []
      : [closeInstruction(programId, subscriber, { ...parties, payer: state.previous.payer })]),
    subscribe(programId, { ...parties, terms, payer }),
  ];
  return { instructions, subscription };
}

/**
 * Builds the instructions with which a wallet approves its SubscriptionAuthority as delegate again.
 * If the authority is closed, they also open the authority. If `hasTokenAccount` is false, the
 * first instruction creates the wallet's token account.
 */
export function approveInstructions(
  programId: string,
  { user, mint, hasTokenAccount }: { user: string; mint: string; hasTokenAccount: boolean },
): Instruction[] {
  const create = hasTokenAccount ? [] : [createTokenAccount({ payer: user, owner: user, mint })];
  return [...create, initAuthority(programId, { user, mint })];
}

/** Builds the instruction that cancels a subscription at the end of the period. */
export function cancelInstructions(programId: string, parties: SubscriptionParties): Instruction[] {
  return [cancelSubscription(programId, parties)];
}

interface Resume extends SubscriptionParties {
  readonly mint: string;
  readonly expiresAt: bigint;
  readonly approves?: boolean;
  readonly hasTokenAccount?: boolean;
}

/**
 * Builds the instructions that undo a cancellation. If `hasTokenAccount` is false, the first
 * instruction creates the wallet's token account. If `approves` is true, the next instruction
 * approves the wallet's SubscriptionAuthority again. The last instruction undoes the cancellation.
 */
export function resumeInstructions(programId: string, resume: Resume): Instruction[] {
  const { subscriber: user, mint, approves = false, hasTokenAccount = true } = resume;
  return [
    ...(hasTokenAccount ? [] : [createTokenAccount({ payer: user, owner: user, mint })]),
    ...(approves ? [initAuthority(programId, { user, mint })] : []),
    resumeSubscription(programId, resume),
  ];
}

interface Close extends SubscriptionParties {
  readonly payer: string;
  readonly revokedMint?: string | undefined;
}

/**
 * Builds the instructions with which the subscriber closes an expired subscription account. The
 * wallet `payer` gets the account's rent. With `revokedMint`, the instructions also revoke the
 * approval of the wallet's token account for this mint.
 */
export function closeInstructions(programId: string, close: Close): Instruction[] {
  const { subscriber, revokedMint: mint } = close;
  const revoke = mint === undefined ? [] : [revokeApproval({ owner: subscriber, mint })];
  return [closeInstruction(programId, subscriber, close), ...revoke];
}

interface Revoke {
  readonly user: string;
  readonly mint: string;
  readonly authorityPayer?: string | undefined;
}

/**
 * Builds the instruction that revokes the approval of the wallet's token account. If
 * `authorityPayer` is given, the instruction also closes the SubscriptionAuthority and returns the
 * rent to the wallet `authorityPayer`. Subscriptions under a closed authority can never be
 * collected again.
 */
export function revokeInstructions(
  programId: string,
  { user, mint, authorityPayer }: Revoke,
): Instruction[] {
  if (authorityPayer === undefined) return [revokeApproval({ owner: user, mint })];
  const receiver = authorityPayer === user ? undefined : authorityPayer;
  return [revokeAuthority(programId, { user, mint, receiver })];
}
