// Registration stores a subscription. The chain must show a live subscription of this wallet to
// this plan, with the plan's terms.
import { planIn, subscriptionIn } from '../../chain/program/accounts.ts';
import { ChainDataError } from '../../chain/program/layouts.ts';
import { pullPeriod } from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { findApp } from '../../db/accounts/apps.ts';
import { readCreditOf } from '../../db/invoices/credits.ts';
import type { OpenOffer } from '../../db/offers/open-offers.ts';
import { isSignupOpen } from '../../db/offers/sponsorships.ts';
import type { Sql, Transaction } from '../../db/postgres/connect.ts';
import { isDuplicate } from '../../db/postgres/outage.ts';
import {
  type EarlierRegistration,
  endReplacedRegistration,
  findNewestRegistration,
} from '../../db/subscriptions/account-registrations.ts';
import { lockCustomer } from '../../db/subscriptions/customers.ts';
import type { ReplacedRow } from '../../db/subscriptions/plan-changes.ts';
import { findPlan, type PlanRow } from '../../db/subscriptions/plans.ts';
import { endRefundedAccess } from '../../db/subscriptions/refunded.ts';
import { insertRegistration, lockRegistrations } from '../../db/subscriptions/subscriptions.ts';
import { deleteUnregistered, endOffers } from '../../db/subscriptions/unregistered.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { lockSuspended } from '../accounts/suspended.ts';
import { type ChainReader, type BillingAddresses, readAccounts } from '../chain-reads.ts';
import { appendEvents } from '../outbox/events.ts';
import { observePlan } from '../plans/plans.ts';
import { refuseExpired } from './checkout.ts';
import { claim, completeSession, registered, type RegistrationToStore } from './claiming.ts';
import { isAskedBefore, isJudged, isOfAccount, offersCountAfter, isStillValid } from './ended.ts';
import { dueAtOnce } from './first-payment.ts';
import { judgeRegistration, refuseClosed } from './judged-account.ts';
import { keptIds } from './kept-ids.ts';
import { noteDuplicate } from './one-per-customer.ts';
import { ownTermsOf, takenTerms } from './own-terms.ts';
import { readTaken, storeTakenOver, takenFields, takeOver } from './plan-credit.ts';
import {
  accountsOf,
  readReplacedBy,
  readUsableOffers,
  registrationTerms,
} from './registration-terms.ts';
import { isTrialShown, refuseUsedTrial } from './shown-trial.ts';

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
  /** The offer that the wallet's page names. */
  offerId?: string | undefined;
  /**
   * The offer and the signature of the transaction that the relay has seen land. The transaction
   * decides only if it is the newest one that opened or resumed the account.
   */
  relayed?: { readonly offerId: string; readonly signature: string };
  /** The open offers at the address, if the caller has read them (readOpenOffers). */
  offers?: readonly OpenOffer[];
  /** Whether a keeper or an operator registers the account, and not its wallet. */
  isKeepers?: boolean;
  /** PLAN_MINIMUM_AMOUNT, for comparing the first payments of offers. */
  minimum?: bigint;
}

/** A checked registration, and the source of its terms. */
export type CheckedRegistration = RegistrationToStore & {
  /**
   * The amount in base units that is due at once if neither an offer nor a checkout session fits
   * the account; else null.
   */
  dueWithoutOffer: bigint | null;
};

/**
 * Checks the request against the chain and returns the registration to store. Throws NOT_FOUND for
 * a missing app, plan or account, FORBIDDEN for another wallet's subscription, VALIDATION_ERROR for
 * any other mismatch, CONFLICT for terms that the chain does not show to have landed, and
 * INTERNAL_ERROR when the chain is unreachable.
 */
