// Registration stores a subscription. The chain must show a live subscription of this wallet to
// this plan, with the plan's terms.
import { planIn, subscriptionIn } from '../../chain/program/accounts.ts';
import { subscriptionAddress } from '../../chain/program/addresses.ts';
import {
  ChainDataError,
  type PlanAccount,
  type SubscriptionAccount,
} from '../../chain/program/layouts.ts';
import { pullPeriod } from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { findApp } from '../../db/apps.ts';
import { completeCheckoutSession } from '../../db/checkout-sessions.ts';
import { findPlan, type PlanRow } from '../../db/plans.ts';
import type { Sql, Transaction } from '../../db/postgres/connect.ts';
import { isDuplicate } from '../../db/postgres/outage.ts';
import type { DiscountTerms, OwnIds } from '../../db/subscription-changes.ts';
import {
  type EarlierRegistration,
  endReplacedRegistration,
  findNewestRegistration,
  insertRegistration,
  type NewRegistration,
} from '../../db/subscriptions.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { lockSuspended } from '../accounts/suspended.ts';
import { appendEvents } from '../outbox/events.ts';
import { type ChainReader, type Network, readAccounts } from './chain-reads.ts';
import { openCheckoutSession, refusedCheckout } from './checkout.ts';
import { observePlan, partiesOf, planFaults } from './plans.ts';

/** The message when a merchant's wallet subscribes to its own plan. */
export const OWN_PLAN_FAULT =
  'is a plan of this wallet: a merchant cannot subscribe to its own plan';

export interface RegistrationRequest {
  appId: string;
  planId: string;
  subscriptionPda: string;
  /** The caller's wallet. */
  wallet: string;
  externalId?: string | undefined;
  metadata?: Readonly<Record<string, string>> | undefined;
  /**
   * The checkout session in which the wallet subscribed. The session provides externalId, metadata
   * and discount.
   */
  checkoutSessionId?: string | undefined;
}

/**
 * Checks the request against the chain and returns the registration to store. Throws NOT_FOUND for
 * a missing app, plan or account, FORBIDDEN for another wallet's subscription, VALIDATION_ERROR for
 * any other mismatch, and INTERNAL_ERROR when the chain is unreachable.
 */
export async function checkRegistration(
  sql: Sql,
  chain: ChainReader,
  network: Network,
  request: RegistrationRequest,
): Promise<NewRegistration & { checkoutSessionId?: string }> {
  const app = await findApp(sql, request.appId);
  if (app === undefined) throw new ServiceError('NOT_FOUND', `There is no app ${request.appId}.`);
  const found = await findPlan(sql, request.planId);
  if (found === undefined)
    throw new ServiceError('NOT_FOUND', `There is no plan ${request.planId}.`);
  if (found.appId !== app.id) throw invalidField('planId', 'is a plan of another app');
  const plan = await observePlan(sql, chain, network, found);
  const ownIds = await ownIdsOf(sql, request);
  const { accounts, slot, now } = await readAccounts(chain, [
    request.subscriptionPda,
    plan.planPda,
  ]);
  const [subscription = null, onChain = null] = accounts;
  const onChainPlan = decoding(() => planIn(onChain, network.programId));
  const account = judgeRegistration(request, plan, network, {
    subscription: decoding(() => subscriptionIn(subscription, network.programId)),
    plan: onChainPlan,
    now,
  });
  return {
    planId: plan.id,
    subscriptionPda: request.subscriptionPda,
    subscriberWallet: request.wallet,
    dueAt: timeOf(now),
    trialFrom: timeOf(pullPeriod(account, onChainPlan, now).start),
    observedSlot: slot,
    initId: account.initId,
    periodStart: timeOf(account.periodStart),
    ...ownIds,
  };
}

/**
 * Returns externalId and metadata from the request, or externalId, metadata and discount from the
 * checkout session. Throws as openCheckoutSession does.
 */
async function ownIdsOf(
  sql: Sql,
  { checkoutSessionId, planId, wallet, externalId, metadata }: RegistrationRequest,
): Promise<OwnIds & Partial<DiscountTerms> & { checkoutSessionId?: string }> {
  if (checkoutSessionId === undefined) return { externalId, metadata };
  if (externalId !== undefined || metadata !== undefined)
    throw invalidField('checkoutSessionId', 'gives externalId and metadata: leave them out');
  const session = await openCheckoutSession(sql, checkoutSessionId, { planId, wallet });
  const { externalId: customer, discountPercent, discountAmount, discountPeriods } = session;
  return {
    checkoutSessionId,
    externalId: customer,
    metadata: JSON.parse(session.metadata) as Record<string, string>,
    discountPercent,
    discountAmount,
    discountPeriods,
  };
}

/**
 * Validates the accounts and returns the subscription account. `seen.now` is chain time in Unix
 * seconds. Throws as `checkRegistration` does.
 */
