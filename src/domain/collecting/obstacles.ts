// Finds out from the accounts why a payment would fail, before a transaction is sent. The checks
// have the same order as in the program (docs/chain.md, Errors at a pull).
import type { SubscriberReason } from '../../chain/program/errors.ts';
import type { PlanAccount, SubscriptionAccount } from '../../chain/program/layouts.ts';
import type { BlockReason } from '../reasons.ts';
import type { ChainView, Receiver } from './chain-view.ts';

/**
 * Returns how the subscriber revoked the delegation of the wallet's token account, or undefined
 * while the delegation is in place. A missing token account does not count as a revocation.
 */
export function delegationObstacle(
  view: ChainView,
  subscription: SubscriptionAccount,
): SubscriberReason | undefined {
  const { authority, authorityAddress, subscriberTokens } = view;
  if (authority === null) return 'authority_closed';
  if (authority.initId !== subscription.initId) return 'authority_replaced';
  if (subscriberTokens !== null && subscriberTokens.delegate !== authorityAddress)
    return 'delegate_replaced';
  return undefined;
}

/**
 * Returns the reason why `gross` base units cannot be collected from the subscriber, or undefined
 * when they can be collected.
 */
export function subscriberObstacle(
  view: ChainView,
  subscription: SubscriptionAccount,
  gross: bigint,
): SubscriberReason | undefined {
  const { subscriberTokens: tokens } = view;
  if (tokens === null) return 'account_closed';
  if (tokens.owner !== subscription.subscriber) return 'account_owner_changed';
  const delegation = delegationObstacle(view, subscription);
  if (delegation !== undefined) return delegation;
  if (tokens.state === 'frozen') return 'account_frozen';
  if (tokens.amount < gross) return 'insufficient_funds';
  if (tokens.delegatedAmount < gross) return 'allowance_exhausted';
  return undefined;
}

/**
 * Returns the first of the `keepers` wallets that the plan allows to collect payments, or undefined
 * when the plan allows none of them.
 */
export function pullerAmong(
  { owner, pullers }: Pick<PlanAccount, 'owner' | 'pullers'>,
  keepers: readonly string[],
): string | undefined {
  return keepers.find((keeper) => keeper === owner || pullers.includes(keeper));
}

/**
 * Returns the reason why the plan's payments cannot be paid to this receiver, or undefined when the
 * receiver can be paid.
 */
function receiverObstacle(
  { destinations }: PlanAccount,
  { wallet, tokens }: Receiver,
): BlockReason | undefined {
  const isNamed = destinations.length === 0 || destinations.includes(wallet);
  if (!isNamed || (tokens !== null && tokens.owner !== wallet)) return 'destination_refused';
  // The keeper does not create the missing token account. The keeper would pay the rent of the
  // account, and the wallet could then close the account and keep the rent.
  if (tokens === null) return 'receiver_account_missing';
  return tokens.state === 'frozen' ? 'receiver_frozen' : undefined;
}

/** The wallets that take part in a plan's payments, and the mint of the payments. */
export interface Parties {
  readonly keepers: readonly string[];
  readonly merchant: string;
  readonly mint: string;
}

/**
 * Returns the reason why no payment of the plan with the net amount `net` can be collected. Returns
 * undefined if payments can be collected. The subscriber never causes such a reason.
 */
export function planObstacle(
  { plan, merchantTokens }: Pick<ChainView, 'plan' | 'merchantTokens'>,
  net: bigint,
  { keepers, merchant, mint }: Parties,
): BlockReason | undefined {
  if (plan === null) return undefined;
  if (plan.mint !== mint) return 'wrong_program_or_mint';
  if (pullerAmong(plan, keepers) === undefined) return 'not_a_puller';
  if (net === 0n) return undefined;
  return receiverObstacle(plan, { wallet: merchant, tokens: merchantTokens });
}

/** The accounts that decide who can receive the platform fee. */
export type Receivers = Pick<ChainView, 'plan' | 'treasuryTokens' | 'backupTreasuries'>;

/**
 * Returns the wallet that receives the platform fee: the plan's treasury, or else the first backup
 * treasury that can receive the fee. Returns undefined when no treasury can receive the fee.
 */
export function feeReceiver(
  { plan, treasuryTokens, backupTreasuries = [] }: Receivers,
  treasury: string,
): string | undefined {
  if (plan === null) return undefined;
  return [{ wallet: treasury, tokens: treasuryTokens }, ...backupTreasuries].find(
    (one) => receiverObstacle(plan, one) === undefined,
  )?.wallet;
}
