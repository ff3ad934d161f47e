// Builds the instructions of a sponsored transaction from accounts and terms, or returns why the
// transaction is not sponsored. The API builds the transaction for an offer. Before a keeper signs,
// the keeper builds the transaction again to check the offer. Pure. This file loads web3.js, so
// import it on demand.
import { subscriptionAddress } from '../../chain/program/addresses.ts';
import { type Instruction, initAuthority } from '../../chain/program/instructions.ts';
import type { PlanAccount } from '../../chain/program/layouts.ts';
import { periodSeconds } from '../../chain/program/period.ts';
import { transfersOf } from '../../chain/transactions/collection.ts';
import {
  cancelInstructions,
  closeInstructions,
  resumeInstructions,
  revokeInstructions,
  subscribeInstructions,
} from '../../chain/transactions/subscriptions.ts';
import type { SponsoredPurpose } from '../../db/offers/offers.ts';
import type { DiscountTerms } from '../../db/offers/terms.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { creditFor } from '../collecting/credit.ts';
import { feeReceiver, planObstacle, pullerAmong } from '../collecting/obstacles.ts';
import { priceOf } from '../collecting/price.ts';
import { split } from '../money.ts';
import { planFaults } from '../plans/plans.ts';
import { hasAmpleApproval } from '../registration/opening.ts';
import type { Ground, SponsorNetwork } from './ground.ts';
import type { Refusal } from './limits.ts';
import type { SponsoredChange } from './sponsored-change.ts';

/** The terms of a sponsored transaction. The accounts are in `Ground`. */
export interface SponsoredRequest {
  readonly purpose: SponsoredPurpose;
  readonly wallet: string;
  readonly sponsor: string;
  /** The plan of the subscription. Null for a revocation. */
  readonly plan: PlanRow | null;
  /**
   * For `close`: whether to revoke the approval too. For `revoke`: whether to close the authority
   * too.
   */
  readonly withdraws: boolean;
  /** The discount of the checkout session. */
  readonly discount: DiscountTerms;
  /** The trial that the checkout session or the plan offers. */
  readonly trialHours: number | null;
  /** The merchant's platform fee in basis points. */
  readonly feeBps: number;
  readonly minimumAmount: bigint;
  /** The change of plan that a sign-up makes. */
  readonly change?: SponsoredChange | undefined;
}

/** The first payment of a sign-up, in base units. */
export interface FirstPayment {
  readonly gross: bigint;
  readonly fee: bigint;
  readonly net: bigint;
  readonly feeOwed: bigint;
  /** The part of the first period's price that is paid with credit from a change of plan. */
  readonly creditSpent: bigint;
}

export interface BuiltSponsored {
  readonly instructions: readonly Instruction[];
  /** The first payment. Null unless the purpose is `subscribe`. */
  readonly payment: FirstPayment | null;
  /** Whether the transaction opens the authority account and the sponsor pays its rent. */
  readonly opensAuthority: boolean;
  /** Whether the transaction opens the subscription account and the sponsor pays its rent. */
  readonly opensSubscription: boolean;
  /** Whether the transaction first cancels another subscription for a change of plan. */
  readonly changesPlan: boolean;
}

type Outcome = BuiltSponsored | { readonly refusal: Refusal };

const refused = (refusal: Refusal) => ({ refusal });
const feeOnly = (instructions: readonly Instruction[]): BuiltSponsored => ({
  instructions,
  payment: null,
  opensAuthority: false,
  opensSubscription: false,
  changesPlan: false,
});

/** Builds the instructions, or returns why the transaction is not sponsored. */
export function buildSponsored(
  network: SponsorNetwork,
  request: SponsoredRequest,
  ground: Ground,
): Outcome {
  const { purpose, wallet, plan } = request;
  const { subscriberTokens: tokens } = ground;
  if (tokens !== null && tokens.owner !== wallet) return refused('no_token_account');
  if (tokens?.state === 'frozen' && purpose !== 'cancel') return refused('frozen');
  if (purpose === 'revoke') return revoking(network, request, ground);
  if (plan === null) return refused('nothing_to_do');
  if (purpose === 'subscribe') return subscribing(network, { ...request, plan }, ground);
  return changing(network, { ...request, plan }, ground);
}

type OfPlan = SponsoredRequest & { readonly plan: PlanRow };

function subscribing(network: SponsorNetwork, request: OfPlan, ground: Ground): Outcome {
  const { wallet, sponsor, plan, change } = request;
  const { plan: onChain, subscription: previous, subscriberTokens: tokens, now } = ground;
  const { programId, mint } = network;
  if (onChain === null || plan.status !== 'active' || wallet === plan.owner)
    return refused('not_collectable');
  if (planStopper(network, request, { ...ground, plan: onChain }))
    return refused('not_collectable');
  if (request.trialHours !== null && change === undefined) return refused('trial');
  const end = now + periodSeconds(onChain.periodHours);
  if (onChain.endTs !== 0n && onChain.endTs <= end) return refused('short_period');
  if (previous !== null && (previous.expiresAt === 0n || previous.expiresAt > now))
    return refused('running');
  if (tokens === null) return refused('no_token_account');
  const payment = paymentOf(request, { ...ground, plan: onChain });
  if (payment === null) return refused(change === undefined ? 'not_collectable' : 'change_of_plan');
  if (payment.gross + payment.feeOwed < request.minimumAmount) return refused('below_minimum');
  if (tokens.amount < payment.gross) return refused('insufficient_usdc');
  const approved = hasAmpleApproval(ground.subscriberTokens, ground.authorityAddress);
  // The transaction of a change of plan has no room to open the authority or to renew the approval.
  if (change !== undefined && (ground.authority === null || !approved))
    return refused('change_of_plan');
  const opening = subscribeInstructions(programId, {
    subscriber: wallet,
    payer: sponsor,
    state: {
      plan: onChain,
      authority: ground.authority,
      hasTokenAccount: true,
      approved,
      previous,
    },
  });
  const { treasury, ...amounts } = payment;
  const pulls = transfersOf({
    programId,
    mint,
    keeper: sponsor,
    subscriber: wallet,
    plan: plan.planPda,
    subscription: opening.subscription,
    merchant: plan.owner,
    treasury,
    net: amounts.net,
    fee: amounts.fee,
  });
  return {
    instructions: [...cancelling(network, request, ground), ...opening.instructions, ...pulls],
    payment: amounts,
    opensAuthority: ground.authority === null,
    opensSubscription: true,
    changesPlan: change !== undefined,
  };
}

