// The arithmetic of transfer_subscription (the program's `validate_recurring_transfer` and
// `transfer_subscription::process`), so that the keeper knows the program's verdict at a given
// chain time before it sends.
import type { PlanAccount, SubscriptionAccount } from './layouts.ts';

/** The program's verdict on a pull, in the order of its checks. */
type PullVerdict =
  | 'plan_closed'
  | 'plan_ended'
  | 'plan_changed'
  | 'cancelled'
  | 'not_started'
  | 'collected'
  | 'collectable';

/**
 * The period to which the program would book a pull at a given time. Times are Unix seconds by the
 * chain's clock, amounts base units.
 */
export interface PullPeriod {
  readonly verdict: PullVerdict;
  readonly start: bigint;
  /** The end of the time that a payment covers: start plus length, but not after the plan's end. */
  readonly end: bigint;
  /** Already moved in this period. */
  readonly pulled: bigint;
  /**
   * Amount that can still be moved in this period; above 0 exactly when the verdict is
   * `collectable`.
   */
  readonly available: bigint;
  /**
   * Start of the next collectable period; null when the subscription or the plan ends before it.
   */
  readonly next: bigint | null;
}

/** Length of a period in seconds. */
export function periodSeconds(periodHours: bigint): bigint {
  return periodHours * 3600n;
}

/**
 * The last period start at or before `now`, counted from `start`, and strictly before a finite
 * `endTs`.
 */
function startAt(start: bigint, length: bigint, endTs: bigint, now: bigint): bigint {
  if (now - start < length) return start;
  const latest = endTs !== 0n && now >= endTs ? endTs - 1n : now;
  // A plan that ends at or before the stored start does not move the start.
  return latest < start ? start : start + ((latest - start) / length) * length;
}

/**
 * The result of transfer_subscription at chain time `now`; `plan` is null when its account is
 * closed. A plan with another amount, period or creation time than the subscription's is a
 * different plan at the same address.
 */
export function pullPeriod(
  subscription: Pick<
    SubscriptionAccount,
    'amount' | 'periodHours' | 'planCreatedAt' | 'amountPulled' | 'periodStart' | 'expiresAt'
  >,
  plan: Pick<PlanAccount, 'amount' | 'periodHours' | 'createdAt' | 'endTs'> | null,
  now: bigint,
): PullPeriod {
  const { amount, periodHours, expiresAt, periodStart } = subscription;
  const length = periodSeconds(periodHours);
  const sameTerms =
    plan !== null &&
    plan.amount === amount &&
    plan.periodHours === periodHours &&
    plan.createdAt === subscription.planCreatedAt;
  // The end of a different plan at the same address does not apply to this subscription.
  const endTs = sameTerms ? plan.endTs : 0n;
  const start = startAt(periodStart, length, endTs, now);
  const pulled = start === periodStart ? subscription.amountPulled : 0n;
  const rest = amount > pulled ? amount - pulled : 0n;

  const verdict = ((): PullVerdict => {
    if (plan === null) return 'plan_closed';
    if (plan.endTs !== 0n && now > plan.endTs) return 'plan_ended';
    if (!sameTerms) return 'plan_changed';
    if (expiresAt !== 0n && now >= expiresAt) return 'cancelled';
    if (now < periodStart) return 'not_started';
    return rest === 0n ? 'collected' : 'collectable';
  })();

  const boundary = start + length;
  const last =
    !sameTerms ||
    (endTs !== 0n && boundary >= endTs) ||
    (expiresAt !== 0n && boundary >= expiresAt);
  return {
    verdict,
    start,
    end: endTs !== 0n && boundary > endTs ? endTs : boundary,
    pulled,
    available: verdict === 'collectable' ? rest : 0n,
    next: last ? null : boundary,
  };
}
