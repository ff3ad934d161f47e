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
import { type AppRow, findApp } from '../../db/apps.ts';
import { completeCheckoutSession } from '../../db/checkout-sessions.ts';
import { lockCustomer } from '../../db/customers.ts';
import { findPlan, type PlanRow } from '../../db/plans.ts';
import type { Sql, Transaction } from '../../db/postgres/connect.ts';
import { isDuplicate } from '../../db/postgres/outage.ts';
import { isSignupOpen } from '../../db/sponsorships.ts';
import { updateOwnIds } from '../../db/subscription-changes.ts';
import {
  claimRegistration,
  type EarlierRegistration,
  endRefundedAccess,
  endReplacedRegistration,
  findNewestRegistration,
  insertRegistration,
  isUnclaimed,
  lockRegistrations,
  type NewRegistration,
} from '../../db/subscriptions.ts';
import { deleteUnregistered, endOffers } from '../../db/unregistered.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { lockSuspended } from '../accounts/suspended.ts';
import { appendEvents } from '../outbox/events.ts';
import { type ChainReader, type Network, readAccounts } from './chain-reads.ts';
import { startOfCharge } from './charge-start.ts';
import { checkoutSessionOf, openCheckoutSession, refusedCheckout } from './checkout.ts';
import { isSameAccount, offersCountAfter } from './ended.ts';
import { keptIds, offeredChange, type OfferedChange } from './offered-change.ts';
import { noteDuplicate } from './one-per-customer.ts';
import { type PlanChange, storeTakenOver, take, takenFields, takeOver } from './plan-credit.ts';
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
   * The checkout session in which the wallet subscribed. The session provides externalId, metadata,
   * discount and trial.
   */
  checkoutSessionId?: string | undefined;
  /**
   * The change of plan that the landed transaction makes; null for none. If undefined, the change
   * is looked up in the offers to the wallet.
   */
  change?: OfferedChange | null | undefined;
}

/** A checked registration, and the checkout session that it completes. */
export type RegistrationToStore = NewRegistration & {
  appId: string;
  checkoutSessionId?: string;
  allowSecond?: boolean;
  change?: PlanChange | undefined;
};

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
): Promise<RegistrationToStore> {
  const app = await findApp(sql, request.appId);
  if (app === undefined) throw new ServiceError('NOT_FOUND', `There is no app ${request.appId}.`);
  const found = await findPlan(sql, request.planId);
  if (found === undefined)
    throw new ServiceError('NOT_FOUND', `There is no plan ${request.planId}.`);
  if (found.appId !== app.id) throw invalidField('planId', 'is a plan of another app');
  const plan = await observePlan(sql, chain, network, found);
  const offered = await offeredChange(sql, request);
  const ownIds = await ownIdsOf(sql, app, request);
  const { accounts, slot, now } = await readAccounts(chain, [
    request.subscriptionPda,
    plan.planPda,
    ...(offered === undefined ? [] : [offered.row.subscriptionPda]),
  ]);
  const [subscription = null, onChain = null, replaced = null] = accounts;
  const onChainPlan = decoding(() => planIn(onChain, network.programId));
  const account = judgeRegistration(request, plan, network, {
    subscription: decoding(() => subscriptionIn(subscription, network.programId)),
    plan: onChainPlan,
    now,
  });
  const period = pullPeriod(account, onChainPlan, now);
  const earlier = await findNewestRegistration(sql, request.subscriptionPda);
  const isRenewed = earlier !== undefined && isSameAccount(earlier, account);
  const offersAfter = offersCountAfter(earlier, account);
  const chargedFrom = await startOfCharge(
    { sql, chain, network },
    { account, period, now, isRenewed, offersAfter },
  );
  const registration = {
    appId: app.id,
    planId: plan.id,
    subscriptionPda: request.subscriptionPda,
    subscriberWallet: request.wallet,
    dueAt: timeOf(now),
    trialFrom: timeOf(period.start),
    chargedFrom,
    observedSlot: slot,
    initId: account.initId,
    periodStart: timeOf(account.periodStart),
    ...ownIds,
  };
  const isStopped = decoding(() => subscriptionIn(replaced, network.programId))?.expiresAt !== 0n;
  if (offered === undefined || !isStopped) return registration;
  const { row, when } = offered;
  const at = chargedFrom === null ? period.start : unixSeconds(chargedFrom);
  const change = { id: row.id, when, at };
  const kept = keptIds(row, ownIds);
  return { ...registration, ...kept, trialFrom: null, allowSecond: true, change };
}

