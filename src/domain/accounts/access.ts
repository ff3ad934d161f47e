// Decides when a subscriber's access ends (docs/merchants.md), for the API, the events and the
// access endpoint. Pure.
//
// While a further payment will be due, access lasts for the paid time plus the plan's grace: a
// renewal takes seconds to finalize, and a subscriber needs time to top up after a failure.
// Otherwise (cancel requested, paused, plan gone, ended), access ends with the paid time.
//
// After a change of plan, the replaced subscription gives access until the new subscription takes
// over, plus the grace. A live subscription's trial counts as paid time. If a period was refunded
// or turned into credit and the wallet resumes afterwards, the period no longer counts as paid
// time.
import type { AccessTerms } from '../../db/access.ts';

const HOUR_MS = 3_600_000;
const MAX_GRACE_MS = 72 * HOUR_MS;

/**
 * The grace in milliseconds. A plan without a grace of its own gets a tenth of the period, but at
 * most 72 hours.
 */
export function graceMs({
  periodHours,
  graceHours,
}: Pick<AccessTerms, 'periodHours' | 'graceHours'>): number {
  return graceHours === null
    ? Math.min((periodHours * HOUR_MS) / 10, MAX_GRACE_MS)
    : graceHours * HOUR_MS;
}

/**
 * The later of two times: the end of the paid time, and the end of a live subscription's trial.
 * Null when the subscription has no paid time and no live trial.
 */
export function coveredUntil({
  status,
  paidThrough,
  trialEndsAt,
}: Pick<AccessTerms, 'status' | 'paidThrough' | 'trialEndsAt'>): Date | null {
  if (trialEndsAt === null || !isLive(status)) return paidThrough;
  return paidThrough === null || trialEndsAt > paidThrough ? trialEndsAt : paidThrough;
}

/**
 * Whether the last paid period gives no access, because it was refunded and then the wallet
 * resumed.
 */
const isRefunded = ({ paidThrough, refundedThrough }: AccessTerms): boolean =>
  paidThrough !== null && refundedThrough !== null && paidThrough <= refundedThrough;

/**
 * Returns the terms. If the last paid period gives no access, `paidThrough` is null in the result.
 */
const counted = (terms: AccessTerms): AccessTerms =>
  isRefunded(terms) ? { ...terms, paidThrough: null } : terms;

/**
 * The time at which access ends. Null if there is neither a live trial nor paid time that counts.
 */
export function accessUntil(terms: AccessTerms): Date | null {
  const covered = coveredUntil(counted(terms));
  const { replacedAt } = terms;
  // The grace covers the time until the new subscription's first payment is final.
  if (covered !== null && replacedAt !== null) {
    const end = replacedAt < covered ? replacedAt : covered;
    return new Date(end.getTime() + graceMs(terms));
  }
  if (covered === null || !isRenewing(terms)) return covered;
  return new Date(covered.getTime() + graceMs(terms));
}

function isLive(status: string): boolean {
  return status === 'active' || status === 'past_due';
}

/** Whether a further payment of the subscription will be due. */
function isRenewing({ status, nextPaymentDue, cancelRequestedAt }: AccessTerms): boolean {
  return isLive(status) && nextPaymentDue !== null && cancelRequestedAt === null;
}

/** Reasons why access is granted (the first three) or denied. */
export const accessReasons = [
  'paid',
  'trial',
  'grace',
  'no_subscription',
  'first_payment_pending',
  'payment_overdue',
  'paused',
  'refunded',
  'cancelled',
  'expired',
] as const;

export interface Access {
  hasAccess: boolean;
  accessUntil: Date | null;
  /** The caller may cache the answer until this time. */
  revalidateAfter: Date;
  reason: (typeof accessReasons)[number];
  /**
   * Id of the subscription that decides about access; null when the customer has no subscription.
   */
  subscriptionId: string | null;
  status: string | null;
  /** Number of live subscriptions of the customer, up to 50. */
  subscriptions: number;
}

/**
 * How long the caller may cache an answer (ms), by the reason for access. `paid` is cached longest,
 * because a cancellation does not shorten paid time. Any other answer can change with the next
 * payment or when the subscription is ended.
 */
const keep = { paid: HOUR_MS, trial: 60_000, grace: 60_000, none: 10_000 };

/**
 * Whether a customer with these subscriptions has access at `now`. The subscription with the latest
 * end of access decides; if several have the same end, the newest decides.
 */
export function judgeAccess(
  subscriptions: readonly (AccessTerms & { id: string })[],
  now: Date,
): Access {
  const after = (ms: number) => new Date(now.getTime() + ms);
  const [best] = subscriptions
    .map((terms) => ({ terms, until: accessUntil(terms) }))
    .sort(
      (a, b) =>
        (b.until?.getTime() ?? 0) - (a.until?.getTime() ?? 0) || (a.terms.id < b.terms.id ? 1 : -1),
    );
  if (best === undefined) {
    const nothing = {
      accessUntil: null,
      subscriptionId: null,
      status: null,
      subscriptions: 0,
    } as const;
    const revalidateAfter = after(keep.none);
    return { hasAccess: false, ...nothing, revalidateAfter, reason: 'no_subscription' };
  }
  const { terms, until } = best;
  const live = subscriptions.filter(({ status }) => isLive(status)).length;
  const { id: subscriptionId, status } = terms;
  const facts = { accessUntil: until, subscriptionId, status, subscriptions: live };
  if (until === null || until <= now)
    return { hasAccess: false, ...facts, revalidateAfter: after(keep.none), reason: whyNot(terms) };
  const reason = whyGranted(counted(terms), now);
  const ends = { paid: terms.paidThrough, trial: terms.trialEndsAt, grace: until }[reason];
  const certain = reason === 'grace' ? ends : earliest(ends, terms.replacedAt);
  const latest = after(keep[reason]);
  const revalidateAfter = certain !== null && certain < latest ? certain : latest;
  return { hasAccess: true, ...facts, revalidateAfter, reason };
}

const earliest = (one: Date | null, other: Date | null) =>
  one !== null && other !== null && other < one ? other : one;

function whyGranted({ paidThrough, trialEndsAt, replacedAt }: AccessTerms, now: Date) {
  if (replacedAt !== null && replacedAt <= now) return 'grace';
  if (paidThrough !== null && paidThrough > now) return 'paid';
  return trialEndsAt !== null && trialEndsAt > now ? 'trial' : 'grace';
}

function whyNot(terms: AccessTerms): Access['reason'] {
  if (terms.status === 'cancelled' || terms.status === 'expired') return terms.status;
  if (terms.cancelRequestedAt !== null) return 'cancelled';
  if (terms.pausedAt !== null) return 'paused';
  if (isRefunded(terms) && terms.status === 'active') return 'refunded';
  return coveredUntil(terms) === null ? 'first_payment_pending' : 'payment_overdue';
}
