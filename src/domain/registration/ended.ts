// An account on chain can outlive its registration: the registration ended here (a cancellation in
// the service, a force-cancel, a payment that stayed past due), or a change of plan replaced it.
// Then "no live registration" does not mean "never registered". A keeper checks this first, before
// it looks at offers. For an account whose newest registration has ended or was replaced:
//
//   its wallet asked the service after that for a transaction -> registered with that offer
//   the merchant reinstated a wallet that cannot sign in      -> registered without an offer
//   a change of plan has replaced it                          -> in the merchant's list
//   otherwise                                                 -> only its wallet can register it
//
// "After" is by the database's clock. An offer to subscribe counts if it was made after the end. A
// registration may end while a keeper decides, so the decision is stored only if it is still valid.
import { isOnCurve } from '../../chain/program/addresses.ts';
import type { AccountIdentity, SubscriptionAccount } from '../../chain/program/layouts.ts';
import { isSameAccount, periodSeconds } from '../../chain/program/period.ts';
import { unixSeconds } from '../../chain/time.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import {
  type EarlierRegistration,
  findNewestRegistrations,
} from '../../db/subscriptions/account-registrations.ts';

/** The registration of a live account that has ended or was replaced. */
export interface Ended {
  readonly id: string;
  /** The database's time of the end or the replacement. */
  readonly at: Date;
  /** Whether a change of plan replaced the registration. */
  readonly isReplaced: boolean;
  /** Whether a keeper registers the account because the merchant reinstated it. */
  readonly isReinstated: boolean;
}

/** What a keeper has read before it decides about a live account. */
export interface Judged {
  /** The newest registration of the address, of any account. */
  readonly newest: Pick<EarlierRegistration, 'id' | 'stoppedAt' | 'replacedBy'> | undefined;
  readonly account: Pick<SubscriptionAccount, 'initId' | 'periodStart' | 'periodHours'>;
}

/**
 * Whether a keeper's decision is still valid: `newest` is the registration on which the decision is
 * based, and it has neither ended nor been replaced since. The caller has locked the address.
 */
export function isStillValid({ newest: judged }: Judged, newest: Judged['newest']): boolean {
  return (
    judged?.id === newest?.id &&
    judged?.replacedBy === newest?.replacedBy &&
    (judged?.stoppedAt?.getTime() ?? null) === (newest?.stoppedAt?.getTime() ?? null)
  );
}

/** Whether the account that a keeper is about to register is the account that the keeper read. */
export function isJudged({ account }: Judged, registered: AccountIdentity): boolean {
  return isSameAccount(account, registered, periodSeconds(account.periodHours));
}

/** Whether a registration belongs to this on-chain account. True if its account was not read. */
export function isOfAccount(earlier: EarlierRegistration, account: AccountIdentity): boolean {
  const { chainInitId: initId, chainPeriodStart, periodHours } = earlier;
  if (initId === null || chainPeriodStart === null) return true;
  const registered = { initId, periodStart: unixSeconds(chainPeriodStart) };
  return isSameAccount(registered, account, periodSeconds(BigInt(periodHours)));
}

/**
 * Whether `earlier`, the newest registration of the address, is live and of this account. A live
 * registration of an earlier account at the address does not count.
 */
export const isRegistered = (
  earlier: EarlierRegistration | undefined,
  account: AccountIdentity,
): boolean => earlier !== undefined && earlier.stoppedAt === null && isOfAccount(earlier, account);

/**
 * Returns the end of the account's registration. `earlier` is the newest registration of the
 * address. Returns undefined if the account was never registered, or if its registration is live
 * and not replaced.
 */
export function endOf(
  earlier: EarlierRegistration | undefined,
  account: AccountIdentity,
): Ended | undefined {
  if (earlier === undefined || earlier.stoppedAt === null) return undefined;
  if (!isOfAccount(earlier, account)) return undefined;
  const { id, stoppedAt: at, replacedBy, reinstatedAt, subscriberWallet } = earlier;
  const isReinstated = reinstatedAt !== null && !isOnCurve(subscriberWallet);
  return { id, at, isReplaced: replacedBy !== null, isReinstated };
}

/**
 * Returns the time after which the wallet must have asked for an offer that opened or resumed the
 * account; null for any time. Offers that are older than another account's registration do not
 * count either, because offers used by builds before 0.1.0 have no registered_at.
 */
export function offersCountAfter(
  earlier: EarlierRegistration | undefined,
  account: AccountIdentity,
): Date | null {
  if (earlier === undefined) return null;
  return endOf(earlier, account)?.at ?? earlier.createdAt;
}

/** Whether the wallet asked for an offer before this registration of the account had ended. */
export const isAskedBefore = (
  askedAt: Date | undefined,
  { stoppedAt }: Pick<EarlierRegistration, 'stoppedAt'>,
): boolean => askedAt !== undefined && stoppedAt !== null && askedAt <= stoppedAt;

/**
 * Returns the addresses of these live accounts that a keeper has to check. Leaves out registered
 * accounts and accounts that only their wallets can register again. Accounts with offers are
 * returned by takeAwaited() (db/subscriptions/unregistered.ts) instead.
 */
export async function withoutKnown(
  sql: Queryable,
  accounts: readonly { address: string; identity: AccountIdentity | undefined }[],
): Promise<string[]> {
  const addresses = accounts.map(({ address }) => address);
  const registrations = await findNewestRegistrations(sql, addresses);
  return accounts
    .filter(({ address, identity }) => {
      const earlier = registrations.get(address);
      if (earlier === undefined || identity === undefined) return true;
      if (isRegistered(earlier, identity)) return false;
      const ended = endOf(earlier, identity);
      return ended === undefined || ended.isReplaced || ended.isReinstated;
    })
    .map(({ address }) => address);
}
