// The first payment that a wallet would make under a plan. With a trial, nothing is due. A new
// account pays the price of a period, and a resumed account pays for the rest of the running
// period.
import type { PlanAccount, SubscriptionAccount } from '../../chain/program/layouts.ts';
import { pullPeriod, type PullPeriod } from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { OpenOffer } from '../../db/offers/open-offers.ts';
import type { DiscountTerms } from '../../db/offers/terms.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { hadTrial } from '../../db/subscriptions/subscriptions.ts';
import { drawUp } from '../invoices/draw-up.ts';
import { NO_DISCOUNT, priceOf, wholePrice } from '../invoices/terms.ts';
import { readTakenOver } from './plan-credit.ts';

/** Terms of a checkout session. They override the plan's terms. */
export interface SessionTerms extends DiscountTerms {
  /** 0: no trial, whatever the plan's trial is. */
  readonly trialHours: number | null;
  /** The customer of the session, as the merchant set it. */
  readonly externalId?: string | null;
}

/**
 * Hours of the offered trial. The trial of the checkout session or the offer takes precedence over
 * the trial of the plan. Null without a trial.
 */
export function offeredTrial(
  plan: Pick<PlanRow, 'trialHours'>,
  session: Pick<SessionTerms, 'trialHours'> | null | undefined,
): number | null {
  const hours = session?.trialHours ?? plan.trialHours;
  return hours === 0 ? null : hours;
}

/**
 * Hours of the trial that the wallet would get. Null when there is no trial, or when the wallet or
 * the session's customer has had a trial in the app. `wallet` is null while it is unknown.
 */
export async function trialOf(
  sql: Queryable,
  plan: Pick<PlanRow, 'appId' | 'trialHours'>,
  wallet: string | null,
  session?: SessionTerms,
): Promise<number | null> {
  const trialHours = offeredTrial(plan, session);
  const taker = { wallet, externalId: session?.externalId ?? null };
  return trialHours === null || (await hadTrial(sql, plan.appId, taker)) ? null : trialHours;
}

/**
 * A period of the wallet's account that is running when the wallet subscribes. Times in Unix
 * seconds.
 */
export interface RunningPeriod {
  readonly start: bigint;
  readonly end: bigint;
  /**
   * Time from which the wallet pays, after the trial. It is `end` if the period is already paid,
   * and later if the trial ends in a later period.
   */
  readonly chargedFrom: bigint;
}

/** Returns the running period; null when subscribing begins a new period. */
export function runningPeriod(
  subscription: SubscriptionAccount | null,
  onPlan: PlanAccount | null,
  now: bigint,
): RunningPeriod | null {
  const period = subscription === null ? null : pullPeriod(subscription, onPlan, now);
  if (period === null || (period.verdict !== 'collectable' && period.verdict !== 'collected'))
    return null;
  const { start, end, pulled } = period;
  if (pulled > 0n) return { start, end, chargedFrom: end };
  return { start, end, chargedFrom: subscription?.expiresAt === 0n ? start : now };
}

/**
 * The amount due when the wallet subscribes without a trial, or resumes an account that has not
 * ended. For a part of a period, an amount below `minimum` is not collected.
 */
export function firstPayment(
  plan: PlanRow,
  discount: DiscountTerms | undefined,
  running: RunningPeriod | null,
  minimum: bigint,
): bigint {
  const fullTerms = wholePrice(plan, discount);
  if (running === null) return priceOf(fullTerms);
  const billedFrom = timeOf(running.chargedFrom);
  return drawUp({ ...fullTerms, billedFrom }, running, { minimum }).total;
}

/** A live account that is to be registered. */
export interface LiveAccount {
  readonly plan: PlanRow;
  readonly wallet: string;
  readonly period: PullPeriod;
  /** Chain time in Unix seconds. */
  readonly now: bigint;
  /** From when the registration is billed; null if whole periods are billed. */
  readonly billedFrom: Date | null;
  /** Chain time (Unix seconds) at which the change of plan in the terms landed. */
  readonly landedAt: bigint;
  /** The customer's credit in base units. */
  readonly credit: bigint;
  /** Minimum amount to collect (PLAN_MINIMUM_AMOUNT). */
  readonly minimum: bigint;
}

/**
 * The terms for registering a live account. They come from a checkout session, from a change of
 * plan, or from both.
 */
export type LiveTerms = SessionTerms &
  Pick<OpenOffer, 'replaces' | 'changeWhen'> & {
    /** The database's time at which the change of plan was offered; null without one. */
    readonly offeredAt: Date | null;
  };

/** The terms of a registration without a checkout session and without a change of plan. */
export const PUBLIC_TERMS: LiveTerms = {
  ...NO_DISCOUNT,
  trialHours: null,
  replaces: null,
  changeWhen: null,
  offeredAt: null,
};

/**
 * The amount in base units that is due at once when a live account is registered under these terms.
 * 0 in a trial, or if a change of plan defers the first payment. Throws PaymentUnderWay.
 */
export async function dueAtOnce(
  sql: Queryable,
  live: LiveAccount,
  terms: LiveTerms,
): Promise<bigint> {
  const { period, billedFrom, now, credit: balance, minimum } = live;
  if (period.pulled > 0n) return 0n;
  const price = { ...wholePrice(live.plan, terms), billedFrom };
  const takenOver = await takenOverBy(sql, live, terms);
  if (takenOver !== undefined) {
    const { startsAt, credit } = takenOver;
    if (startsAt !== null && unixSeconds(startsAt) > now) return 0n;
    return drawUp({ ...price, startsAt, credit }, period, { minimum }).amountDue;
  }
  const trialEndsAt = await trialEndOf(sql, live, terms);
  if (trialEndsAt !== null && unixSeconds(trialEndsAt) > now) return 0n;
  return drawUp({ ...price, trialEndsAt, credit: balance }, period, { minimum }).amountDue;
}

/** What a live account takes over in a change of plan; undefined without a change of plan. */
export async function takenOverBy(
  sql: Queryable,
  { landedAt: at }: Pick<LiveAccount, 'landedAt'>,
  { replaces: id, changeWhen: when, offeredAt }: LiveTerms,
) {
  if (id === null || when === null) return undefined;
  return readTakenOver(sql, { id, when, at, offeredAt });
}

/** End of the trial that the account gets when it is registered under these terms, or null. */
export async function trialEndOf(
  sql: Queryable,
  { plan, wallet, period }: LiveAccount,
  terms: LiveTerms,
): Promise<Date | null> {
  const hours = await trialOf(sql, plan, wallet, terms);
  return hours === null ? null : timeOf(period.start + BigInt(hours) * 3600n);
}
