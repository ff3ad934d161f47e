// A customer (externalId) has one live subscription to an app's plans, unless the app or the
// checkout session allows several. The service refuses a second subscription when its session or
// its offer is created, and before its transaction is sent. An offer reserves the customer when its
// transaction may be sent: when a signed transaction is handed over, or when the wallet may send it
// itself. A second subscription that has landed on chain is registered and marked as a duplicate.
import { findApp } from '../../db/accounts/apps.ts';
import type { MayLand } from '../../db/offers/offers.ts';
import type { Queryable, Sql, Transaction } from '../../db/postgres/connect.ts';
import {
  type CheckoutSessionRow,
  claimCheckoutSession,
  findCheckoutSession,
} from '../../db/subscriptions/checkout-sessions.ts';
import {
  findLiveOfCustomer,
  listReservations,
  lockCustomer,
  markDuplicate,
} from '../../db/subscriptions/customers.ts';
import { ServiceError } from '../../errors.ts';
import { type ChainSender, type ExpiryReader, reaching, readExpired } from '../chain-reads.ts';
import { refusedCheckout } from './checkout.ts';

type Session = Pick<CheckoutSessionRow, 'appId' | 'externalId' | 'allowSecond'> & {
  readonly replaces?: string | null;
};

/**
 * The session's customer. Undefined if the customer may have several subscriptions, or if the
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

type Opened = Session & { readonly id: string };

/** A customer's reservations, read before the database transaction that checks them. */
interface Reservations {
  /** The address of the subscription for which the customer is checked or reserved. */
  readonly subscriptionPda: string;
  /** Whether a transaction that reserves the customer can no longer land. */
  readonly isDead: (transaction: MayLand) => boolean;
}

/**
 * Reads which transactions that reserve the session's customer can no longer land. Reads the chain
 * only if such transactions exist. Throws INTERNAL_ERROR when the chain is unreachable.
 */
export async function readReservations(
  { sql, chain }: { sql: Queryable; chain: ExpiryReader },
  session: Opened | undefined,
  subscriptionPda: string,
): Promise<Reservations> {
  const customer = session && (await limited(sql, session));
  if (session === undefined || customer === undefined)
    return { subscriptionPda, isDead: () => false };
  const listed = await listReservations(sql, customer, { sessionId: session.id, subscriptionPda });
  return { subscriptionPda, isDead: await readExpired(chain, listed) };
}

/**
 * Throws CONFLICT (1) when the session's customer has a live subscription, or (2) when a
 * transaction of another session of the customer may still land and would open a subscription at
 * another address.
 */
export async function refuseTaken(
  sql: Queryable,
  session: Opened,
  { subscriptionPda, isDead }: Reservations,
): Promise<void> {
  const customer = await limited(sql, session);
  if (customer === undefined) return;
  await refuseSecond(sql, session);
  const at = { sessionId: session.id, subscriptionPda };
  if (!(await listReservations(sql, customer, at)).every(isDead))
    throw new ServiceError(
      'CONFLICT',
      'This customer has begun to subscribe elsewhere. Try again in about a minute.',
    );
}

/**
 * Throws as refuseTaken() does, and locks the customer until the database transaction ends. Call
 * this in the transaction that stores that the offer's transaction may be sent.
 */
export async function reserveCustomer(
  sql: Transaction,
  session: Opened,
  reservations: Reservations,
): Promise<void> {
  const customer = await limited(sql, session);
  if (customer === undefined) return;
  await lockCustomer(sql, customer);
  await refuseTaken(sql, session, reservations);
}

/**
 * Binds the offer's checkout session to the wallet and reserves the session's customer. `take`
 * stores in the same database transaction that the signed transaction may be sent. Its argument
 * `blockHeight` is the present block height; undefined when no customer is reserved. Throws
 * CONFLICT as refuseTaken() does, and when the session is complete, expired or bound to another
 * wallet. The customer of a complete session is not checked, because the offer's own transaction
 * has completed it.
 */
export async function takeOffer<T>(
  { sql, chain }: { sql: Sql; chain: ChainSender },
  offer: { wallet: string; checkoutSessionId: string | null; subscriptionPda: string | null },
  take: (tx: Transaction, blockHeight: bigint | undefined) => Promise<T>,
): Promise<T> {
  const { wallet, checkoutSessionId, subscriptionPda } = offer;
  if (checkoutSessionId === null || subscriptionPda === null)
    return sql.begin((tx) => take(tx, undefined)) as Promise<T>;
  const found = await findCheckoutSession(sql, checkoutSessionId);
  const session = found?.subscriptionId === null ? found : undefined;
  const isLimited = session !== undefined && (await limited(sql, session)) !== undefined;
  const blockHeight = isLimited ? await reaching(chain.getBlockHeight()) : undefined;
  const reservations = await readReservations({ sql, chain }, session, subscriptionPda);
  return sql.begin(async (tx) => {
    if (session !== undefined && isLimited) await reserveCustomer(tx, session, reservations);
    if (!(await claimCheckoutSession(tx, checkoutSessionId, wallet))) throw refusedCheckout();
    return take(tx, blockHeight);
  }) as Promise<T>;
}

/**
 * Marks a new registration as a duplicate when its customer has another live subscription. Returns
 * the id of the other subscription. Returns null when there is no other subscription, or when the
 * customer may have several. The caller holds the lock of the customer.
 */
export async function noteDuplicate(
  sql: Transaction,
  id: string,
  { appId, externalId, allowSecond }: Session,
): Promise<string | null> {
  if (externalId === null || allowSecond) return null;
  const other = await findLiveOfCustomer(sql, { appId, externalId }, id);
  return other === undefined ? null : ((await markDuplicate(sql, id, other)) ?? null);
}
