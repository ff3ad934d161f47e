// Until when a subscriber has access (docs/merchants.md). Pure: the same rule for the API, the events and the access endpoint.
//
// While a payment is due, access goes on for the plan's grace after what is paid: a renewal takes seconds to be final, and a subscriber whose payment
// failed has time to mend it. Once nothing more is due (cancel asked, plan gone, ended) access ends with what is paid.
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

/** Access is granted while now is before this time; null before the first payment. */
export function accessUntil(terms: AccessTerms): Date | null {
  const { paidThrough } = terms;
  if (paidThrough === null || !isRenewing(terms)) return paidThrough;
  return new Date(paidThrough.getTime() + graceMs(terms));
}

/** Whether a further payment is due at some time. */
function isRenewing({ status, nextPaymentDue, cancelRequestedAt }: AccessTerms): boolean {
  return (
    (status === 'active' || status === 'past_due') &&
    nextPaymentDue !== null &&
    cancelRequestedAt === null
  );
}

/** Why access is granted (the first two) or not. */
export const accessReasons = [
  'paid',
  'grace',
  'no_subscription',
  'first_payment_pending',
  'payment_overdue',
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

/** How long an answer may be kept, in milliseconds: what is paid cannot be taken back, the rest can change with the next payment. */
const keep = { paid: HOUR_MS, grace: 60_000, none: 10_000 };

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
  const reason = terms.paidThrough !== null && terms.paidThrough > now ? 'paid' : 'grace';
  const certain = reason === 'paid' ? terms.paidThrough : until;
  const latest = after(keep[reason]);
  const revalidateAfter = certain !== null && certain < latest ? certain : latest;
  return { hasAccess: true, ...facts, revalidateAfter, reason };
}

function whyNot(terms: AccessTerms): Access['reason'] {
  if (terms.status === 'cancelled' || terms.status === 'expired') return terms.status;
  if (terms.cancelRequestedAt !== null) return 'cancelled';
  return terms.paidThrough === null ? 'first_payment_pending' : 'payment_overdue';
}
