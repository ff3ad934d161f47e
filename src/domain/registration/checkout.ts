// Checkout: a merchant's server creates a session for a customer. One wallet can subscribe in a
// session, once.
//
//   open -> complete (a subscription was registered in it)        open -> expired (after 24 hours)
//
// The relay binds a session to a wallet before it sends that wallet's transaction. Until then the
// customer can switch wallets; afterwards no other wallet can subscribe in the session. A bound
// session expires too. After that, its terms apply only to a subscription whose transaction has
// landed.
import type { Queryable } from '../../db/postgres/connect.ts';
import {
  findCheckoutSession,
  type CheckoutSessionRow,
} from '../../db/subscriptions/checkout-sessions.ts';
import { invalidField, ServiceError } from '../../errors.ts';

/**
 * Finds the plan's session with this id, in any status. Throws VALIDATION_ERROR when the plan has
 * no such session.
 */
export async function checkoutSessionOf(
  sql: Queryable,
  id: string,
  planId: string,
): Promise<CheckoutSessionRow> {
  const session = await findCheckoutSession(sql, id);
  if (session?.planId !== planId)
    throw invalidField('checkoutSessionId', 'is no session of this plan');
  return session;
}

/**
 * Returns the session if `wallet` can subscribe to the plan in it; undefined without an id. Throws
 * as offeredCheckoutSession does, and CONFLICT when the session has expired.
 */
export async function openCheckoutSession(
  sql: Queryable,
  id: string | undefined,
  parties: { planId: string; wallet: string },
): Promise<CheckoutSessionRow | undefined> {
  if (id === undefined) return undefined;
  const session = await offeredCheckoutSession(sql, id, parties);
  refuseExpired(session);
  return session;
}

/** Throws CONFLICT when the session has expired. */
export function refuseExpired({ status }: CheckoutSessionRow): void {
  if (status === 'expired')
    throw new ServiceError('CONFLICT', 'This checkout has expired. Ask for a new link.');
}

/**
 * Returns the session of an offer from which `wallet` has subscribed. The session may have expired
 * since the offer was made. Throws VALIDATION_ERROR when the session belongs to another plan,
 * FORBIDDEN when it is for or bound to another wallet, and CONFLICT when it is complete.
 */
export async function offeredCheckoutSession(
  sql: Queryable,
  id: string,
  { planId, wallet }: { planId: string; wallet: string },
): Promise<CheckoutSessionRow> {
  const session = await checkoutSessionOf(sql, id, planId);
  if (session.forWallet !== null && session.forWallet !== wallet)
    throw new ServiceError('FORBIDDEN', 'This checkout is for another wallet.');
  if (session.subscriberWallet !== null && session.subscriberWallet !== wallet)
    throw new ServiceError('FORBIDDEN', 'Another wallet has begun this checkout.');
  if (session.status === 'complete')
    throw new ServiceError('CONFLICT', 'This checkout is complete: it cannot be used twice.');
  return session;
}

/** Returns the error for a session that cannot be bound to a wallet or completed. */
export function refusedCheckout(): ServiceError {
  return new ServiceError(
    'CONFLICT',
    'This checkout is complete, has expired, or was begun by another wallet. Nothing was sent.',
  );
}

/** Throws VALIDATION_ERROR for a return URL outside the app's origins. */
export function checkReturnUrl(path: string, url: string | null, origins: readonly string[]): void {
  if (url === null || isReturnUrl(url, origins)) return;
  throw invalidField(path, "must be a URL of one of the app's returnOrigins");
}

/**
 * Whether the origin of a return URL is in `origins`. A URL with a user name or a password is
 * refused.
 */
export function isReturnUrl(url: string, origins: readonly string[]): boolean {
  // A URL with a backslash is refused, because browsers parse a backslash as a slash but other
  // parsers do not.
  if (url.includes('\\') || !URL.canParse(url)) return false;
  const { origin, username, password } = new URL(url);
  return username === '' && password === '' && origins.includes(origin);
}

/** The return URL with session_id in its query. */
export function returnUrlOf(url: string, sessionId: string): string {
  const parsed = new URL(url);
  parsed.searchParams.set('session_id', sessionId);
  return parsed.href;
}