/** Cancels the subscription that a change of plan replaces, unless it is cancelled already. */
function cancelling(
  { programId }: SponsorNetwork,
  { wallet: subscriber, change }: OfPlan,
  { replaced }: Ground,
): readonly Instruction[] {
  if (change === undefined || replaced?.expiresAt !== 0n) return [];
  const { planPda: plan, subscriptionPda: subscription } = change;
  return cancelInstructions(programId, { subscriber, plan, subscription });
}

/**
 * Returns whether the plan prevents a sponsored sign-up: the plan accepts no subscriptions, or the
 * sponsor cannot collect the plan's payments.
 */
function planStopper(
  { keepers, mint }: SponsorNetwork,
  { plan, sponsor }: OfPlan,
  ground: Ground & { plan: PlanAccount },
): boolean {
  const parties = { pullers: keepers, treasury: plan.treasury, owner: plan.owner };
  return (
    ground.plan.status !== 'active' ||
    plan.collectionBlockedReason !== null ||
    planFaults(plan, ground.plan, parties).length > 0 ||
    pullerAmong(ground.plan, [sponsor]) === undefined ||
    planObstacle(ground, 1n, { keepers, merchant: plan.owner, mint }) !== undefined
  );
}

/** Returns the payment for the first period. Returns null if no part of it can be collected. */
function paymentOf(
  { plan, discount, feeBps, change }: OfPlan,
  ground: Ground,
): (FirstPayment & { treasury: string }) | null {
  const price = priceOf({ ...discount, amount: plan.amount });
  const creditSpent =
    change === undefined ? 0n : creditFor(change.credit, price, change.leastPayment);
  const { gross, fee, net } = split(price - creditSpent, feeBps);
  const treasury = fee === 0n ? plan.treasury : feeReceiver(ground, plan.treasury);
  if (treasury !== undefined)
    return gross === 0n ? null : { gross, fee, net, feeOwed: 0n, creditSpent, treasury };
  const owed = { gross: net, fee: 0n, net, feeOwed: fee, creditSpent };
  return net === 0n ? null : { ...owed, treasury: plan.treasury };
}

/** Builds the instructions that cancel, resume, close or repair a subscription of the wallet. */
function changing({ programId, mint }: SponsorNetwork, request: OfPlan, ground: Ground): Outcome {
  const { purpose, wallet, plan, withdraws } = request;
  const { subscription: account, authority, subscriberTokens: tokens, now } = ground;
  if (account === null) return refused('nothing_to_do');
  const subscription = subscriptionAddress(programId, plan.planPda, wallet).address;
  const parties = { subscriber: wallet, plan: plan.planPda, subscription };
  const { expiresAt, payer } = account;
  const [isLive, isOver] = [expiresAt === 0n, expiresAt !== 0n && expiresAt <= now];
  if (purpose === 'cancel')
    return isLive ? feeOnly(cancelInstructions(programId, parties)) : refused('nothing_to_do');
  if (purpose === 'close') {
    if (!isOver || (withdraws && tokens === null)) return refused('nothing_to_do');
    const revokes = withdraws ? mint : undefined;
    return feeOnly(closeInstructions(programId, { ...parties, payer, revokes }));
  }
  if (tokens === null) return refused('no_token_account');
  if (authority?.initId !== account.initId) return refused('nothing_to_do');
  if (purpose === 'resume') {
    if (isLive || isOver) return refused('nothing_to_do');
    const approves = !hasAmpleApproval(ground.subscriberTokens, ground.authorityAddress);
    return feeOnly(resumeInstructions(programId, { ...parties, mint, expiresAt, approves }));
  }
  return isLive && !hasAmpleApproval(ground.subscriberTokens, ground.authorityAddress)
    ? feeOnly([initAuthority(programId, { user: wallet, mint })])
    : refused('nothing_to_do');
}

function revoking(
  { programId, mint }: SponsorNetwork,
  { wallet, withdraws }: SponsoredRequest,
  ground: Ground,
): Outcome {
  const { authority, subscriberTokens: tokens } = ground;
  if (tokens === null) return refused('no_token_account');
  const isGiven = tokens.delegate === ground.authorityAddress;
  if (withdraws ? authority === null : !isGiven) return refused('nothing_to_do');
  const authorityPayer = withdraws ? authority?.payer : undefined;
  return feeOnly(revokeInstructions(programId, { user: wallet, mint, authorityPayer }));
}
