// A wallet's balances, subscription and approval for a plan, for the subscribe page.
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
import {
  AUTHORITY_LENGTH,
  SUBSCRIPTION_LENGTH,
  TOKEN_ACCOUNT_LENGTH,
} from '../../chain/program/layouts.ts';
import { timeOf } from '../../chain/time.ts';
import { walletFee } from '../../chain/transactions/wallet.ts';
import type { PlanRow } from '../../db/plans.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { DiscountTerms } from '../../db/subscription-changes.ts';
import { hadTrial } from '../../db/subscriptions.ts';
import { amountDisplay, formatSol } from '../../format.ts';
import { priceOf } from '../collecting/price.ts';
import { type ChainReader, type Network, reaching, readAccounts } from './chain-reads.ts';

/**
 * Network fee of the longest opening transaction, which creates the token account, opens the
 * authority, closes an ended subscription and subscribes.
 */
const networkFee = walletFee(4);

export interface Standing {
  subscriptionPda: string;
  /**
   * State of the subscription account. A `cancelled` subscription runs until `endsAt`; an `ended`
   * one can be opened again.
   */
  onChain: 'none' | 'live' | 'cancelled' | 'ended';
  endsAt: Date | null;
  /**
   * `given`: payments can be collected. `missing`: the wallet must approve again before payments
   * can be collected. `replaced`: the wallet must cancel and subscribe again.
   */
  approval: 'none' | 'given' | 'missing' | 'replaced';
  /** Whether the on-chain plan accepts new subscriptions now. */
  planOpen: boolean;
  /** Whether the issuer of USDC has frozen the wallet's token account. */
  frozen: boolean;
  /** USDC base units. */
  usdc: bigint;
  /** The first payment in USDC base units; 0 if the wallet would get a trial. */
  usdcNeeded: bigint;
  /** Length of the trial that the wallet would get; null when it would get none. */
  trialHours: number | null;
  lamports: bigint;
  /** Rent of the missing accounts, the transaction fee, and the minimum balance of a wallet. */
  lamportsNeeded: bigint;
}

/**
 * Reads the wallet's accounts, and whether the wallet has had a trial. `discount` comes from the
 * checkout session. Throws a ServiceError (INTERNAL_ERROR) when the chain is unreachable.
 */
export async function readStanding(
  { sql, chain, network }: { sql: Queryable; chain: ChainReader; network: Network },
  plan: PlanRow,
  wallet: string,
  discount?: DiscountTerms,
): Promise<Standing> {
  const { programId } = network;
  const authorityPda = authorityAddress(programId, wallet, plan.mint).address;
  const subscriptionPda = subscriptionAddress(programId, plan.planPda, wallet).address;
  const rent = (length: number) => reaching(chain.getMinimumBalanceForRentExemption(length));
  const [terms, { accounts, now }, minimum, tokenRent, authorityRent, subscriptionRent] =
    await Promise.all([
      firstPayment(sql, plan, wallet, discount),
      readAccounts(chain, [
        wallet,
        tokenAccountAddress(wallet, plan.mint).address,
        authorityPda,
        subscriptionPda,
        plan.planPda,
      ]),
      rent(0),
      rent(TOKEN_ACCOUNT_LENGTH),
      rent(AUTHORITY_LENGTH),
      rent(SUBSCRIPTION_LENGTH),
    ]);
  const [
    system = null,
    tokens = null,
    authorityAccount = null,
    account = null,
    planAccount = null,
  ] = accounts;
  const token = tokenAccountIn(tokens);
  const authority = authorityIn(authorityAccount, programId);
  const subscription = subscriptionIn(account, programId);
  const onPlan = planIn(planAccount, programId);
  const approved = token?.delegate === authorityPda && token.delegatedAmount >= plan.amount;
  const expiresAt = subscription?.expiresAt ?? 0n;
  return {
    subscriptionPda,
    onChain:
      subscription === null
        ? 'none'
        : expiresAt === 0n
          ? 'live'
          : expiresAt > now
            ? 'cancelled'
            : 'ended',
    endsAt: expiresAt === 0n ? null : timeOf(expiresAt),
    approval:
      subscription === null
        ? 'none'
        : subscription.initId !== authority?.initId
          ? 'replaced'
          : approved
            ? 'given'
            : 'missing',
    planOpen: onPlan?.status === 'active' && (onPlan.endTs === 0n || onPlan.endTs > now),
    frozen: token?.state === 'frozen',
    usdc: token?.amount ?? 0n,
    ...terms,
    lamports: system?.lamports ?? 0n,
    lamportsNeeded:
      networkFee +
      minimum +
      (token === null ? tokenRent : 0n) +
      (authority === null ? authorityRent : 0n) +
      (subscription === null ? subscriptionRent : 0n),
  };
}

async function firstPayment(
  sql: Queryable,
  plan: PlanRow,
  wallet: string,
  discount: DiscountTerms | undefined,
): Promise<Pick<Standing, 'usdcNeeded' | 'trialHours'>> {
  if (plan.trialHours !== null && !(await hadTrial(sql, plan.appId, wallet)))
    return { usdcNeeded: 0n, trialHours: plan.trialHours };
  const { amount } = plan;
  const usdcNeeded = discount === undefined ? amount : priceOf({ ...discount, amount });
  return { usdcNeeded, trialHours: null };
}

export interface Shortage {
  code: 'usdc_missing' | 'sol_missing';
  message: string;
  /** USDC base units, or lamports. */
  missing: bigint;
}

/** The USDC and SOL that the wallet lacks to subscribe; empty when it has enough. */
export function shortagesOf({
  usdc,
  usdcNeeded,
  lamports,
  lamportsNeeded,
}: Pick<Standing, 'usdc' | 'usdcNeeded' | 'lamports' | 'lamportsNeeded'>): Shortage[] {
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
  return shortages;
}
