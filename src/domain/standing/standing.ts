// A wallet's balances, subscription and approval for a plan, for the subscribe page.
import { subscriptionAddress } from '../../chain/program/addresses.ts';
import {
  AUTHORITY_LENGTH,
  type AuthorityAccount,
  type PlanAccount,
  SUBSCRIPTION_LENGTH,
  type SubscriptionAccount,
  TOKEN_ACCOUNT_LENGTH,
  type TokenAccount,
} from '../../chain/program/layouts.ts';
import { timeOf } from '../../chain/time.ts';
import { walletFee } from '../../chain/transactions/wallet.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import {
  type EarlierRegistration,
  findNewestRegistration,
} from '../../db/subscriptions/account-registrations.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { amountDisplay, formatSol } from '../../format.ts';
import { readWalletView } from '../actions/wallet-view.ts';
import { type ChainReader, type BillingAddresses, reaching } from '../chain-reads.ts';
import { pullersOf } from '../plans/plans.ts';
import { blockOf } from '../plans/selling.ts';
import type { BlockReason } from '../reasons.ts';
import { isOfAccount } from '../registration/ended.ts';
import { trialOf } from '../registration/first-payment.ts';
import type { NamedSession } from '../registration/registration-terms.ts';
import { type Dues, readDues } from './standing-dues.ts';

/**
 * Network fee of the longest opening transaction: it creates the token account, opens the
 * authority, closes an ended subscription and subscribes.
 */
const networkFee = walletFee(4);

/** An approval that the wallet has given to another program. `amount` is in USDC base units. */
export interface ForeignApproval {
  delegate: string;
  amount: bigint;
}

export interface Standing extends Dues {
  subscriptionPda: string;
  /**
   * State of the subscription account. A `cancelled` subscription runs until `endsAt`. An `ended`
   * account can be opened again.
   */
  onChain: 'none' | 'live' | 'cancelled' | 'ended';
  endsAt: Date | null;
  /**
   * The wallet that paid the rent of the subscription account, and gets it back when the account is
   * closed. Null without an account.
   */
  rentPayer: string | null;
  /**
   * `none`: there is no subscription account. `given`: payments can be collected. `missing`: the
   * wallet must approve again before payments can be collected. `replaced`: the subscription's
   * authority was closed, so the wallet must cancel and subscribe again.
   */
  approval: 'none' | 'given' | 'missing' | 'replaced';
  /**
   * Whether the merchant has force-cancelled the registration of the subscription that is live on
   * chain, and has not lifted the force-cancel.
   */
  endedByMerchant: boolean;
  /**
   * The approval that the wallet has given to another program; null if there is none. Subscribing
   * would replace this approval, because a token account has only one delegate.
   */
  replaces: ForeignApproval | null;
  /**
   * Whether the plan accepts new subscriptions: it is open on chain and its payments can be
   * collected.
   */
  planOpen: boolean;
  /** Why the plan's payments cannot be collected; null when they can be collected. */
  planBlocked: BlockReason | null;
  /** Whether the issuer of USDC has frozen the wallet's token account. */
  frozen: boolean;
  /** Whether the wallet has a token account for USDC. An approval ends with its token account. */
  hasUsdcAccount: boolean;
  /** USDC base units. */
  usdc: bigint;
  lamports: bigint;
  /** Rent of the missing accounts, the transaction fee, and the minimum balance of a wallet. */
  lamportsNeeded: bigint;
}

interface Parts {
  readonly sql: Queryable;
  readonly chain: ChainReader;
  readonly network: BillingAddresses;
  readonly planMinimumAmount: bigint;
}

/**
 * Reads the wallet's accounts, and whether the wallet has had a trial. `session` is the checkout
 * session's discount and trial. Throws a ServiceError (INTERNAL_ERROR) when the chain is
 * unreachable.
 */
