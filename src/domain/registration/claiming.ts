// The wallet's own registration of an account that a keeper has already registered. The wallet
// claims the keeper's registration, once. If no offer fitted the account and no payment attempt is
// committed yet, the wallet also sets the terms of its checkout session. Otherwise the keeper's
// terms stay.
import type { Transaction } from '../../db/postgres/connect.ts';
import { completeCheckoutSession } from '../../db/subscriptions/checkout-sessions.ts';
import { updateOwnIds } from '../../db/subscriptions/merchant-edits.ts';
import { lockTrials, type NewRegistration, takerOf } from '../../db/subscriptions/subscriptions.ts';
import {
  claimRegistration,
  type GivenTerms,
  readClaimable,
  setSessionTerms,
} from '../../db/subscriptions/unclaimed.ts';
import { ServiceError } from '../../errors.ts';
import { refusedCheckout } from './checkout.ts';
import type { Judged } from './ended.ts';
import { noteDuplicate } from './one-per-customer.ts';
import type { PlanChange } from './plan-credit.ts';

/** A checked registration, and the checkout session that it completes. */
export type RegistrationToStore = NewRegistration & {
  appId: string;
  checkoutSessionId?: string;
  allowSecond?: boolean;
  change?: PlanChange | undefined;
  /** Whether the wallet was shown a trial. Without the trial, nothing is registered. */
  isTrialShown?: boolean;
  /** Whether the checkout session comes from an offer that was made while the session was open. */
  isSessionOffered?: boolean;
  /** The account and its earlier registration as the keeper read them. Set if `isUnclaimed`. */
  judged?: Judged;
  /**
   * When the wallet asked for the offer; set if the registration follows the wallet's relayed
   * transaction, without a request to register.
   */
  askedAt?: Date | undefined;
};

/**
 * Claims the keeper's registration `id` for its wallet. The caller has locked the registration's
 * row. Throws CONFLICT (1) when the registration is already claimed, (2) when its terms differ from
 * the wallet's checkout session and can no longer be changed.
 */
export async function claim(
  sql: Transaction,
  id: string,
  registration: RegistrationToStore,
): Promise<void> {
  if (registration.isUnclaimed === true) throw registered();
  const { checkoutSessionId, externalId, metadata, dueAt } = registration;
  const terms = termsOf(registration);
  await lockTrials(sql, registration);
  const standing = await readClaimable(sql, id, terms);
  const isOther = checkoutSessionId !== undefined && !standing.hasTerms;
  if (isOther && !standing.isSettable) throw otherTerms(id);
  if (!standing.isUnclaimed) throw registered();
  if (isOther) await setSessionTerms(sql, id, terms, dueAt);
  if (!(await claimRegistration(sql, id, terms, dueAt))) throw registered();
  await completeSession(sql, registration, id);
  // The wallet's ids do not replace ids of a checkout session or of the merchant.
  if (checkoutSessionId === undefined && standing.hasOwnIds) return;
  if (checkoutSessionId === undefined && (externalId !== undefined || metadata !== undefined))
    await updateOwnIds(sql, id, { externalId, metadata }, registration.ownIdsFrom ?? 'subscriber');
  const { appId, allowSecond = false } = registration;
  await noteDuplicate(sql, id, { appId, externalId: externalId ?? null, allowSecond });
}

function termsOf(registration: RegistrationToStore): GivenTerms {
  const { externalId, metadata, ownIdsFrom = null, trialFrom } = registration;
  const { trialHours = null, discountPercent = null } = registration;
  const { discountAmount = null, discountPeriods = null, discountId = null } = registration;
  const discount = { discountPercent, discountAmount, discountPeriods, discountId };
  const taker = takerOf(registration);
  return { externalId, metadata, ownIdsFrom, trialFrom, trialHours, taker, ...discount };
}

/**
 * Completes the checkout session of a registration. A session that comes from an offer may have
 * expired since.
 */
export async function completeSession(
  sql: Transaction,
  registration: RegistrationToStore,
  subscriptionId: string,
): Promise<void> {
  const { checkoutSessionId, subscriberWallet: wallet, hasLanded = false } = registration;
  if (checkoutSessionId === undefined) return;
  const { isSessionOffered = false } = registration;
  const completion = { wallet, subscriptionId, isOffered: isSessionOffered || hasLanded };
  if (!(await completeCheckoutSession(sql, checkoutSessionId, completion)) && !hasLanded)
    throw refusedCheckout();
}

/** The error when a live account is registered already. */
export function registered(): ServiceError {
  return new ServiceError('CONFLICT', 'This subscription is registered already.');
}

function otherTerms(id: string): ServiceError {
  const message = `the subscription ${id} stands with other terms`;
  return new ServiceError(
    'CONFLICT',
    `This account is registered already: ${message} than the checkout session. The merchant can set externalId, metadata and discount: PATCH /merchant/apps/{appId}/subscriptions/${id}.`,
    [{ path: 'checkoutSessionId', message }],
  );
}
