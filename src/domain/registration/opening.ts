// Decides whether a wallet can subscribe to a plan: by a transaction that opens a new subscription
// account, or by one that resumes an existing account. An account can be resumed if it is cancelled
// and has not expired, and if its registration has ended.
import { subscriptionAddress } from '../../chain/program/addresses.ts';
import type { PlanAccount, SubscriptionAccount } from '../../chain/program/layouts.ts';
import { timeOf } from '../../chain/time.ts';
import { isSignupOpen } from '../../db/offers/sponsorships.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import {
  type EarlierRegistration,
  findNewestRegistration,
} from '../../db/subscriptions/account-registrations.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { ServiceError } from '../../errors.ts';
import { isRunning, obstacleError } from '../actions/actions.ts';
import {
  type PlanView,
  readWalletView,
  type Replaced,
  type WalletView,
} from '../actions/wallet-view.ts';
import { type ChainReader, type BillingAddresses, reaching } from '../chain-reads.ts';
import { pullersOf } from '../plans/plans.ts';
import { blockedPlan, blockOf, soldPlan } from '../plans/selling.ts';
import { isOfAccount } from './ended.ts';
import { endedByMerchant, signupUnderWay } from './registration.ts';

interface Parts {
  sql: Queryable;
  chain: ChainReader;
  network: BillingAddresses;
}

/** How a wallet subscribes to a plan, and the accounts from which its transaction is built. */
export interface Opening {
  readonly wallet: string;
  readonly plan: PlanRow;
  /** The subscription that a change of plan replaces. */
  readonly replaced: Replaced | undefined;
  readonly subscriptionPda: string;
  /** Whether subscribing resumes a cancelled account. */
  readonly resumes: boolean;
  readonly view: PlanView;
}

/**
 * Reads the wallet's accounts for a plan, and whether subscribing resumes an account. Throws
 * CONFLICT when (1) the plan takes no subscriptions, (2) the wallet is frozen or already
 * subscribed, (3) the merchant has ended the wallet's subscription, (4) the account would be
 * resumed while a sponsored sign-up of it is not settled, whose terms would apply. Throws
 * INTERNAL_ERROR when the chain is unreachable.
 */
export async function readOpening(
  { sql, chain, network }: Parts,
  plan: PlanRow,
  wallet: string,
  replaced?: Replaced,
): Promise<Opening> {
  const names = { programId: network.programId, mint: plan.mint };
  const read = await reaching(readWalletView(chain, names, { wallet, plan, replaced }));
  const keepers = pullersOf(network);
  const sold = soldPlan(plan, wallet, keepers, read);
  if (sold instanceof ServiceError) throw sold;
  const view = { ...read, plan: sold };
  const subscriptionPda = subscriptionAddress(network.programId, plan.planPda, wallet).address;
  const { subscription: previous, now } = view;
  const resumes = previous !== null && isRunning(previous, now);
  if (resumes && (await isSignupOpen(sql, subscriptionPda))) throw signupUnderWay();
  if (resumes)
    await checkResumable(
      sql,
      { plan: sold, subscriptionPda, isChange: replaced !== undefined },
      {
        ...view,
        subscription: previous,
      },
    );
  const blocked = blockOf(plan, keepers, view);
  if (blocked !== null) throw blockedPlan(blocked);
  if (view.subscriberTokens?.state === 'frozen') throw obstacleError('frozen');
  return { wallet, plan, replaced, subscriptionPda, resumes, view };
}

/**
 * Reads how the wallet resumes the account of an ended registration. Throws as readOpening does.
 * Also throws CONFLICT when the account has ended.
 */
export async function readReopening(parts: Parts, plan: PlanRow, wallet: string): Promise<Opening> {
  const opening = await readOpening(parts, plan, wallet);
  if (!opening.resumes)
    throw new ServiceError('CONFLICT', 'The subscription has ended on chain: subscribe again.');
  return opening;
}

const subscribed = (next: string) =>
  new ServiceError(
    'CONFLICT',
    `This wallet has a subscription to the plan on chain already: ${next}.`,
  );

/**
 * Throws CONFLICT if the account's registration forbids a resume: it is live, or the merchant has
 * force-cancelled it. `earlier` is the newest registration of the address. In a change of plan, the
 * registration may be live if another change of plan has replaced it.
 */
export function refuseRegistered(
  earlier: EarlierRegistration | undefined,
  account: SubscriptionAccount,
  { isChange }: { isChange: boolean },
): void {
  if (earlier === undefined || !isOfAccount(earlier, account)) return;
  const registered = 'it is registered, and GET /subscriber/subscriptions lists it';
  const isLive = earlier.status === 'active' || earlier.status === 'past_due';
  if (isLive && !(isChange && earlier.replacedBy !== null))
    throw subscribed(account.expiresAt === 0n ? registered : 'resume it, or wait for its end');
  if (earlier.isBarred) throw endedByMerchant();
}

/**
 * Throws CONFLICT unless the account can be resumed. The account must be cancelled, with the plan's
 * terms and the wallet's authority, and its registration must allow it (refuseRegistered).
 */
async function checkResumable(
  sql: Queryable,
  {
    plan: { amount, periodHours, createdAt },
    subscriptionPda,
    isChange,
  }: { plan: PlanAccount; subscriptionPda: string; isChange: boolean },
  { subscription: account, authority }: WalletView & { subscription: SubscriptionAccount },
): Promise<void> {
  refuseRegistered(await findNewestRegistration(sql, subscriptionPda), account, { isChange });
  const unregistered =
    'register it with POST /subscriber/subscriptions, unless GET /subscriber/subscriptions lists it';
  if (account.expiresAt === 0n) throw subscribed(unregistered);
  const end = timeOf(account.expiresAt).toISOString();
  if (
    account.amount !== amount ||
    account.periodHours !== periodHours ||
    account.planCreatedAt !== createdAt
  )
    throw subscribed(`it has other terms than the plan: wait for its end, ${end}`);
  if (authority?.initId !== account.initId)
    throw subscribed(`its authority was closed, so it cannot be resumed: wait for its end, ${end}`);
}
