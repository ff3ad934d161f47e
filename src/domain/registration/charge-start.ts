// Finds the time from which a registration is charged. If the account was opened for the
// registration, the whole period is charged. If the account was resumed or registered late, only
// the rest of the period is charged. A period that ended before costs nothing.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import type { PullPeriod } from '../../chain/program/period.ts';
import { timeOf } from '../../chain/time.ts';
import { isResumeTaken, readOffered } from '../../db/offers/open-offers.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { promptSeconds } from '../collecting/late.ts';
import type { Landings } from './landing.ts';

interface Registered {
  readonly account: SubscriptionAccount;
  readonly period: PullPeriod;
  /** Chain time of the registration, Unix seconds. */
  readonly now: bigint;
  /** Whether the account has an earlier registration that has ended. */
  readonly isRenewed: boolean;
  readonly subscriptionPda: string;
  readonly landings: () => Promise<Landings>;
  /** The time after which the wallet must have asked for an offer (ended.ts); null for any time. */
  readonly offersAfter: Date | null;
}

/**
 * Returns the chain time from which the registration is charged; null if whole periods are charged.
 * (1) An account that an offer resumed: the time of the resume, which may lie in an earlier period.
 * (2) A cancelled account that is yet to be resumed: `now`. (3) An account that is registered
 * promptly, or that an offer opened in this period: null. (4) Otherwise: the time of the
 * registration. Throws INTERNAL_ERROR when the chain is unreachable.
 */
export async function startOfCharge(sql: Queryable, registered: Registered): Promise<Date | null> {
  const { account, period, now, subscriptionPda, landings, offersAfter: after } = registered;
  const { isRenewed } = registered;
  if (account.expiresAt !== 0n) return timeOf(now);
  const of = { wallet: account.subscriber, subscriptionPda, after };
  const offered = await readOffered(sql, of);
  const isResumed =
    offered.resuming ||
    (isRenewed && after !== null && (await isResumeTaken(sql, { ...of, after })));
  const newest = isResumed ? (await landings()).found[0] : undefined;
  if (isResumed && newest?.kind !== 'created') return timeOf(newest?.at ?? now);
  if (isRenewed) return timeOf(now);
  const isOpened = offered.opening && period.start === account.periodStart;
  return isOpened || isPrompt(registered) ? null : timeOf(now);
}

/**
 * Whether a new account is registered so soon that its whole period is charged. An account that a
 * wallet opens with another client is registered some seconds later. Pure.
 */
function isPrompt({ account, period, now }: Registered): boolean {
  return now - period.start <= promptSeconds(account.periodHours);
}
