// Repeats the arithmetic of the program's `validate_recurring_transfer` and
// `transfer_subscription::process`. Before the keeper sends a transaction, it can therefore compute
// whether the program will allow the pull at a given chain time.
import type { AccountIdentity, PlanAccount, SubscriptionAccount } from './layouts.ts';

/** The program's possible verdicts on a pull, in the order of the program's checks. */
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
 * chain's clock; amounts are base units.
 */
export interface PullPeriod {
  readonly verdict: PullVerdict;
  readonly start: bigint;
  /**
   * The end of the time that a payment for this period covers: `start` plus the period's length,
   * but not after the plan's end.
   */
  readonly end: bigint;
  /** Base units already pulled in this period. */
  readonly pulled: bigint;
  /**
   * Base units that can still be pulled in this period. The number is above 0 exactly when the
   * verdict is `collectable`.
   */
  readonly available: bigint;
  /**
   * Start of the next collectable period. Null if the plan is closed or changed, or if the
   * subscription or the plan ends at or before that start.
   */
  readonly next: bigint | null;
}

export function periodSeconds(periodHours: bigint): bigint {
  return periodHours * 3600n;
}

/**
 * Whether two reads show the same account, with periods of `length` seconds: they have the same
 * init_id and the same period boundaries. An account that was closed and opened again at the
 * address has other values.
 */
export function isSameAccount(a: AccountIdentity, b: AccountIdentity, length: bigint): boolean {
  return a.initId === b.initId && (a.periodStart - b.periodStart) % length === 0n;
}

/**
 * Returns the start of the latest period that starts at or before `now`, and before the plan's end
 * `endTs`. The first period starts at `start`. An `endTs` of 0 means that the plan has no end.
 */
function startAt(start: bigint, length: bigint, endTs: bigint, now: bigint): bigint {
  if (now - start < length) return start;
  const latest = endTs !== 0n && now >= endTs ? endTs - 1n : now;
  // A plan that ends at or before `start` has no period. In this case the result is `start`.
  return latest < start ? start : start + ((latest - start) / length) * length;
}

/**
 * Computes whether transfer_subscription would succeed at chain time `now`, and for which period.
 * `plan` is null when the plan's account is closed. If amount, period or creation time of `plan`
 * differ from the subscription's copy, `plan` is a different plan at the same address.
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
  // When a different plan occupies the address, the end of that plan does not apply to this
  // subscription.
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

/**
 * Whether the plan has ended the subscription: the plan is closed, has ended, or was published
 * again with other terms. The program then allows no more pulls, and the payer of the rent may
 * close the account even if it was never cancelled.
 */
export function isEndedByPlan(
  subscription: Parameters<typeof pullPeriod>[0],
  plan: Parameters<typeof pullPeriod>[1],
  now: bigint,
): boolean {
  const { verdict } = pullPeriod(subscription, plan, now);
  return verdict === 'plan_closed' || verdict === 'plan_ended' || verdict === 'plan_changed';
}
