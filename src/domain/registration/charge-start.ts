// Finds the time from which a registration is charged. If the account was opened for the
// registration, the whole period is charged. If the account was resumed or registered late, only
// the rest of the period is charged, and a period that was over by then costs nothing.
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

/** From when a registration is charged. */
export interface ChargeStart {
  /** Null if whole periods are charged. */
  readonly chargedFrom: Date | null;
  /**
   * Chain time in Unix seconds at which the wallet opened or resumed the account: a change of plan
   * takes over from then on. The time of the registration, if that is not known.
   */
  readonly landedAt: bigint;
}

/**
 * Returns the chain time from which the registration is charged. For an account that an offer
 * resumed, this is the time of the resume, which may lie in an earlier period; otherwise it is the
 * time of the registration. Whole periods are charged (1) if a new account is registered promptly,
 * (2) if an offer opened the account in this period. A new account that an offer opened has landed
 * at the start of the account's own period, also if a later period runs. Throws INTERNAL_ERROR when
 * the chain is unreachable.
 */
export async function startOfCharge(sql: Queryable, registered: Registered): Promise<ChargeStart> {
  const { account, period, now, subscriptionPda, landings, offersAfter: after } = registered;
  const isFirst = period.start === account.periodStart;
  const whole = { chargedFrom: null, landedAt: account.periodStart };
  if (isPrompt(registered) && isFirst) return whole;
  const of = { wallet: account.subscriber, subscriptionPda, after };
  const offered = await readOffered(sql, of);
  const from = (at: bigint) => ({ chargedFrom: timeOf(at), landedAt: at });
  if (!registered.isRenewed) {
    const start = isPrompt(registered) ? { chargedFrom: null, landedAt: period.start } : from(now);
    if (!offered.opening) return start;
    return isFirst ? whole : { ...start, landedAt: account.periodStart };
  }
  const isResumed =
    offered.resuming || (after !== null && (await isResumeTaken(sql, { ...of, after })));
  const landed = isResumed ? (await landings()).found[0] : undefined;
  return from(landed?.kind === 'resumed' ? landed.at : now);
}

/**
 * Whether a new account is registered so soon that its whole period is charged. If a wallet opens
 * an account with its own client, the account is registered some seconds later. Pure.
 */
function isPrompt({ account, period, now, isRenewed }: Registered): boolean {
  return !isRenewed && now - period.start <= promptSeconds(account.periodHours);
}
