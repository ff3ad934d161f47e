// Why a payment cannot be collected, told from the accounts before anything is sent. The order is the program's own (docs/chain.md, Errors at a pull).
import type { OursReason, SubscriberReason } from '../chain/errors.ts';
import type { PlanAccount, SubscriptionAccount } from '../chain/layouts.ts';
import type { ChainView } from './chain-view.ts';
import type { Split } from './money.ts';

/** Whether the wallet took its delegation back, and how; undefined while it stands. A missing token account is no revocation. */
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

/** Why `gross` base units cannot be taken from the subscriber; undefined when they can. */
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

/** The first of these wallets that may pull from the plan; undefined when none may. */
export function pullerAmong(
  { owner, pullers }: Pick<PlanAccount, 'owner' | 'pullers'>,
  keepers: readonly string[],
): string | undefined {
  return keepers.find((keeper) => keeper === owner || pullers.includes(keeper));
}

export interface Receivers {
  readonly keepers: readonly string[];
  readonly merchant: string;
  readonly treasury: string;
  readonly mint: string;
}

/** What on our side or the merchant's stands against collecting; undefined when nothing does. It is never the subscriber's fault. */
export function ourObstacle(
  { plan, merchantTokens, treasuryTokens }: ChainView,
  { net, fee }: Split,
  { keepers, merchant, treasury, mint }: Receivers,
): OursReason | undefined {
  if (plan === null) return undefined;
  if (plan.mint !== mint) return 'wrong_program_or_mint';
  if (pullerAmong(plan, keepers) === undefined) return 'not_a_puller';
  const receivers = [
    { wallet: merchant, tokens: merchantTokens, amount: net },
    { wallet: treasury, tokens: treasuryTokens, amount: fee },
  ].filter(({ amount }) => amount > 0n);
  const mayReceive = (wallet: string) =>
    plan.destinations.length === 0 || plan.destinations.includes(wallet);
  if (
    receivers.some(
      ({ wallet, tokens }) => !mayReceive(wallet) || (tokens !== null && tokens.owner !== wallet),
    )
  )
    return 'destination_refused';
  // The keeper opens no account: its rent would go to whoever closes it.
  if (receivers.some(({ tokens }) => tokens === null)) return 'receiver_account_missing';
  if (receivers.some(({ tokens }) => tokens?.state === 'frozen')) return 'receiver_frozen';
  return undefined;
}
