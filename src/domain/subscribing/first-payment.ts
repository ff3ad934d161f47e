// The first payment that a wallet would make under a plan. With a trial, nothing is due. A new
// account pays the price of a period, and a resumed account pays for the rest of the running
// period.
import type { PlanAccount, SubscriptionAccount } from '../../chain/program/layouts.ts';
import { pullPeriod } from '../../chain/program/period.ts';
import { timeOf } from '../../chain/time.ts';
import type { PlanRow } from '../../db/plans.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { DiscountTerms } from '../../db/subscription-changes.ts';
import { hadTrial } from '../../db/subscriptions.ts';
import { amountDue, NO_DISCOUNT, priceOf } from '../collecting/price.ts';

/** Terms of a checkout session. They override the plan's terms. */
export interface SessionTerms extends DiscountTerms {
  readonly trialHours: number | null;
  /** The customer of the session, as the merchant set it. */
  readonly externalId?: string | null;
}

/**
 * Hours of the offered trial: the trial of the checkout session or, if the session has none, the
 * trial of the plan.
 */
export function offeredTrial(
  plan: Pick<PlanRow, 'trialHours'>,
  session: Pick<SessionTerms, 'trialHours'> | null | undefined,
): number | null {
  return session?.trialHours ?? plan.trialHours;
}

/**
 * Hours of the trial that the wallet would get; null when it would get none, because the wallet or
 * the session's customer has had one in the app. `wallet` is null while it is not known.
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
  /** Time from which the wallet pays for the period; equals `end` if the period is already paid. */
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
 * ended.
 */
export function firstPayment(
  plan: PlanRow,
  discount: DiscountTerms = NO_DISCOUNT,
  running: RunningPeriod | null,
): bigint {
  const whole = {
    ...discount,
    amount: plan.amount,
    periodHours: plan.periodHours,
    trialEndsAt: null,
    unpausedAt: null,
    chargedFrom: null,
  };
  if (running === null) return priceOf(whole);
  return amountDue({ ...whole, chargedFrom: timeOf(running.chargedFrom) }, running);
}
