// A customer (externalId) has one live subscription to an app's plans, unless the app or the
// checkout session allows several. The service refuses a second subscription when its session or
// its offer is created. A second subscription that has landed on chain is registered and marked as
// a duplicate.
import { findApp } from '../../db/apps.ts';
import { type CheckoutSessionRow, findCheckoutSession } from '../../db/checkout-sessions.ts';
import {
  findLiveOfCustomer,
  hasOpenOffer,
  lockCustomer,
  markDuplicate,
} from '../../db/customers.ts';
import type { Queryable, Transaction } from '../../db/postgres/connect.ts';
import { ServiceError } from '../../errors.ts';

type Session = Pick<CheckoutSessionRow, 'appId' | 'externalId' | 'allowSecond'> & {
  readonly replaces?: string | null;
};

/**
 * The session's customer; undefined when the customer may have several subscriptions, or when the
 * session replaces the customer's subscription.
 */
async function limited(sql: Queryable, session: Session) {
  const { appId, externalId, allowSecond, replaces = null } = session;
  if (externalId === null || allowSecond || replaces !== null) return undefined;
  return (await findApp(sql, appId))?.onePerCustomer === true ? { appId, externalId } : undefined;
}

/**
 * If the session's customer has a live subscription and may not have another, throws CONFLICT with
 * the id of the live subscription.
 */
export async function refuseSecond(sql: Queryable, session: Session): Promise<void> {
  const customer = await limited(sql, session);
  if (customer === undefined) return;
  const live = await findLiveOfCustomer(sql, customer);
  if (live === undefined) return;
  const message = `has the live subscription ${live}`;
  throw new ServiceError(
    'CONFLICT',
    `This customer ${message} already. Cancel it first, or allow a second one with allowSecond.`,
    [{ path: 'externalId', message }],
  );
}

/**
 * Throws CONFLICT when the customer of the offer's checkout session got a live subscription after
 * the offer was made. Call this before the offer's transaction is sent. A complete session is not
 * checked, because the offer's own transaction has completed it.
 */
export async function refuseSecondOf(
  sql: Queryable,
  { checkoutSessionId }: { checkoutSessionId: string | null },
): Promise<void> {
  const session =
    checkoutSessionId === null ? undefined : await findCheckoutSession(sql, checkoutSessionId);
  if (session?.subscriptionId === null) await refuseSecond(sql, session);
}

/**
 * Reserves the customer for an offer, in the database transaction that stores the offer. Throws
 * CONFLICT when the customer has a live subscription. Also throws CONFLICT when the transaction of
 * an earlier offer to the customer may still land and would open a subscription at another address.
 */
export async function reserveCustomer(
  sql: Transaction,
  session: Session,
  { subscriptionPda, blockHeight }: { subscriptionPda: string; blockHeight: bigint },
): Promise<void> {
  const customer = await limited(sql, session);
  if (customer === undefined) return;
  await lockCustomer(sql, customer);
  await refuseSecond(sql, session);
  if (await hasOpenOffer(sql, customer, subscriptionPda, blockHeight))
    throw new ServiceError(
      'CONFLICT',
      'This customer has begun to subscribe elsewhere. Try again in about a minute.',
    );
}

/**
 * Marks a new registration as a duplicate when its customer has another live subscription. Returns
 * the id of the other subscription. Returns null when there is no other subscription, or when the
 * customer may have several.
 */
export async function noteDuplicate(
  sql: Transaction,
  id: string,
  { appId, externalId, allowSecond }: Session,
): Promise<string | null> {
  if (externalId === null || allowSecond) return null;
  await lockCustomer(sql, { appId, externalId });
  const other = await findLiveOfCustomer(sql, { appId, externalId }, id);
  return other === undefined ? null : ((await markDuplicate(sql, id, other)) ?? null);
}
