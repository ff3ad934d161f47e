// Decides which actions a wallet may take on its subscription and its approval, for sponsored and
// unsponsored transactions. Each condition is checked here only. The API turns an obstacle into an
// error message; a keeper refuses the offer. Pure. The conditions for subscribing are in
// plans/selling.ts, registration/opening.ts and offers/build.ts.
import type { Instruction } from '../../chain/program/instructions.ts';
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import {
  approveInstructions,
  cancelInstructions,
  closeInstructions,
  resumeInstructions,
  revokeInstructions,
  type SubscribeState,
} from '../../chain/transactions/subscriptions.ts';
import { ServiceError } from '../../errors.ts';
import { FROZEN_WALLET } from '../plans/selling.ts';
import type { PlanView, Replaced, WalletView } from './wallet-view.ts';

/**
 * An approval starts at u64::MAX, and every payment reduces it. Once less than half is left, the
 * next transaction that the wallet signs renews the approval.
 */
const AMPLE_APPROVAL = 2n ** 63n;

/** Returns whether the token account approves the authority, with at least AMPLE_APPROVAL left. */
export function hasAmpleApproval({
  subscriberTokens: tokens,
  authorityAddress,
}: Pick<WalletView, 'subscriberTokens' | 'authorityAddress'>): boolean {
  return tokens?.delegate === authorityAddress && tokens.delegatedAmount >= AMPLE_APPROVAL;
}

/** Returns whether the account runs: it is not cancelled, or its last period has not ended. */
export const isRunning = ({ expiresAt }: SubscriptionAccount, now: bigint) =>
  expiresAt === 0n || expiresAt > now;

/** Reasons why the wallet gets no transaction to sign, in the words of the API. */
const obstacles = {
  no_subscription: 'The subscription is not on chain any more.',
  cancelled: 'The subscription is cancelled on chain already.',
  not_cancelled: 'The subscription is not cancelled on chain.',
  ended: 'The subscription has ended on chain: subscribe again.',
  not_ended:
    'The subscription has not ended on chain: cancel it first, then wait for the end of its period.',
  not_live: 'The subscription is not live on chain: subscribe again.',
  authority_replaced:
    'The wallet has closed the authority of this subscription: cancel it if it is not cancelled, and subscribe again after its end.',
  authority_closed: 'The authority of this wallet is closed already.',
  approved: 'The approval is in place: there is nothing to repair.',
  not_approved: 'The wallet has not approved payments: nothing to revoke.',
  frozen: FROZEN_WALLET,
} as const;

export type Obstacle = keyof typeof obstacles;

/** The API error for an obstacle. */
export const obstacleError = (obstacle: Obstacle) =>
  new ServiceError('CONFLICT', obstacles[obstacle]);

/** The actions of a wallet other than subscribing. */
export type ActionPurpose = 'cancel' | 'resume' | 'repair' | 'close' | 'revoke';

export interface Action {
  readonly purpose: ActionPurpose;
  readonly wallet: string;
  /** The plan of the subscription. Null for a revocation. */
  readonly plan: { readonly planPda: string } | null;
  /**
   * For `close`: whether to revoke the approval too. For `revoke`: whether to close the authority
   * too.
   */
  readonly withdraws: boolean;
}

type Decided = { readonly instructions: readonly Instruction[] } | { readonly obstacle: Obstacle };

const met = (obstacle: Obstacle) => ({ obstacle });

/** Builds the instructions of the action, or returns the obstacle. */
export function decideAction(
  names: { readonly programId: string; readonly mint: string },
  action: Action,
  view: WalletView,
): Decided {
  const { purpose, plan } = action;
  if (purpose === 'revoke') return revoking(names, action, view);
  const { subscription: account, subscriptionPda: subscription, now } = view;
  if (account === null || plan === null || subscription === null)
    return met(purpose === 'repair' ? 'not_live' : 'no_subscription');
  const { programId, mint } = names;
  const { expiresAt, payer } = account;
  const parties = { subscriber: action.wallet, plan: plan.planPda, subscription };
  if (purpose === 'cancel') {
    if (expiresAt !== 0n) return met('cancelled');
    return { instructions: cancelInstructions(programId, parties) };
  }
  if (purpose === 'close') {
    if (isRunning(account, now)) return met('not_ended');
    const revokedMint = action.withdraws ? mint : undefined;
    return { instructions: closeInstructions(programId, { ...parties, payer, revokedMint }) };
  }
  const { subscriberTokens: tokens, authority } = view;
  if (purpose === 'repair' && expiresAt !== 0n) return met('not_live');
  if (purpose === 'resume' && expiresAt === 0n) return met('not_cancelled');
  if (!isRunning(account, now)) return met('ended');
  if (authority?.initId !== account.initId) return met('authority_replaced');
  const hasTokenAccount = tokens !== null;
  if (purpose === 'resume') {
    const resume = { ...parties, mint, expiresAt, approves: canApprove(view), hasTokenAccount };
    return { instructions: resumeInstructions(programId, resume) };
  }
  if (hasAmpleApproval(view)) return met('approved');
  if (tokens?.state === 'frozen') return met('frozen');
  const approve = { user: action.wallet, mint, hasTokenAccount };
  return { instructions: approveInstructions(programId, approve) };
}

/** The token program refuses to approve payments from a frozen account. */
const canApprove = (view: WalletView) =>
  !hasAmpleApproval(view) && view.subscriberTokens?.state !== 'frozen';

function revoking(
  { programId, mint }: { readonly programId: string; readonly mint: string },
  { wallet, withdraws }: Action,
  { authority, authorityAddress, subscriberTokens: tokens }: WalletView,
): Decided {
  if (withdraws && authority === null) return met('authority_closed');
  if (tokens === null || (!withdraws && tokens.delegate !== authorityAddress))
    return met('not_approved');
  if (tokens.state === 'frozen') return met('frozen');
  const authorityPayer = withdraws ? authority?.payer : undefined;
  return { instructions: revokeInstructions(programId, { user: wallet, mint, authorityPayer }) };
}

/** The state from which the instructions that subscribe are built. */
export const subscribeState = (view: PlanView): SubscribeState => ({
  plan: view.plan,
  authority: view.authority,
  hasTokenAccount: view.subscriberTokens !== null,
  approved: hasAmpleApproval(view),
  previous: view.subscription,
});

/** Cancels the subscription that a change of plan replaces, unless it is cancelled already. */
export function cancelReplaced(
  programId: string,
  { wallet: subscriber, replaced }: { wallet: string; replaced: Replaced | undefined },
  view: WalletView,
): readonly Instruction[] {
  if (replaced === undefined || view.replaced?.expiresAt !== 0n) return [];
  const { planPda: plan, subscriptionPda: subscription } = replaced;
  return cancelInstructions(programId, { subscriber, plan, subscription });
}
