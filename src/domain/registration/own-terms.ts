// The values that a registration takes from the merchant or the wallet: externalId, metadata,
// discount and trial of a checkout session, else externalId and metadata of the wallet's request.
import type { AppRow } from '../../db/accounts/apps.ts';
import type { OpenOffer } from '../../db/offers/open-offers.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { CheckoutSessionRow } from '../../db/subscriptions/checkout-sessions.ts';
import type { OwnIds } from '../../db/subscriptions/merchant-edits.ts';
import { isUnclaimed } from '../../db/subscriptions/unclaimed.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { checkoutSessionOf, offeredCheckoutSession } from './checkout.ts';
import type { RegistrationToStore } from './claiming.ts';

interface Request extends OwnIds {
  readonly planId: string;
  readonly wallet: string;
  readonly subscriptionPda: string;
  readonly checkoutSessionId?: string | undefined;
}

/** The checkout session and the ids that the request names. */
interface OwnTerms {
  /** The request's checkout session. */
  readonly session?: CheckoutSessionRow;
  /** The request's own ids. */
  readonly ids?: Partial<RegistrationToStore>;
  /**
   * Whether a keeper has registered this account in the session. Nothing more is then taken from
   * the session.
   */
  readonly isDone?: boolean;
}

/**
 * Reads the session and the ids that the request names. The session may have expired. Throws
 * VALIDATION_ERROR for ids that the wallet may not set, else as offeredCheckoutSession does.
 */
export async function ownTermsOf(
  sql: Queryable,
  app: AppRow,
  { checkoutSessionId, planId, wallet, subscriptionPda, externalId, metadata }: Request,
): Promise<OwnTerms> {
  if (checkoutSessionId === undefined) {
    const path = externalId === undefined ? 'metadata' : 'externalId';
    if (externalId === undefined && metadata === undefined) return {};
    if (!app.ownIdsBySubscriber)
      throw invalidField(path, 'is set by the merchant of this app: leave it out');
    return { ids: { externalId, metadata, ownIdsFrom: 'subscriber' } };
  }
  if (externalId !== undefined || metadata !== undefined)
    throw invalidField('checkoutSessionId', 'gives externalId and metadata: leave them out');
  const done = await checkoutSessionOf(sql, checkoutSessionId, planId);
  if (
    done.subscriptionId !== null &&
    (await isUnclaimed(sql, done.subscriptionId, subscriptionPda))
  )
    return { isDone: true };
  return { session: await offeredCheckoutSession(sql, checkoutSessionId, { planId, wallet }) };
}

/**
 * Whether the named session's terms must be ignored, because `offer` opened or resumed the account
 * without this session. (1) A change of plan has only the terms of its own session. (2) A session
 * that changes a plan gives its terms only to that change. The wallet saw no other terms.
 */
export function isOfOther(
  session: { readonly id: string; readonly replaces: string | null },
  offer: Pick<OpenOffer, 'checkoutSessionId' | 'replaces'> | undefined,
): boolean {
  const { checkoutSessionId: own = null, replaces = null } = offer ?? {};
  if (session.id === own) return false;
  return session.replaces !== null || (own === null && replaces !== null);
}

/**
 * Returns the registration's values other than the trial: from the session of the account's offer,
 * else from the request. Throws as offeredCheckoutSession does. Throws CONFLICT if the named
 * session's terms do not apply to the landed transaction.
 */
export async function takenTerms(
  sql: Queryable,
  { session: named, ids = {}, isDone = false }: OwnTerms,
  offer: Pick<OpenOffer, 'checkoutSessionId' | 'replaces'> | undefined,
  parties: { planId: string; wallet: string },
): Promise<Partial<RegistrationToStore>> {
  if (isDone) return {};
  if (named !== undefined && isOfOther(named, offer)) throw otherCheckout();
  const id = offer?.checkoutSessionId ?? named?.id;
  if (id === undefined) return ids;
  const session = named?.id === id ? named : await offeredCheckoutSession(sql, id, parties);
  return termsOfSession(session, ids);
}

/** The terms of a checkout session. `ids` are taken if the session has no ids. */
export function termsOfSession(
  session: CheckoutSessionRow,
  ids: Partial<RegistrationToStore> = {},
): Partial<RegistrationToStore> {
  const { id: checkoutSessionId, externalId, allowSecond } = session;
  const { discountPercent, discountAmount, discountPeriods } = session;
  const discount = { discountPercent, discountAmount, discountPeriods };
  const terms = { checkoutSessionId, discountId: checkoutSessionId, allowSecond, ...discount };
  if (externalId === null && session.metadata === '{}')
    return { externalId, metadata: {}, ownIdsFrom: null, ...ids, ...terms };
  const metadata = JSON.parse(session.metadata) as Record<string, string>;
  return { externalId, metadata, ownIdsFrom: 'checkout', ...terms };
}

/** The error if the named session's terms do not apply to the landed transaction. */
function otherCheckout(): ServiceError {
  const message = 'is not the checkout of the transaction that landed';
  return new ServiceError(
    'CONFLICT',
    `The session ${message}. Register without it, for the amount that the standing of the plan shows.`,
    [{ path: 'checkoutSessionId', message }],
  );
}
