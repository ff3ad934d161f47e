// Builds the instructions of a sponsored transaction from accounts and terms, or returns why the
// transaction is not sponsored. The API builds the transaction for an offer. Before a keeper signs,
// the keeper builds the transaction again to check the offer. Pure. This file loads web3.js, so
// import it on demand.
import type { Instruction } from '../../chain/program/instructions.ts';
import type { PlanAccount } from '../../chain/program/layouts.ts';
import { periodSeconds } from '../../chain/program/period.ts';
import { transfersOf } from '../../chain/transactions/collection.ts';
import { subscribeInstructions } from '../../chain/transactions/subscriptions.ts';
import type { SponsoredPurpose } from '../../db/offers/offers.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { ServiceError } from '../../errors.ts';
import {
  cancelReplaced,
  decideAction,
  hasAmpleApproval,
  isRunning,
  type Obstacle,
  subscribeState,
} from '../actions/actions.ts';
import type { PlanView, WalletView } from '../actions/wallet-view.ts';
import { receivable } from '../collecting/fee.ts';
import { pullerAmong } from '../collecting/obstacles.ts';
import { type DrawnUp, drawUp } from '../invoices/draw-up.ts';
import { wholePrice } from '../invoices/terms.ts';
import { blockOf, soldPlan } from '../plans/selling.ts';
import { offeredTrial, type SessionTerms } from '../registration/first-payment.ts';
import type { Refusal } from './limits.ts';
import type { SponsoredChange } from './sponsored-change.ts';

/** The addresses of the installation that a sponsored transaction may contain. */
export interface SponsorNetwork {
  readonly programId: string;
  readonly mint: string;
  /** Wallets of keepers. The plan of a sponsored sign-up names at least one of them as a puller. */
  readonly keepers: readonly string[];
  /** Wallets that can receive the platform fee. The preferred wallet comes first. */
  readonly treasuries: readonly string[];
}

/** The terms of a sponsored transaction. The accounts are in `WalletView`. */
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
  /** The checkout session, whose discount and trial apply. */
  readonly session: SessionTerms | null | undefined;
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
  /** The invoice of the first period. */
  readonly invoice: DrawnUp;
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
  view: WalletView,
): Outcome {
  const { purpose, wallet, plan } = request;
  const { subscriberTokens: tokens } = view;
  if (tokens !== null && tokens.owner !== wallet) return refused('no_token_account');
  if (tokens?.state === 'frozen' && purpose !== 'cancel') return refused('frozen');
  if (purpose === 'subscribe')
    return plan === null
      ? refused('nothing_to_do')
      : subscribing(network, { ...request, plan }, view);
  // The wallet has no SOL, so the sponsor would have to pay for a token account that the
  // transaction opens.
  const needsTokens = purpose !== 'cancel' && (purpose !== 'close' || request.withdraws);
  if (tokens === null && needsTokens) return refused('no_token_account');
  const decided = decideAction(network, { ...request, purpose }, view);
  if ('obstacle' in decided) return refused(refusalOf(decided.obstacle));
  return feeOnly(decided.instructions);
}

const refusalOf = (obstacle: Obstacle): Refusal =>
  obstacle === 'frozen' ? 'frozen' : 'nothing_to_do';

type OfPlan = SponsoredRequest & { readonly plan: PlanRow };

function subscribing(network: SponsorNetwork, request: OfPlan, read: WalletView): Outcome {
  const { wallet, sponsor, plan, session, change } = request;
  const onChain = collectablePlan(network, request, read);
  if (onChain === undefined) return refused('not_collectable');
  const view = { ...read, plan: onChain };
  const { subscription: previous, subscriberTokens: tokens, now } = view;
  const { programId, mint } = network;
  if (offeredTrial(plan, session) !== null && change === undefined) return refused('trial');
  const end = now + periodSeconds(onChain.periodHours);
  if (onChain.endTs !== 0n && onChain.endTs <= end) return refused('short_period');
  if (previous !== null && isRunning(previous, now)) return refused('running');
  if (tokens === null) return refused('no_token_account');
  const payment = paymentOf(request, view);
  if (payment === null) return refused(change === undefined ? 'not_collectable' : 'change_of_plan');
  if (payment.gross < request.minimumAmount) return refused('below_minimum');
  if (tokens.amount < payment.gross) return refused('insufficient_usdc');
  // The transaction of a change of plan has no room to open the authority or to renew the approval.
  if (change !== undefined && (view.authority === null || !hasAmpleApproval(view)))
    return refused('change_of_plan');
  const opening = subscribeInstructions(programId, {
    subscriber: wallet,
    payer: sponsor,
    state: subscribeState(view),
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
    instructions: [
      ...cancelReplaced(programId, { wallet, replaced: change }, view),
      ...opening.instructions,
      ...pulls,
    ],
    payment: amounts,
    opensAuthority: view.authority === null,
    opensSubscription: true,
    changesPlan: change !== undefined,
  };
}

/**
 * Returns the plan's account if the sponsor can collect the plan's payments from a new subscription
 * of this wallet.
 */
function collectablePlan(
  { keepers, mint }: SponsorNetwork,
  { plan, wallet, sponsor }: OfPlan,
  view: WalletView,
): PlanAccount | undefined {
  const sold = soldPlan(plan, wallet, keepers, view);
  if (sold instanceof ServiceError || sold.mint !== mint) return undefined;
  if (pullerAmong(sold, [sponsor]) === undefined) return undefined;
  return blockOf(plan, keepers, view) === null ? sold : undefined;
}

/** Returns the payment for the first period. Returns null if nothing is collected for it. */
function paymentOf(
  { plan, session, feeBps, change }: OfPlan,
  view: PlanView,
): (FirstPayment & { treasury: string }) | null {
  const length = periodSeconds(BigInt(plan.periodHours));
  const invoice = drawUp(
    { ...wholePrice(plan, session ?? undefined), credit: change?.credit ?? 0n },
    { start: view.now, end: view.now + length },
    { minimum: change?.leastPayment ?? 0n },
  );
  const { amountDue } = invoice;
  if (amountDue === 0n) return null;
  const { amounts, ...rest } = receivable(amountDue, { feeBps, treasury: plan.treasury }, view);
  return { ...amounts, ...rest, invoice };
}
