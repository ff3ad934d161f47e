// Finds the time from which a registration is charged. If the account was opened for the
// registration, the whole period is charged. If the account was resumed or registered late, only
// the rest of the period is charged, and a period that was over by then costs nothing.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import type { PullPeriod } from '../../chain/program/period.ts';
import { timeOf } from '../../chain/time.ts';
import { isResumeTaken, readOffered } from '../../db/offered-transactions.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { promptSeconds } from '../collecting/late.ts';
import type { Landing } from './landing.ts';

interface Registered {
  readonly account: SubscriptionAccount;
  readonly period: PullPeriod;
  /** Chain time of the registration, Unix seconds. */
  readonly now: bigint;
  /** Whether the account has an earlier registration that has ended. */
  readonly isRenewed: boolean;
  readonly subscriptionPda: string;
  readonly landing: () => Promise<Landing | undefined>;
  /** The time after which the wallet must have asked for an offer (ended.ts); null for any time. */
  readonly offersAfter: Date | null;
}

/**
 * Returns the chain time from which the registration is charged. For an account that an offer
 * resumed, this is the time of the resume, which may lie in an earlier period; otherwise it is the
 * time of the registration. Null means that whole periods are charged. This is so (1) if a new
 * account is registered promptly, (2) if an offer opened the account in this period. Throws
 * INTERNAL_ERROR when the chain is unreachable.
 */
export async function startOfCharge(sql: Queryable, registered: Registered): Promise<Date | null> {
  const { account, period, now, subscriptionPda, landing, offersAfter: after } = registered;
  if (isPrompt(registered)) return null;
  const of = { wallet: account.subscriber, subscriptionPda, after };
  const offered = await readOffered(sql, of);
  if (!registered.isRenewed)
    return offered.opening && period.start === account.periodStart ? null : timeOf(now);
  const isResumed =
    offered.resuming || (after !== null && (await isResumeTaken(sql, { ...of, after })));
  const landed = isResumed ? await landing() : undefined;
  return timeOf(landed?.kind === 'resumed' ? landed.at : now);
}

/**
 * Whether a new account is registered so soon that its whole period is charged. If a wallet opens
 * an account with its own client, the account is registered some seconds later. Pure.
 */
function isPrompt({ account, period, now, isRenewed }: Registered): boolean {
  return !isRenewed && now - period.start <= promptSeconds(account.periodHours);
}
