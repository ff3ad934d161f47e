// The first payment that a wallet would make under a plan: nothing with a trial, the price of a
// period for a new account, or the rest of the running period for a resumed account.
import type { PlanAccount, SubscriptionAccount } from '../../chain/program/layouts.ts';
import { pullPeriod } from '../../chain/program/period.ts';
import { timeOf } from '../../chain/time.ts';
import type { PlanRow } from '../../db/plans.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { DiscountTerms } from '../../db/subscription-changes.ts';
import { hadTrial } from '../../db/subscriptions.ts';
import { amountDue, NO_DISCOUNT, priceOf } from '../collecting/price.ts';

/** Hours of the trial that the wallet would get; null when the wallet would get no trial. */
export async function trialOf(
  sql: Queryable,
  plan: PlanRow,
  wallet: string,
): Promise<number | null> {
  const { trialHours } = plan;
  return trialHours === null || (await hadTrial(sql, plan.appId, wallet)) ? null : trialHours;
}

/**
 * The amount due when the wallet subscribes without a trial, or resumes an account that has not
 * ended.
 */
export function firstPayment(
  plan: PlanRow,
  discount: DiscountTerms = NO_DISCOUNT,
  {
    subscription,
    onPlan,
    now,
  }: { subscription: SubscriptionAccount | null; onPlan: PlanAccount | null; now: bigint },
): bigint {
  const whole = {
    ...discount,
    amount: plan.amount,
    periodHours: plan.periodHours,
    trialEndsAt: null,
    unpausedAt: null,
    chargedFrom: null,
  };
  const period = subscription === null ? null : pullPeriod(subscription, onPlan, now);
  if (period === null || (period.verdict !== 'collectable' && period.verdict !== 'collected'))
    return priceOf(whole);
  if (period.pulled > 0n) return 0n;
  if (subscription?.expiresAt === 0n) return priceOf(whole);
  return amountDue({ ...whole, chargedFrom: timeOf(now) }, period);
}