export async function checkRegistration(
  sql: Sql,
  chain: ChainReader,
  network: BillingAddresses,
  request: RegistrationRequest,
): Promise<CheckedRegistration> {
  const { subscriptionPda, wallet, isKeepers = false, minimum = 0n } = request;
  const app = await findApp(sql, request.appId);
  if (app === undefined) throw new ServiceError('NOT_FOUND', `There is no app ${request.appId}.`);
  const found = await findPlan(sql, request.planId);
  if (found === undefined)
    throw new ServiceError('NOT_FOUND', `There is no plan ${request.planId}.`);
  if (found.appId !== app.id) throw invalidField('planId', 'is a plan of another app');
  const plan = await observePlan(sql, chain, network, found);
  const sessionTerms = await ownTermsOf(sql, app, request);
  const { session } = sessionTerms;
  const offersAfter = async (after: Date | null) =>
    request.offers ?? readUsableOffers(sql, { wallet, subscriptionPda, after });
  const open = await offersAfter(null);
  const replaced = await readReplacedBy(sql, open);
  const isRelayed = request.relayed !== undefined;
  const seen = await readLive(chain, network, plan, request, {
    replaced,
    isOffered: isRelayed || open.some(({ replaces }) => replaces !== null),
  });
  const { account, period, slot, now } = seen;
  const earlier = await findNewestRegistration(sql, subscriptionPda);
  const isSame = earlier !== undefined && isOfAccount(earlier, account);
  const after = offersCountAfter(earlier, account);
  const offers = await offersAfter(after);
  if (!isSame || !isOpen(earlier)) checkNamed(request, offers);
  const { live, terms, offer } = await registrationTerms(
    { sql, chain, network },
    { plan, subscriptionPda, account, period, now, isRenewed: isSame, offersAfter: after, minimum },
    { offers, replaced: seen.replaced, isKeepers },
    { session, offerId: request.offerId, relayed: request.relayed?.signature },
  );
  const isOffered = isRelayed || (offer?.replaces ?? null) !== null;
  refuseClosed(plan, { isOffered });
  const isSessionOffered = (offer?.checkoutSessionId ?? null) !== null;
  if (session !== undefined && !isSessionOffered) refuseExpired(session);
  const taken = await takenTerms(sql, sessionTerms, offer, { planId: plan.id, wallet });
  const { billedFrom, landedAt: at } = live;
  const registration = {
    appId: app.id,
    planId: plan.id,
    subscriptionPda,
    subscriberWallet: wallet,
    dueAt: timeOf(now),
    trialFrom: timeOf(period.start),
    billedFrom,
    observedSlot: slot,
    initId: account.initId,
    periodStart: timeOf(account.periodStart),
    ...taken,
    trialHours: terms.trialHours,
    isTrialShown: isTrialShown(request, offer),
    isSessionOffered,
    isOffered,
    dueWithoutOffer: (offer ?? session) ? null : await dueAtOnce(sql, live, terms),
  };
  const { replaces: id = null, changeWhen: when = null } = offer ?? {};
  const row = id === null ? undefined : replaced.get(id);
  if (row === undefined || when === null) return registration;
  const change = { id: row.id, when, at, offeredAt: offer?.offeredAt ?? null };
  const ids = keptIds(row, taken);
  return { ...registration, ...ids, change };
}

/**
 * Reads and checks the account, and reads the accounts of the replaced subscriptions. Throws as
 * `checkRegistration` does.
 */
async function readLive(
  chain: ChainReader,
  network: BillingAddresses,
  plan: PlanRow,
  request: RegistrationRequest,
  { replaced, isOffered }: { replaced: ReadonlyMap<string, ReplacedRow>; isOffered: boolean },
) {
  const { accounts, slot, now } = await readAccounts(chain, [
    request.subscriptionPda,
    plan.planPda,
    ...[...replaced.values()].map((row) => row.subscriptionPda),
  ]);
  const decoded = (index: number) =>
    decoding(() => subscriptionIn(accounts[index] ?? null, network.programId));
  const onPlan = decoding(() => planIn(accounts[1] ?? null, network.programId));
  const onChain = { subscription: decoded(0), plan: onPlan, now, isOffered };
  const account = judgeRegistration(request, plan, network, onChain);
  const period = pullPeriod(account, onPlan, now);
  const runs = (index: number) => decoded(index + 2)?.expiresAt === 0n;
  return { account, period, slot, now, replaced: accountsOf(replaced, runs) };
}

/**
 * Throws VALIDATION_ERROR if the named offer is not an open offer to the wallet for this address.
 * Throws CONFLICT if the relayed offer is no longer open, because its registration has ended.
 */
function checkNamed({ offerId, relayed }: RegistrationRequest, offers: readonly OpenOffer[]): void {
  const isOpenOffer = (named: string) => offers.some(({ id }) => id === named);
  if (offerId !== undefined && !isOpenOffer(offerId))
    throw invalidField('offerId', 'is no open offer to your wallet for this subscription');
  if (relayed !== undefined && !isOpenOffer(relayed.offerId)) throw onlyByItsWallet();
}

