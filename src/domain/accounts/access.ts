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
//
// If the service collects a due payment late, without a failure of the subscriber, the access
// endpoint grants access for LATE_MS after the due time. The accessUntil of subscriptions and
// events does not change.
import type { AccessSubscription, AccessTerms, LateTerms } from '../../db/subscriptions/access.ts';

const HOUR_MS = 3_600_000;
const MAX_GRACE_MS = 72 * HOUR_MS;
/** How long a late collection keeps access, in milliseconds. */
const LATE_MS = 72 * HOUR_MS;

/**
 * The grace in milliseconds. If the plan sets no grace, it is a tenth of the period, at most 72
 * hours.
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
  return isLive(status) ? latest(paidThrough, trialEndsAt) : paidThrough;
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

/** The access that a due payment keeps although the service collects it late. */
interface LateAccess {
  /** The latest of three times: the end of the paid time, the end of the trial, and startsAt. */
  readonly from: Date;
  readonly until: Date;
}

/**
 * The time for which a subscription keeps access because its collection is late. Ends with the
 * plan, because nothing is due after its end, but not before accessUntil(). Null (1) if no payment
 * will be due or the last payment failed (past_due), (2) in a pause or for a replaced subscription,
 * (3) after a refunded period without a deferred start, (4) before a first payment without a trial
 * and without startsAt.
 */
export function lateAccess(terms: LateTerms): LateAccess | null {
  const { status, pausedAt, replacedAt, startsAt, planEndsAt, paidThrough } = terms;
  if (status !== 'active' || pausedAt !== null || replacedAt !== null) return null;
  if (!isRenewing(terms)) return null;
  const isDeferred = startsAt !== null && (paidThrough === null || startsAt > paidThrough);
  if (isRefunded(terms) && !isDeferred) return null;
  const from = latest(coveredUntil(counted(terms)), startsAt);
  if (from === null) return null;
  const until = earliest(new Date(from.getTime() + LATE_MS), planEndsAt);
  return { from, until: latest(until, accessUntil(terms)) ?? until };
}

/** Reasons why access is granted (the first four) or denied. */
export const accessReasons = [
  'paid',
  'trial',
  'grace',
  'collection_late',
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
const keep = {
  paid: HOUR_MS,
  trial: 60_000,
  grace: 60_000,
  collection_late: 60_000,
  none: 10_000,
};

/**
 * Whether a customer with these subscriptions has access at `now`. The subscription with the latest
 * end of access decides; if several have the same end, the newest decides.
 */
export function judgeAccess(subscriptions: readonly AccessSubscription[], now: Date): Access {
  const after = (ms: number) => new Date(now.getTime() + ms);
  const [best] = subscriptions
    .map((terms) => {
      const late = lateAt(terms, now);
      return { terms, late, until: late?.until ?? accessUntil(terms) };
    })
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
  const { terms, late, until } = best;
  const live = subscriptions.filter(({ status }) => isLive(status)).length;
  const { id: subscriptionId, status } = terms;
  const facts = { accessUntil: until, subscriptionId, status, subscriptions: live };
  if (until === null || until <= now)
    return { hasAccess: false, ...facts, revalidateAfter: after(keep.none), reason: whyNot(terms) };
  const reason = late === null ? whyGranted(counted(terms), now) : 'collection_late';
  const { paidThrough: paid, trialEndsAt: trial, replacedAt } = terms;
  const certain = { paid, trial, grace: until, collection_late: until }[reason] ?? until;
  const ends = reason === 'grace' ? certain : earliest(certain, replacedAt);
  const revalidateAfter = earliest(after(keep[reason]), ends);
  return { hasAccess: true, ...facts, revalidateAfter, reason };
}

/**
 * Returns the late access of a subscription whose payment is due at `now`, or null if no payment is
 * due yet.
 */
function lateAt(terms: AccessSubscription, now: Date): LateAccess | null {
  const { isSuspended, planEndsAt } = terms;
  if (isSuspended || (planEndsAt !== null && planEndsAt <= now)) return null;
  const late = lateAccess(terms);
  return late !== null && late.from <= now ? late : null;
}

const earliest = (one: Date, other: Date | null) => (other !== null && other < one ? other : one);

const latest = (one: Date | null, other: Date | null) =>
  one === null || (other !== null && other > one) ? other : one;

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
