// Until when a subscriber has access (docs/merchants.md). Pure: the API, the events and the access endpoint share this rule.
//
// While a payment is due, access lasts for the plan's grace beyond the paid time: a renewal takes seconds to be final, and after a failure the
// subscriber has time to top up. When no payment is due any more (cancel requested, paused, plan gone, ended), access ends with the paid time. A
// trial counts as paid time as long as the subscription lives.
import type { AccessTerms } from '../db/access.ts';

const HOUR_MS = 3_600_000;
const mostGraceMs = 72 * HOUR_MS;

/** The grace in milliseconds: the plan's own, else a tenth of the period and at most 72 hours. */
export function graceMs({
  periodHours,
  graceHours,
}: Pick<AccessTerms, 'periodHours' | 'graceHours'>): number {
  return graceHours === null
    ? Math.min((periodHours * HOUR_MS) / 10, mostGraceMs)
    : graceHours * HOUR_MS;
}

/** The end of what is paid, or of the trial while the subscription lives, whichever is later; null where there is neither. */
export function coveredUntil({
  status,
  paidThrough,
  trialEndsAt,
}: Pick<AccessTerms, 'status' | 'paidThrough' | 'trialEndsAt'>): Date | null {
  if (trialEndsAt === null || !isLive(status)) return paidThrough;
  return paidThrough === null || trialEndsAt > paidThrough ? trialEndsAt : paidThrough;
}

/** Access is granted while now is before this time; null before the first payment where there is no trial. */
export function accessUntil(terms: AccessTerms): Date | null {
  const covered = coveredUntil(terms);
  if (covered === null || !isRenewing(terms)) return covered;
  return new Date(covered.getTime() + graceMs(terms));
}

function isLive(status: string): boolean {
  return status === 'active' || status === 'past_due';
}

/** Whether a further payment is due at some time. */
function isRenewing({ status, nextPaymentDue, cancelRequestedAt }: AccessTerms): boolean {
  return isLive(status) && nextPaymentDue !== null && cancelRequestedAt === null;
}

/** Why access is granted (the first three) or not. */
export const accessReasons = [
  'paid',
  'trial',
  'grace',
  'no_subscription',
  'first_payment_pending',
  'payment_overdue',
  'paused',
  'cancelled',
  'expired',
] as const;

export interface Access {
  hasAccess: boolean;
  accessUntil: Date | null;
  /** The answer holds until then; ask again afterwards. */
  revalidateAfter: Date;
  reason: (typeof accessReasons)[number];
  /** The subscription that decided; null where there is none. */
  subscriptionId: string | null;
  status: string | null;
}

/** How long an answer may be kept, in milliseconds: what is paid cannot be taken back, the rest can change with the next payment or a forced end. */
const keep = { paid: HOUR_MS, trial: 60_000, grace: 60_000, none: 10_000 };

/** Whether a customer with these subscriptions has access at `now`. The one that grants it longest decides, else the newest. */
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
    const nothing = { accessUntil: null, subscriptionId: null, status: null } as const;
    const revalidateAfter = after(keep.none);
    return { hasAccess: false, ...nothing, revalidateAfter, reason: 'no_subscription' };
  }
  const { terms, until } = best;
  const facts = { accessUntil: until, subscriptionId: terms.id, status: terms.status };
  if (until === null || until <= now)
    return { hasAccess: false, ...facts, revalidateAfter: after(keep.none), reason: whyNot(terms) };
  const reason = whyGranted(terms, now);
  const certain = { paid: terms.paidThrough, trial: terms.trialEndsAt, grace: until }[reason];
  const latest = after(keep[reason]);
  const revalidateAfter = certain !== null && certain < latest ? certain : latest;
  return { hasAccess: true, ...facts, revalidateAfter, reason };
}

function whyGranted({ paidThrough, trialEndsAt }: AccessTerms, now: Date) {
  if (paidThrough !== null && paidThrough > now) return 'paid';
  return trialEndsAt !== null && trialEndsAt > now ? 'trial' : 'grace';
}

function whyNot(terms: AccessTerms): Access['reason'] {
  if (terms.status === 'cancelled' || terms.status === 'expired') return terms.status;
  if (terms.cancelRequestedAt !== null) return 'cancelled';
  if (terms.pausedAt !== null) return 'paused';
  return coveredUntil(terms) === null ? 'first_payment_pending' : 'payment_overdue';
}