/**
 * Stores a registration with its event in the caller's transaction and returns the registration's
 * id. Ends the registration of an earlier account at the address. If a keeper has registered this
 * account and the wallet has not, returns the id of the keeper's registration. Throws CONFLICT if
 * the wallet has registered the account or the merchant has force-cancelled it, FORBIDDEN if wallet
 * or merchant is suspended, and JudgedBefore if the account or its registration has changed since
 * the keeper read it.
 */
export async function storeRegistration(
  sql: Transaction,
  registration: RegistrationToStore,
): Promise<string> {
  const { subscriberWallet, planId, subscriptionPda, hasLanded = false } = registration;
  const { appId, externalId = null } = registration;
  // Otherwise two registrations of a customer could both get a trial, or miss each other as
  // duplicates. The customer is locked before the checkout session's row, as takeOffer() does.
  if (externalId !== null) await lockCustomer(sql, { appId, externalId });
  if (!hasLanded) {
    await lockSuspended(sql, { wallet: subscriberWallet, planId });
    if (await isSignupOpen(sql, subscriptionPda)) throw signupUnderWay();
  }
  const claimed = await endEarlierRegistration(sql, registration);
  if (claimed !== undefined) return claimed;
  try {
    const { change, isTrialShown: hasTrial = false } = registration;
    if (hasTrial && change === undefined) await refuseUsedTrial(sql, registration);
    const takenOver = change === undefined ? undefined : await takeOver(sql, change);
    const now = registration.dueAt;
    const takes = await readTaken(sql, registration, { now, taken: takenOver });
    // A change of plan has no trial. A change that takes over nothing counts as a new subscription.
    const trialFrom = takenOver === undefined ? registration.trialFrom : null;
    const id = await insertRegistration(sql, { ...registration, takes, trialFrom });
    if (id === undefined) throw invalidField('planId', 'takes no new subscriptions');
    if (change !== undefined && takenOver !== undefined)
      await storeTakenOver(sql, change, takenOver, id);
    await completeSession(sql, registration, id);
    // Open offers at the address, and the address's entry in the merchant's list, belong to a later
    // account.
    if (registration.gone === undefined) {
      await endOffers(sql, registration.subscriptionPda);
      await deleteUnregistered(sql, [registration.subscriptionPda]);
    }
    // A subscription that replaces the customer's subscription is not a second one.
    const allowSecond = registration.allowSecond === true || takenOver !== undefined;
    const duplicateOf = await noteDuplicate(sql, id, { appId, externalId, allowSecond });
    const credit = takenOver?.credit ?? (await readCreditOf(sql, id));
    const { replaces = null, startsAt = null } = takes ?? {};
    const fields = takenFields({ replaces, startsAt }, credit);
    const extra = { ...(duplicateOf !== null && { duplicateOf }), ...fields };
    await appendEvents(sql, [{ subscriptionId: id, type: 'subscription_created', extra }]);
    return id;
  } catch (error) {
    if (isDuplicate(error, 'one_live_registration_per_pda')) throw registered();
    throw error;
  }
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
  const { initId, isUnclaimed = false, judged, askedAt } = registration;
  const account = { initId, periodStart: unixSeconds(registration.periodStart) };
  if (isUnclaimed && (!judged || !isStillValid(judged, earlier) || !isJudged(judged, account)))
    throw new JudgedBefore();
  if (earlier === undefined) return undefined;
  const open = isOpen(earlier);
  if (isOfAccount(earlier, account)) {
    if (isAskedBefore(askedAt, earlier)) throw onlyByItsWallet();
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
  const { gone } = registration;
  const isLater = gone !== undefined && earlier.createdAt > gone.signedAt;
  if (open && !isLater)
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

/** The error when a registration has ended and the wallet has not asked for a transaction since. */
function onlyByItsWallet(): ServiceError {
  return new ServiceError(
    'CONFLICT',
    'The subscription of this account has ended: its wallet has to subscribe again.',
  );
}

/**
 * Thrown when the account or the newest registration at the address (ended.ts) has changed since
 * the keeper read it. The keeper then decides again.
 */
export class JudgedBefore extends ServiceError {
  constructor() {
    super('CONFLICT', 'The account or its registration has changed meanwhile. Try again.');
  }
}

const isOpen = ({ status }: Pick<EarlierRegistration, 'status'>): boolean =>
  status === 'active' || status === 'past_due';

/** The error while a sponsored sign-up of the address is open. */
export function signupUnderWay(): ServiceError {
  return new ServiceError(
    'CONFLICT',
    'A sponsored transaction opens this subscription: it is registered with its payment.',
  );
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