function judgeRegistration(
  { wallet, subscriptionPda }: Pick<RegistrationRequest, 'wallet' | 'subscriptionPda'>,
  plan: PlanRow,
  network: Network,
  seen: { subscription: SubscriptionAccount | null; plan: PlanAccount | null; now: bigint },
): SubscriptionAccount {
  const { subscription } = seen;
  if (subscription === null)
    throw new ServiceError('NOT_FOUND', `There is no subscription at ${subscriptionPda} on chain.`);
  if (subscription.subscriber !== wallet)
    throw new ServiceError('FORBIDDEN', 'This subscription belongs to another wallet.');
  if (
    subscriptionPda !== subscriptionAddress(network.programId, plan.planPda, wallet).address ||
    subscription.plan !== plan.planPda
  ) {
    throw invalidField('subscriptionPda', 'is not the address of your subscription to this plan');
  }
  if (wallet === plan.owner) throw invalidField('planId', OWN_PLAN_FAULT);
  if (plan.status !== 'active') {
    const why = {
      pending: 'is not published on chain yet',
      sunset: 'takes no new subscriptions',
      ended: 'has ended',
    }[plan.status];
    throw invalidField('planId', why);
  }
  if (seen.plan === null || planFaults(plan, seen.plan, partiesOf(plan, network)).length > 0)
    throw invalidField('planId', 'is not on chain with its terms any more');
  if (seen.plan.endTs !== 0n && seen.now >= seen.plan.endTs)
    throw invalidField('planId', 'has ended');
  const sameTerms =
    subscription.amount === plan.amount &&
    subscription.periodHours === BigInt(plan.periodHours) &&
    plan.chainCreatedAt !== null &&
    subscription.planCreatedAt === unixSeconds(plan.chainCreatedAt);
  if (!sameTerms) throw invalidField('subscriptionPda', 'has other terms than the plan');
  if (subscription.expiresAt !== 0n) throw invalidField('subscriptionPda', 'is cancelled on chain');
  return subscription;
}

/**
 * Stores a registration with its event in the caller's transaction and returns its id. If an
 * earlier account at the same address has a live registration, that one ends. Throws CONFLICT when
 * this account is already registered, or when the merchant has force-cancelled its registration,
 * and FORBIDDEN when the wallet or the merchant is suspended.
 */
export async function storeRegistration(
  sql: Transaction,
  registration: NewRegistration & { checkoutSessionId?: string },
): Promise<string> {
  const { subscriberWallet, planId } = registration;
  await lockSuspended(sql, { wallet: subscriberWallet, planId });
  await endEarlierRegistration(sql, registration);
  try {
    const id = await insertRegistration(sql, registration);
    if (id === undefined) throw invalidField('planId', 'takes no new subscriptions');
    const { checkoutSessionId } = registration;
    if (checkoutSessionId !== undefined) {
      const given = { wallet: subscriberWallet, subscriptionId: id };
      if (!(await completeCheckoutSession(sql, checkoutSessionId, given))) throw refusedCheckout();
    }
    await appendEvents(sql, [{ subscriptionId: id, type: 'subscription_created' }]);
    return id;
  } catch (error) {
    if (isDuplicate(error, 'one_live_registration_per_pda')) throw registered();
    throw error;
  }
}

async function endEarlierRegistration(
  sql: Transaction,
  registration: NewRegistration,
): Promise<void> {
  const earlier = await findNewestRegistration(sql, registration.subscriptionPda);
  if (earlier === undefined) return;
  const open = earlier.status === 'active' || earlier.status === 'past_due';
  if (isSameAccount(earlier, registration)) {
    if (open) throw registered();
    if (earlier.endReason === 'forced')
      throw new ServiceError(
        'CONFLICT',
        'The merchant has cancelled this subscription: close it on chain and subscribe again.',
      );
    return;
  }
  const ended = open ? await endReplacedRegistration(sql, earlier.id) : undefined;
  if (ended === undefined) return;
  const { cancelledAt } = ended;
  const extra = { cancelledAt, accountClosed: true, endReason: 'resubscribed' };
  await appendEvents(sql, [{ subscriptionId: earlier.id, type: 'cancel_finalized', extra }]);
}

/**
 * Whether both registrations are of the same on-chain account: it has the same init_id and the same
 * period boundaries.
 */
function isSameAccount(earlier: EarlierRegistration, now: NewRegistration): boolean {
  const { chainInitId, chainPeriodStart, periodHours } = earlier;
  if (chainInitId === null || chainPeriodStart === null) return true;
  const apart = unixSeconds(now.periodStart) - unixSeconds(chainPeriodStart);
  return chainInitId === now.initId && apart % (BigInt(periodHours) * 3600n) === 0n;
}

function registered(): ServiceError {
  return new ServiceError('CONFLICT', 'This subscription is registered already.');
}

function decoding<T>(decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    if (error instanceof ChainDataError)
      throw invalidField('subscriptionPda', `is not a subscription: ${error.message}`);
    throw error;
  }
}
