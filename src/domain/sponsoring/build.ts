// Builds the instructions of a sponsored transaction from accounts and terms, or returns why the
// transaction is not sponsored. serve builds the offer. A keeper builds the transaction again, to
// check the offer before it signs. Pure. This module loads web3.js, so import it on demand.
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
import type { PlanRow } from '../../db/plans.ts';
import type { SponsoredPurpose } from '../../db/sponsored-offers.ts';
import type { DiscountTerms } from '../../db/subscription-changes.ts';
import { feeReceiver, planObstacle, pullerAmong } from '../collecting/obstacles.ts';
import { priceOf } from '../collecting/price.ts';
import { split } from '../money.ts';
import { hasAmpleApproval } from '../subscribing/opening.ts';
import { planFaults } from '../subscribing/plans.ts';
import type { Ground, SponsorNetwork } from './ground.ts';
import type { Refusal } from './limits.ts';

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
  /** The merchant's platform fee in basis points. */
  readonly feeBps: number;
  readonly minimumAmount: bigint;
}

/** The first payment of a sign-up, in base units. */
export interface FirstPayment {
  readonly gross: bigint;
  readonly fee: bigint;
  readonly net: bigint;
  readonly feeOwed: bigint;
}

export interface BuiltSponsored {
  readonly instructions: readonly Instruction[];
  /** The first payment. Null unless the purpose is `subscribe`. */
  readonly payment: FirstPayment | null;
  /** Whether the transaction opens the authority account and the sponsor pays its rent. */
  readonly opensAuthority: boolean;
  /** Whether the transaction opens the subscription account and the sponsor pays its rent. */
  readonly opensSubscription: boolean;
  /** Whether the transaction first closes an expired subscription account at the same address. */
  readonly reopens: boolean;
}

type Outcome = BuiltSponsored | { readonly refusal: Refusal };

const refused = (refusal: Refusal) => ({ refusal });
const feeOnly = (instructions: readonly Instruction[]): BuiltSponsored => ({
  instructions,
  payment: null,
  opensAuthority: false,
  opensSubscription: false,
  reopens: false,
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
  const { wallet, sponsor, plan } = request;
  const { plan: onChain, subscription: previous, subscriberTokens: tokens, now } = ground;
  const { programId, mint } = network;
  if (onChain === null || plan.status !== 'active' || wallet === plan.owner)
    return refused('not_collectable');
  if (planStopper(network, request, { ...ground, plan: onChain }))
    return refused('not_collectable');
  if (plan.trialHours !== null) return refused('trial');
  const end = now + periodSeconds(onChain.periodHours);
  if (onChain.endTs !== 0n && onChain.endTs <= end) return refused('short_period');
  if (previous !== null && (previous.expiresAt === 0n || previous.expiresAt > now))
    return refused('running');
  if (tokens === null) return refused('no_token_account');
  const payment = paymentOf(request, { ...ground, plan: onChain });
  if (payment === null) return refused('not_collectable');
  if (payment.gross + payment.feeOwed < request.minimumAmount) return refused('below_minimum');
  if (tokens.amount < payment.gross) return refused('insufficient_usdc');
  const approved = hasAmpleApproval(ground.subscriberTokens, ground.authorityAddress);
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
    instructions: [...opening.instructions, ...pulls],
    payment: amounts,
    opensAuthority: ground.authority === null,
    opensSubscription: true,
    reopens: previous !== null,
  };
}

/**
 * Returns whether the plan accepts no subscriptions, or the sponsor cannot collect the plan's
 * payments.
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
  { plan, discount, feeBps }: OfPlan,
  ground: Ground,
): (FirstPayment & { treasury: string }) | null {
  const { gross, fee, net } = split(priceOf({ ...discount, amount: plan.amount }), feeBps);
  const treasury = fee === 0n ? plan.treasury : feeReceiver(ground, plan.treasury);
  if (treasury !== undefined)
    return gross === 0n ? null : { gross, fee, net, feeOwed: 0n, treasury };
  return net === 0n ? null : { gross: net, fee: 0n, net, feeOwed: fee, treasury: plan.treasury };
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
