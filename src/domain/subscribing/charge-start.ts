// Finds the time from which a registration is charged for the current period of its account. If the
// account was opened for the registration, the whole period is charged. If the account was resumed
// or registered late, only the rest of the period is charged.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { periodSeconds, type PullPeriod } from '../../chain/program/period.ts';
import { timeOf } from '../../chain/time.ts';
import { isResumeTaken, readOffered } from '../../db/offered-transactions.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { Landing } from './landing.ts';

/**
 * If a wallet opens an account with its own client, the account is registered some seconds later.
 * If this delay is at most a sixtieth of the period and at most MAX_PROMPT_SECONDS, the whole
 * period is charged.
 */
const MAX_PROMPT_SECONDS = 600n;

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
 * Returns the chain time from which the current period is charged. For an account that an offer
 * resumed, this is the time of the resume; otherwise it is the time of the registration. Null means
 * that the whole period is charged. This is so (1) if a new account is registered promptly, (2) if
 * an offer opened the account in this period, (3) if the account was resumed before this period.
 * Throws INTERNAL_ERROR when the chain is unreachable.
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
  const from = landed?.kind === 'resumed' ? landed.at : now;
  return from > period.start ? timeOf(from) : null;
}

/** Whether a new account is registered so soon that its whole period is charged. Pure. */
function isPrompt({ account, period, now, isRenewed }: Registered): boolean {
  if (isRenewed) return false;
  const share = periodSeconds(account.periodHours) / 60n;
  const limit = share < MAX_PROMPT_SECONDS ? share : MAX_PROMPT_SECONDS;
  return now - period.start <= limit;
}
