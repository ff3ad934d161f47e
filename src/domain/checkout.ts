// Checkout: a merchant's server makes a session for a customer, the customer's wallet subscribes in it, once.
//
//   open -> complete (a subscription was registered in it)        open -> expired (after 24 hours)
//
// A session is tied to a wallet when that wallet's transaction is about to be sent: before that the customer may switch wallets, after that no other
// wallet can subscribe in it.
import { findCheckoutSession, type CheckoutSessionRow } from '../db/checkout-sessions.ts';
import type { Queryable } from '../db/connect.ts';
import { ServiceError } from '../errors.ts';

/** The plan's session with this id, whatever its status. Throws VALIDATION_ERROR where there is none. */
export async function checkoutSessionOf(
  sql: Queryable,
  id: string,
  planId: string,
): Promise<CheckoutSessionRow> {
  const session = await findCheckoutSession(sql, id);
  if (session?.planId !== planId) throw invalid('checkoutSessionId', 'is no session of this plan');
  return session;
}

/**
 * The session in which `wallet` may subscribe to the plan. Throws VALIDATION_ERROR where it is none of the plan's, FORBIDDEN where another wallet has
 * begun it, CONFLICT where it is used or expired.
 */
export async function openCheckoutSession(
  sql: Queryable,
  id: string,
  { planId, wallet }: { planId: string; wallet: string },
): Promise<CheckoutSessionRow> {
  const session = await checkoutSessionOf(sql, id, planId);
  if (session.subscriberWallet !== null && session.subscriberWallet !== wallet)
    throw new ServiceError('FORBIDDEN', 'Another wallet has begun this checkout.');
  if (session.status === 'complete')
    throw new ServiceError('CONFLICT', 'This checkout is complete: it cannot be used twice.');
  if (session.status === 'expired' && session.subscriberWallet === null)
    throw new ServiceError('CONFLICT', 'This checkout has expired. Ask for a new link.');
  return session;
}

/** What the claim of a session is refused with. */
export function refusedCheckout(): ServiceError {
  return new ServiceError(
    'CONFLICT',
    'This checkout is complete, has expired, or was begun by another wallet. Nothing was sent.',
  );
}

/** Throws VALIDATION_ERROR for a return URL that is of none of the app's origins. */
export function checkReturnUrl(path: string, url: string | null, origins: readonly string[]): void {
  if (url === null || isReturnUrl(url, origins)) return;
  throw invalid(path, "must be a URL of one of the app's returnOrigins");
}

/** Whether a return URL is of one of these origins, to the letter. */
export function isReturnUrl(url: string, origins: readonly string[]): boolean {
  // Browsers take a backslash for a slash, other parsers do not.
  if (url.includes('\\') || !URL.canParse(url)) return false;
  const { origin, username, password } = new URL(url);
  return username === '' && password === '' && origins.includes(origin);
}

/** The URL with the session's id in its query, as the merchant's server expects it. */
export function returnUrlOf(url: string, sessionId: string): string {
  const parsed = new URL(url);
  parsed.searchParams.set('session_id', sessionId);
  return parsed.href;
}

function invalid(path: string, message: string): ServiceError {
  return new ServiceError('VALIDATION_ERROR', `${path} ${message}.`, [{ path, message }]);
}
