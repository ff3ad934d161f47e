// The actions that remain open to a suspended merchant or subscriber: read, cancel, close, and
// revoke approvals and API keys.
import {
  findSuspensions,
  findSuspensionsFor,
  type Suspension,
} from '../../db/accounts/suspensions.ts';
import type { Purpose } from '../../db/offers/offers.ts';
import { lockShared } from '../../db/operating/collection-holds.ts';
import type { Queryable, Transaction } from '../../db/postgres/connect.ts';
import { ServiceError } from '../../errors.ts';

const OPEN: readonly Purpose[] = ['cancel', 'close', 'revoke'];

/** Whether a suspended wallet may sign and send a transaction of this purpose. */
export function isOpenToSuspended(purpose: Purpose): boolean {
  return OPEN.includes(purpose);
}

/** The error for a suspended account that tries to change something. */
export function suspended({ reason, waiting }: Pick<Suspension, 'reason' | 'waiting'>) {
  return new ServiceError(
    'FORBIDDEN',
    waiting
      ? `This account can only read: ${reason}.`
      : `This account is suspended and can only read, cancel and close: ${reason}`,
  );
}

/**
 * Throws FORBIDDEN when the subscriber's wallet is suspended. If `planId` is given, also throws
 * FORBIDDEN when the plan's merchant is suspended. The subscriber does not learn the reason of the
 * merchant's suspension. Never throws for a `purpose` that is open to suspended wallets.
 */
export async function refuseSuspended(
  sql: Queryable,
  { wallet, planId = null, purpose }: { wallet: string; planId?: string | null; purpose?: Purpose },
): Promise<void> {
  if (purpose !== undefined && isOpenToSuspended(purpose)) return;
  const found =
    planId === null
      ? await findSuspensions(sql, [{ role: 'subscriber', wallet }])
      : await findSuspensionsFor(sql, { wallet, planId });
  const subscriberSuspension = found.find(({ role }) => role === 'subscriber');
  if (subscriberSuspension !== undefined) throw suspended(subscriberSuspension);
  if (found.length > 0) throw new ServiceError('FORBIDDEN', 'This plan is not available.');
}

/**
 * Checks as refuseSuspended() does, in the transaction that stores a registration. Takes a lock, so
 * that a concurrent suspension either waits for this transaction or is visible in it.
 */
export async function lockSuspended(
  tx: Transaction,
  { wallet, planId }: { wallet: string; planId: string },
): Promise<void> {
  await lockShared(tx);
  await refuseSuspended(tx, { wallet, planId });
}