/**
 * If the request names a checkout session, returns the session's externalId, metadata, discount and
 * trial. Otherwise returns externalId and metadata from the request. Throws as openCheckoutSession
 * does.
 */
async function ownIdsOf(
  sql: Sql,
  app: AppRow,
  { checkoutSessionId, planId, wallet, subscriptionPda, externalId, metadata }: RegistrationRequest,
): Promise<Partial<RegistrationToStore>> {
  if (checkoutSessionId === undefined) {
    const path = externalId === undefined ? 'metadata' : 'externalId';
    if (externalId === undefined && metadata === undefined) return {};
    if (!app.ownIdsBySubscriber)
      throw invalidField(path, 'is set by the merchant of this app: leave it out');
    return { externalId, metadata, ownIdsFrom: 'subscriber' };
  }
  if (externalId !== undefined || metadata !== undefined)
    throw invalidField('checkoutSessionId', 'gives externalId and metadata: leave them out');
  const done = await checkoutSessionOf(sql, checkoutSessionId, planId);
  // A keeper may already have registered this subscription with the session's ids and completed the
  // session. Nothing more is then taken from the session.
  if (
    done.subscriptionId !== null &&
    (await isUnclaimed(sql, done.subscriptionId, subscriptionPda))
  )
    return {};
  const session = await openCheckoutSession(sql, checkoutSessionId, { planId, wallet });
  const { externalId: customer, trialHours } = session;
  const { discountPercent, discountAmount, discountPeriods } = session;
  return {
    checkoutSessionId,
    externalId: customer,
    metadata: JSON.parse(session.metadata) as Record<string, string>,
    ownIdsFrom: customer === null && session.metadata === '{}' ? null : 'checkout',
    allowSecond: session.allowSecond,
    discountPercent,
    discountAmount,
    discountPeriods,
    trialHours,
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
 * Stores a registration with its event in the caller's transaction and returns the registration's
 * id. Ends the registration of an earlier account at the address. If a keeper has registered this
 * account and the wallet has not, returns the id of the keeper's registration. Throws CONFLICT when
 * the wallet has registered the account or the merchant has force-cancelled it, and FORBIDDEN when
 * wallet or merchant is suspended.
 */
export async function storeRegistration(
  sql: Transaction,
  registration: RegistrationToStore,
): Promise<string> {
  const { subscriberWallet, planId, subscriptionPda, hasLanded = false } = registration;
  const { appId, externalId = null } = registration;
  // Two registrations of a customer would else both get a trial, or miss each other as duplicates.
  // The customer is locked before the checkout session's row, as takeOffer() does.
  if (externalId !== null) await lockCustomer(sql, { appId, externalId });
  if (!hasLanded) {
    await lockSuspended(sql, { wallet: subscriberWallet, planId });
    if (await isSignupOpen(sql, subscriptionPda)) throw signupUnderWay();
  }
  const claimed = await endEarlierRegistration(sql, registration);
  if (claimed !== undefined) return claimed;
  try {
    const { change } = registration;
    const taken = change === undefined ? undefined : await takeOver(sql, change);
    const takes = await take(sql, registration, taken);
    const id = await insertRegistration(sql, { ...registration, takes });
    if (id === undefined) throw invalidField('planId', 'takes no new subscriptions');
    if (change !== undefined && taken !== undefined) await storeTakenOver(sql, change, taken, id);
    await completeSession(sql, registration, id);
    await endOffers(sql, registration.subscriptionPda);
    await deleteUnregistered(sql, [registration.subscriptionPda]);
    const { allowSecond = false } = registration;
    const duplicateOf = await noteDuplicate(sql, id, { appId, externalId, allowSecond });
    const extra = { ...(duplicateOf !== null && { duplicateOf }), ...takenFields(takes) };
    await appendEvents(sql, [{ subscriptionId: id, type: 'subscription_created', extra }]);
    return id;
  } catch (error) {
    if (isDuplicate(error, 'one_live_registration_per_pda')) throw registered();
    throw error;
  }
}

async function completeSession(
  sql: Transaction,
  { checkoutSessionId, subscriberWallet: wallet, hasLanded }: RegistrationToStore,
  subscriptionId: string,
): Promise<void> {
  if (checkoutSessionId === undefined) return;
  const given = { wallet, subscriptionId };
  if (!(await completeCheckoutSession(sql, checkoutSessionId, given)) && hasLanded !== true)
    throw refusedCheckout();
}

/**
 * Marks a keeper's registration as claimed by its wallet, and stores the ids from the wallet's
 * request or its checkout session.
 */
async function claim(sql: Transaction, id: string, given: RegistrationToStore): Promise<void> {
  if (given.isUnclaimed === true || !(await claimRegistration(sql, id))) throw registered();
  await completeSession(sql, given, id);
  const { externalId, metadata } = given;
  if (externalId !== undefined || metadata !== undefined)
    await updateOwnIds(sql, id, { externalId, metadata }, given.ownIdsFrom ?? 'subscriber');
  const { appId, allowSecond = false } = given;
  await noteDuplicate(sql, id, { appId, externalId: externalId ?? null, allowSecond });
}

/**
 * Ends the registration of an earlier account at the address. If a keeper has registered this
 * account, claims the keeper's registration for the wallet and returns its id.
 */
async function endEarlierRegistration(
  sql: Transaction,
  registration: RegistrationToStore,
): Promise<string | undefined> {
  // The wallet and a keeper may register the same account at the same time. The lock makes the
  // later registration find the earlier one.
  await lockRegistrations(sql, registration.subscriptionPda);
  const earlier = await findNewestRegistration(sql, registration.subscriptionPda, {
    forUpdate: true,
  });
  if (earlier === undefined) return undefined;
  const open = earlier.status === 'active' || earlier.status === 'past_due';
  const { initId, isUnclaimed = false, renews } = registration;
  const periodStart = unixSeconds(registration.periodStart);
  if (isSameAccount(earlier, { initId, periodStart })) {
    const isStopped = earlier.stoppedAt !== null;
    if (isStopped && isUnclaimed && renews !== earlier.id) throw onlyByItsWallet();
    if (open && earlier.replacedBy !== null) {
      await endReplaced(sql, earlier, 'replaced');
      return undefined;
    }
    if (open && registration.hasLanded === true) return earlier.id;
    if (open) {
      await claim(sql, earlier.id, registration);
      return earlier.id;
    }
    if (earlier.isBarred && registration.hasLanded !== true) throw endedByMerchant();
    await endRefundedAccess(sql, earlier.id);
    return undefined;
  }
  if (open)
    await endReplaced(sql, earlier, earlier.replacedBy === null ? 'resubscribed' : 'replaced');
  return undefined;
}

/**
 * Ends the earlier registration of an address. `resubscribed`: the account was closed and a new
 * account was opened. `replaced`: a change of plan had replaced the registration, and the account
 * stays open.
 */
async function endReplaced(
  sql: Transaction,
  { id: subscriptionId, replacedBy }: EarlierRegistration,
  endReason: 'resubscribed' | 'replaced',
): Promise<void> {
  const ended = await endReplacedRegistration(sql, subscriptionId, endReason);
  if (ended === undefined) return;
  const { cancelledAt, credit } = ended;
  const accountClosed = endReason === 'resubscribed';
  const by = replacedBy === null ? {} : { replacedBy };
  const left = credit > 0n ? { credit } : {};
  const extra = { cancelledAt, accountClosed, endReason, ...by, ...left };
  await appendEvents(sql, [{ subscriptionId, type: 'cancel_finalized', extra }]);
}

/**
 * The error when the merchant has force-cancelled the registration and has not lifted the
 * force-cancel.
 */
export function endedByMerchant(): ServiceError {
  return new ServiceError(
    'CONFLICT',
    'The merchant has cancelled this subscription: close it on chain and subscribe again.',
  );
}

/** The error when a registration has ended, and only its wallet may register the account again. */
function onlyByItsWallet(): ServiceError {
  return new ServiceError(
    'CONFLICT',
    'The subscription of this account has ended: its wallet has to subscribe again.',
  );
}

function signupUnderWay(): ServiceError {
  return new ServiceError(
    'CONFLICT',
    'A sponsored transaction opens this subscription: it is registered with its payment.',
  );
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
