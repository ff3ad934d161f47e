// Registration checks the chain (decisions.md): what is stored is a live on-chain subscription of this wallet to this plan, on these terms.
import { planIn, subscriptionIn } from '../chain/accounts.ts';
import { subscriptionAddress } from '../chain/addresses.ts';
import { ChainDataError, type PlanAccount, type SubscriptionAccount } from '../chain/layouts.ts';
import { findApp } from '../db/apps.ts';
import type { Sql, Transaction } from '../db/connect.ts';
import { findPlan, type PlanRow } from '../db/plans.ts';
import { insertRegistration, type NewRegistration } from '../db/registrations.ts';
import { isDuplicate } from '../db/violations.ts';
import { ServiceError } from '../errors.ts';
import { appendEvents } from './events.ts';
import { type ChainReader, type Network, readAccounts, timeOf, unixSeconds } from './network.ts';
import { observePlan, planFaults } from './plans.ts';

export interface RegistrationRequest {
  appId: string;
  planId: string;
  subscriptionPda: string;
  /** The caller's. */
  wallet: string;
}

/**
 * Looks at the chain and returns what may be stored. Throws NOT_FOUND (app, plan, or no account), FORBIDDEN (another wallet's subscription),
 * VALIDATION_ERROR (everything else about it), INTERNAL_ERROR when the chain is out of reach.
 */
export async function checkRegistration(
  sql: Sql,
  chain: ChainReader,
  network: Network,
  request: RegistrationRequest,
): Promise<NewRegistration> {
  if ((await findApp(sql, request.appId)) === undefined) throw new ServiceError('NOT_FOUND', `There is no app ${request.appId}.`);
  const found = await findPlan(sql, request.planId);
  if (found === undefined) throw new ServiceError('NOT_FOUND', `There is no plan ${request.planId}.`);
  if (found.appId !== request.appId) throw invalid('planId', 'is a plan of another app');
  const plan = await observePlan(sql, chain, network, found);
  const { accounts, slot, now } = await readAccounts(chain, [request.subscriptionPda, plan.planPda]);
  const [subscription = null, onChain = null] = accounts;
  judgeRegistration(request, plan, network, {
    subscription: decoding(() => subscriptionIn(subscription, network.programId)),
    plan: decoding(() => planIn(onChain, network.programId)),
    now,
  });
  return {
    planId: plan.id,
    subscriptionPda: request.subscriptionPda,
    subscriberWallet: request.wallet,
    dueAt: timeOf(now),
    observedSlot: slot,
  };
}

/** The rules over what was read; `now` is chain time in Unix seconds. Throws as `checkRegistration` does. */
function judgeRegistration(
  { wallet, subscriptionPda }: Pick<RegistrationRequest, 'wallet' | 'subscriptionPda'>,
  plan: PlanRow,
  network: Network,
  seen: { subscription: SubscriptionAccount | null; plan: PlanAccount | null; now: bigint },
): void {
  const { subscription } = seen;
  if (subscription === null) throw new ServiceError('NOT_FOUND', `There is no subscription at ${subscriptionPda} on chain.`);
  if (subscription.subscriber !== wallet) throw new ServiceError('FORBIDDEN', 'This subscription belongs to another wallet.');
  if (subscriptionPda !== subscriptionAddress(network.programId, plan.planPda, wallet).address || subscription.plan !== plan.planPda) {
    throw invalid('subscriptionPda', 'is not the address of your subscription to this plan');
  }
  if (plan.status !== 'active') {
    const why = { pending: 'is not published on chain yet', sunset: 'takes no new subscriptions', ended: 'has ended' }[plan.status];
    throw invalid('planId', why);
  }
  if (seen.plan === null || planFaults(plan, seen.plan, plan).length > 0)
    throw invalid('planId', 'is not on chain with its terms any more');
  if (seen.plan.endTs !== 0n && seen.now > seen.plan.endTs) throw invalid('planId', 'has ended');
  const sameTerms =
    subscription.amount === plan.amount &&
    subscription.periodHours === BigInt(plan.periodHours) &&
    plan.chainCreatedAt !== null &&
    subscription.planCreatedAt === unixSeconds(plan.chainCreatedAt);
  if (!sameTerms) throw invalid('subscriptionPda', 'has other terms than the plan');
  if (subscription.expiresAt !== 0n) throw invalid('subscriptionPda', 'is cancelled on chain');
}

/** Stores it with its event, in the caller's transaction. Throws CONFLICT while the address is registered. Returns its id. */
export async function storeRegistration(sql: Transaction, registration: NewRegistration): Promise<string> {
  try {
    const id = await insertRegistration(sql, registration);
    if (id === undefined) throw invalid('planId', 'takes no new subscriptions');
    await appendEvents(sql, [{ subscriptionId: id, type: 'subscription_created' }]);
    return id;
  } catch (error) {
    if (isDuplicate(error, 'one_live_registration_per_pda')) throw new ServiceError('CONFLICT', 'This subscription is registered already.');
    throw error;
  }
}

function decoding<T>(decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    if (error instanceof ChainDataError) throw invalid('subscriptionPda', `is not a subscription: ${error.message}`);
    throw error;
  }
}

function invalid(path: string, message: string): ServiceError {
  return new ServiceError('VALIDATION_ERROR', `${path} ${message}.`, [{ path, message }]);
}