export async function readStanding(
  { sql, chain, network, planMinimumAmount: minimum }: Parts,
  plan: PlanRow,
  wallet: string,
  session?: NamedSession,
): Promise<Standing> {
  const { programId } = network;
  const names = { programId, mint: plan.mint };
  const subscriptionPda = subscriptionAddress(programId, plan.planPda, wallet).address;
  const [trialHours, earlier, view, rents] = await Promise.all([
    trialOf(sql, plan, wallet, session),
    findNewestRegistration(sql, subscriptionPda),
    reaching(readWalletView(chain, names, { wallet, plan })),
    readRents(chain),
  ]);
  const { subscription, authority, subscriberTokens: token, plan: onPlan, now } = view;
  const { authorityAddress } = view;
  const approved = token?.delegate === authorityAddress && token.delegatedAmount >= plan.amount;
  const expiresAt = subscription?.expiresAt ?? 0n;
  const read = { wallet, subscriptionPda, earlier, account: subscription, onPlan, now };
  const seen = { ...read, trialHours, minimum };
  const dues = await readDues({ sql, chain, network }, plan, session, seen);
  const planBlocked = blockOf(plan, pullersOf(network), view);
  return {
    subscriptionPda,
    onChain: stateOf(subscription, now),
    endsAt: expiresAt === 0n ? null : timeOf(expiresAt),
    rentPayer: subscription?.payer ?? null,
    approval: approvalOf(subscription, authority, approved),
    endedByMerchant: isEndedByMerchant(earlier, subscription, now),
    replaces: foreignApproval(token, authorityAddress),
    planOpen: planBlocked === null && isOpen(onPlan, now),
    planBlocked,
    frozen: token?.state === 'frozen',
    hasUsdcAccount: token !== null,
    usdc: token?.amount ?? 0n,
    ...dues,
    lamports: view.payerLamports,
    lamportsNeeded:
      networkFee +
      rents.minimum +
      (token === null ? rents.token : 0n) +
      (authority === null ? rents.authority : 0n) +
      (subscription === null ? rents.subscription : 0n),
  };
}

/** Reads the rent of each account, and the minimum balance of a wallet, in lamports. */
async function readRents(chain: ChainReader) {
  const rent = (length: number) => reaching(chain.getMinimumBalanceForRentExemption(length));
  const [minimum, token, authority, subscription] = await Promise.all([
    rent(0),
    rent(TOKEN_ACCOUNT_LENGTH),
    rent(AUTHORITY_LENGTH),
    rent(SUBSCRIPTION_LENGTH),
  ]);
  return { minimum, token, authority, subscription };
}

function approvalOf(
  subscription: SubscriptionAccount | null,
  authority: AuthorityAccount | null,
  approved: boolean,
): Standing['approval'] {
  if (subscription === null) return 'none';
  if (subscription.initId !== authority?.initId) return 'replaced';
  return approved ? 'given' : 'missing';
}

function isEndedByMerchant(
  earlier: EarlierRegistration | undefined,
  account: SubscriptionAccount | null,
  now: bigint,
): boolean {
  if (earlier === undefined || account === null || stateOf(account, now) === 'ended') return false;
  return earlier.isBarred && isOfAccount(earlier, account);
}

const isOpen = (plan: PlanAccount | null, now: bigint): boolean =>
  plan?.status === 'active' && (plan.endTs === 0n || plan.endTs > now);

function stateOf(subscription: SubscriptionAccount | null, now: bigint): Standing['onChain'] {
  if (subscription === null) return 'none';
  if (subscription.expiresAt === 0n) return 'live';
  return subscription.expiresAt > now ? 'cancelled' : 'ended';
}

/** Returns the approval that subscribing would replace; null if there is none. */
export function foreignApproval(
  token: TokenAccount | null,
  authority: string,
): ForeignApproval | null {
  if (token === null || token.delegate === null || token.delegate === authority) return null;
  if (token.delegatedAmount === 0n) return null;
  return { delegate: token.delegate, amount: token.delegatedAmount };
}

export interface Shortage {
  code: 'usdc_missing' | 'sol_missing' | 'approval_replaced';
  message: string;
  /**
   * The amount that is missing: USDC base units for `usdc_missing`, lamports for `sol_missing`.
   * Absent for `approval_replaced`.
   */
  missing?: bigint;
}

/**
 * Lists what the wallet lacks for subscribing. If subscribing would replace another program's
 * approval, the list also has this approval.
 */
export function shortagesOf({
  usdc,
  usdcNeeded,
  lamports,
  lamportsNeeded,
  replaces,
}: Pick<Standing, 'usdc' | 'usdcNeeded' | 'lamports' | 'lamportsNeeded' | 'replaces'>): Shortage[] {
  const shortages: Shortage[] = [];
  if (lamports < lamportsNeeded)
    shortages.push({
      code: 'sol_missing',
      message: `The wallet has ${formatSol(lamports)} SOL and opening the subscription takes ${formatSol(lamportsNeeded)} SOL: ${formatSol(lamportsNeeded - lamports)} SOL are missing. The transaction will fail.`,
      missing: lamportsNeeded - lamports,
    });
  if (usdc < usdcNeeded)
    shortages.push({
      code: 'usdc_missing',
      message: `The wallet has ${amountDisplay(usdc)} and the first payment takes ${amountDisplay(usdcNeeded)}: ${amountDisplay(usdcNeeded - usdc)} are missing. The subscription will be past due until they are there.`,
      missing: usdcNeeded - usdc,
    });
  if (replaces !== null)
    shortages.push({
      code: 'approval_replaced',
      message: `The wallet’s USDC account is approved to ${replaces.delegate} for ${amountDisplay(replaces.amount)}. Subscribing replaces that approval: what uses it stops.`,
    });
  return shortages;
}
