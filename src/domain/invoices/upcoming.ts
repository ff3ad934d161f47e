// What a subscription is charged next: its open invoice, or a preview of the one that is drawn up
// next. Pure.
import { unixSeconds } from '../../chain/time.ts';
import type { OpenColumns } from '../../db/invoices/standing.ts';
import { type Period, periodAt } from './cover.ts';
import { creditFor, totalOf } from './draw-up.ts';
import { type BillingTerms, priceOf } from './terms.ts';

/** The fields of a subscription from which its next invoice is previewed. */
export interface UpcomingTerms extends BillingTerms {
  readonly nextPaymentDue: Date | null;
  readonly periodAnchor: Date | null;
  readonly planEndsAt: Date | null;
}

/** An open invoice: what is pulled for it, and the end of the period out of which it is pulled. */
interface OpenInvoice {
  readonly amountDue: bigint;
  readonly periodEnd: Date | null;
}

/** The open invoice of a row that was read with it. */
export const openOf = ({ openAmount: amountDue, openUntil: periodEnd }: OpenColumns) =>
  amountDue === null ? null : { amountDue, periodEnd };

/**
 * The amount of the next payment, without the part that a credit pays. Null when no payment is due.
 * `minimum` is the minimum amount to collect: it limits the part that the credit pays (creditFor).
 */
export function nextAmount(
  terms: UpcomingTerms,
  open: OpenInvoice | null,
  minimum = 0n,
): bigint | null {
  const { nextPaymentDue } = terms;
  if (nextPaymentDue === null) return null;
  const isRetried = open !== null && (open.periodEnd === null || open.periodEnd > nextPaymentDue);
  return isRetried ? open.amountDue : amountAt(terms, unixSeconds(nextPaymentDue), minimum);
}

/**
 * The amount that a past-due subscription owes for its unpaid period. Null when the subscription is
 * not past due or has no next attempt. The next attempt is inside the unpaid period or exactly at
 * its end, so the second before the attempt lies in the unpaid period.
 */
export function amountPastDue(
  terms: UpcomingTerms & { readonly status: string },
  open: OpenInvoice | null,
): bigint | null {
  const { status, nextPaymentDue } = terms;
  if (status !== 'past_due' || nextPaymentDue === null) return null;
  if (open !== null) return open.amountDue;
  return amountAt(terms, unixSeconds(nextPaymentDue) - 1n, 0n);
}

/** The amount to pull for the period that contains the time `at` (Unix seconds). */
function amountAt(terms: UpcomingTerms, at: bigint, minimum: bigint): bigint {
  const { periodAnchor, planEndsAt, credit = 0n } = terms;
  const price =
    periodAnchor === null
      ? priceOf(terms)
      : totalOf(terms, cutAt(planEndsAt, periodAt(terms, periodAnchor, at)));
  return price - creditFor(credit, price, minimum);
}

/** The part of a period that lies before the end of the plan. */
export function cutAt(planEndsAt: Date | null, { start, end }: Period): Period {
  const isCut = planEndsAt !== null && unixSeconds(planEndsAt) < end;
  return { start, end: isCut ? unixSeconds(planEndsAt) : end };
}
