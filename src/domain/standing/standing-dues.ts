// Computes what a wallet would pay if it subscribed now, for its standing. If its account is live
// or can be resumed but has no live registration, the rest of the period is due. The remaining
// credit of the ended registration is subtracted.
import type { PlanAccount, SubscriptionAccount } from '../../chain/program/layouts.ts';
import { timeOf } from '../../chain/time.ts';
import { readCredit } from '../../db/invoices/credits.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import {
  type EarlierRegistration,
  readRemainder,
  type Remainder,
} from '../../db/subscriptions/account-registrations.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import type { ChainReader, BillingAddresses } from '../chain-reads.ts';
import { creditFor } from '../invoices/draw-up.ts';
import { isOfAccount, offersCountAfter } from '../registration/ended.ts';
import {
  firstPayment,
  type LiveTerms,
  type RunningPeriod,
  runningPeriod,
} from '../registration/first-payment.ts';
import type { NamedSession } from '../registration/registration-terms.ts';
import { type LiveStanding, readLiveStanding } from './live-standing.ts';

export interface Dues {
  /**
   * The first payment in USDC base units. For a cancelled account, and for a live account that is
   * not registered, this is what is due for the rest of the running period. 0 if the wallet would
   * get a trial, if the running period is already paid, or if the first payment is deferred.
   */
  usdcNeeded: bigint;
  /** Hours of the trial that the wallet would get; null when the wallet would get no trial. */
  trialHours: number | null;
  /**
   * The period that still runs if subscribing resumes an account; null when subscribing begins a
   * new period.
   */
  running: RunningPeriod | null;
  /**
   * Credit (base units) of the customer, with what a change of plan adds. It is spent before
   * anything is collected.
   */
  credit: bigint;
  /** Time to which the first payment is deferred; null without a deferral. */
  startsAt: Date | null;
  /** The terms under which an account that runs would be registered; null for any other account. */
  terms: LiveTerms | null;
}

interface StandingFacts {
  /** Minimum amount to collect (PLAN_MINIMUM_AMOUNT). */
  readonly minimum: bigint;
  readonly wallet: string;
  readonly subscriptionPda: string;
  /** The newest registration of the address. */
  readonly earlier: EarlierRegistration | undefined;
  readonly account: SubscriptionAccount | null;
  readonly onPlan: PlanAccount | null;
  /** Chain time in Unix seconds. */
  readonly now: bigint;
  /** Hours of the trial that a new account would get. */
  readonly trialHours: number | null;
}

/** Reads what the wallet would pay. Throws INTERNAL_ERROR when the chain is unreachable. */
export async function readDues(
  parts: { sql: Queryable; chain: ChainReader; network: BillingAddresses },
  plan: PlanRow,
  session: NamedSession | undefined,
  seen: StandingFacts,
): Promise<Dues> {
  const { account, onPlan, now, minimum } = seen;
  const left = await remainderOf(parts.sql, seen);
  const credit = await readCredit(parts.sql, plan.appId, {
    externalId: session?.externalId ?? null,
    wallet: seen.wallet,
  });
  const live = await liveStanding(parts, plan, session, { ...seen, credit });
  const running = paidRunning(live?.running ?? runningPeriod(account, onPlan, now), left);
  const trialHours = live === undefined ? seen.trialHours : live.trialHours;
  const startsAt = live?.beginning.startsAt ?? left?.startsAt ?? null;
  const firstPaymentAmount =
    trialHours === null ? firstPayment(plan, session, running, minimum) : 0n;
  const usdcNeeded =
    live?.usdcNeeded ?? firstPaymentAmount - creditFor(credit, firstPaymentAmount, minimum);
  // The remainder has a deferred start only while that start is in the future. `live` already
  // includes its own deferred start.
  const isCovered = (left?.paidThrough ?? left?.startsAt ?? null) !== null;
  return {
    usdcNeeded: isCovered ? 0n : usdcNeeded,
    trialHours,
    running,
    credit: live?.beginning.credit ?? credit,
    startsAt,
    terms: live?.terms ?? null,
  };
}

/** What the ended registration of an account that still runs has left. */
function remainderOf(
  sql: Queryable,
  { subscriptionPda, account, now }: StandingFacts,
): Promise<Remainder | undefined> {
  const isOver = account !== null && account.expiresAt !== 0n && account.expiresAt <= now;
  if (account === null || isOver) return Promise.resolve(undefined);
  const { initId, periodStart } = account;
  const of = { subscriptionPda, initId, periodStart: timeOf(periodStart) };
  return readRemainder(sql, of, { now: timeOf(now) });
}

/** The running period. If a credit has paid for it, nothing is charged for it. */
const paidRunning = (running: RunningPeriod | null, left: Remainder | undefined) =>
  running === null || running.chargedFrom > running.end || (left?.paidThrough ?? null) === null
    ? running
    : { ...running, chargedFrom: running.end };

/**
 * The standing of a live account without a live registration, or of a cancelled account that
 * subscribing resumes. Undefined for any other account.
 */
async function liveStanding(
  parts: { sql: Queryable; chain: ChainReader; network: BillingAddresses },
  plan: PlanRow,
  session: NamedSession | undefined,
  {
    earlier,
    account,
    subscriptionPda,
    onPlan,
    now,
    credit,
    minimum,
  }: StandingFacts & { credit: bigint },
): Promise<LiveStanding | undefined> {
  if (account === null) return undefined;
  if (account.expiresAt !== 0n && runningPeriod(account, onPlan, now) === null) return undefined;
  const isRenewed = earlier !== undefined && isOfAccount(earlier, account);
  const isOpen = earlier?.status === 'active' || earlier?.status === 'past_due';
  if (isRenewed && isOpen && earlier.replacedBy === null) return undefined;
  const offersAfter = offersCountAfter(earlier, account);
  const live = { subscriptionPda, onPlan, now, account, isRenewed, offersAfter, credit, minimum };
  return readLiveStanding(parts, plan, live, session);
}
