// The price of a period. The chain enforces the plan's amount as the maximum, and a discount
// reduces the price. If a trial or a pause ends inside a period, or the wallet resumes or registers
// inside a period, only the rest of the period is charged. Every division rounds down. Pure.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { creditFor } from './credit.ts';

const SECONDS_PER_HOUR = 3600n;

/** The fields of a subscription from which its price is computed. */
export interface PriceTerms {
  /** The plan's amount: the maximum per period, base units. */
  readonly amount: bigint;
  readonly periodHours: number;
  readonly trialEndsAt: Date | null;
  /** The discount on each payment. At most one of discountPercent and discountAmount is set. */
  readonly discountPercent: number | null;
  readonly discountAmount: bigint | null;
  /** Number of payments that still get the discount. Null: unlimited; 0: used up. */
  readonly discountPeriods: number | null;
  readonly unpausedAt: Date | null;
  /**
   * Time from which a period is charged, if the wallet resumed or registered the account inside
   * this period. Null if the whole period is charged.
   */
  readonly chargedFrom: Date | null;
  /** Time to which a change of plan has deferred the first payment. */
  readonly startsAt?: Date | null;
  /**
   * Credit from a change of plan, in base units. The credit is spent before anything is collected.
   */
  readonly credit?: bigint;
}

export const NO_DISCOUNT = {
  discountPercent: null,
  discountAmount: null,
  discountPeriods: null,
} as const;

/** A discount that applies to the next payment. */
export interface Discount {
  readonly percentOff: number | null;
  readonly amountOff: bigint | null;
  /** Number of payments that still get the discount; null: unlimited. */
  readonly periodsLeft: number | null;
}

/** The discount on the next payment. Null when there is no discount or it is used up. */
export function discountOf({
  discountPercent: percentOff,
  discountAmount: amountOff,
  discountPeriods: periodsLeft,
}: Pick<PriceTerms, 'discountPercent' | 'discountAmount' | 'discountPeriods'>): Discount | null {
  if (periodsLeft === 0 || (percentOff === null && amountOff === null)) return null;
  return { percentOff, amountOff, periodsLeft };
}

/** Subtracts the discount from `amount` (base units). The result is at least 0. */
export function discounted(
  amount: bigint,
  { percentOff, amountOff }: Pick<Discount, 'percentOff' | 'amountOff'>,
): bigint {
  const rest =
    amountOff === null ? (amount * BigInt(100 - (percentOff ?? 0))) / 100n : amount - amountOff;
  return rest > 0n ? rest : 0n;
}

/** The price of a whole period in base units. */
export function priceOf(
  terms: Pick<PriceTerms, 'amount' | 'discountPercent' | 'discountAmount' | 'discountPeriods'>,
): bigint {
  const discount = discountOf(terms);
  return discount === null ? terms.amount : discounted(terms.amount, discount);
}

/**
 * The amount due for a period, in base units. Only a part of the price is due if the charge begins
 * inside the period, or if the plan ends inside the period. In the second case, `end` is the plan's
 * end. Times are in Unix seconds.
 */
export function amountDue(
  terms: PriceTerms,
  { start, end }: { readonly start: bigint; readonly end: bigint },
): bigint {
  const charged = chargedSeconds(terms, { start, end });
  const length = lengthOf(terms);
  return charged >= length ? priceOf(terms) : (priceOf(terms) * charged) / length;
}

/**
 * The amount to collect for a period. This is the amount due, with one exception: if only a part of
 * the period is charged and the amount due is below `minimum`, nothing is collected, because each
 * collection costs the operator lamports.
 */
export function amountToCollect(
  terms: PriceTerms,
  period: { readonly start: bigint; readonly end: bigint },
  minimum: bigint,
): bigint {
  const due = amountDue(terms, period);
  return due < minimum && chargedSeconds(terms, period) < lengthOf(terms) ? 0n : due;
}

/** How the amount due for a period is paid: `due` = `credit` + `cash`, in base units. */
export interface Bill {
  readonly due: bigint;
  /** The part that is paid with credit from a change of plan. */
  readonly credit: bigint;
  /** The part to collect on chain. */
  readonly cash: bigint;
}

/** The bill of a period. `due` is amountToCollect(). */
export function billOf(
  terms: PriceTerms,
  period: { readonly start: bigint; readonly end: bigint },
  minimum: bigint,
): Bill {
  const due = amountToCollect(terms, period, minimum);
  const credit = creditFor(terms.credit ?? 0n, due, minimum);
  return { due, credit, cash: due - credit };
}

/**
 * If only the last part of the period is charged, returns the start of this part. Otherwise returns
 * null.
 */
export function chargedInside(
  terms: PriceTerms,
  { start, end }: { readonly start: bigint; readonly end: bigint },
): Date | null {
  const from = startOfCharge(terms);
  return from === null || from <= start || from >= end ? null : timeOf(from);
}

/**
 * Whether a payment of `gross` for this period counts as one of the payments that get a limited
 * discount.
 */
export function usesDiscount(
  terms: PriceTerms,
  period: { readonly start: bigint; readonly end: bigint },
  gross: bigint,
): boolean {
  const discount = discountOf(terms);
  return discount !== null && discount.periodsLeft !== null && gross === amountDue(terms, period);
}

/**
 * The amount of the next payment, without the part that a credit pays. Null when no payment is due.
 * `minimum` is the minimum amount to collect: it limits the part that the credit pays (creditFor).
 */
export function nextAmount(
  terms: PriceTerms & {
    readonly nextPaymentDue: Date | null;
    readonly periodAnchor: Date | null;
    readonly planEndsAt: Date | null;
  },
  minimum = 0n,
): bigint | null {
  const { nextPaymentDue, periodAnchor, planEndsAt } = terms;
  if (nextPaymentDue === null) return null;
  if (periodAnchor === null) return lessCredit(terms, priceOf(terms), minimum);
  const period = periodAt(terms, periodAnchor, unixSeconds(nextPaymentDue));
  return lessCredit(terms, amountDue(terms, cutAt(planEndsAt, period)), minimum);
}

/** The part of a period that lies before the end of the plan. */
function cutAt(
  planEndsAt: Date | null,
  { start, end }: { readonly start: bigint; readonly end: bigint },
): { start: bigint; end: bigint } {
  const isCut = planEndsAt !== null && unixSeconds(planEndsAt) < end;
  return { start, end: isCut ? unixSeconds(planEndsAt) : end };
}

const lessCredit = ({ credit = 0n }: Pick<PriceTerms, 'credit'>, due: bigint, minimum = 0n) =>
  due - creditFor(credit, due, minimum);

/**
 * The amount that a past-due subscription owes for its unpaid period. Null when the subscription is
 * not past due or has no next attempt. The next attempt is inside the unpaid period or exactly at
 * its end. So the unpaid period is the one in which lies the time one second before the attempt.
 */
export function amountPastDue(
  terms: PriceTerms & {
    readonly status: string;
    readonly nextPaymentDue: Date | null;
    readonly periodAnchor: Date | null;
    readonly planEndsAt: Date | null;
  },
): bigint | null {
  const { status, nextPaymentDue, periodAnchor, planEndsAt } = terms;
  if (status !== 'past_due' || nextPaymentDue === null) return null;
  if (periodAnchor === null) return lessCredit(terms, priceOf(terms));
  const period = periodAt(terms, periodAnchor, unixSeconds(nextPaymentDue) - 1n);
  return lessCredit(terms, amountDue(terms, cutAt(planEndsAt, period)));
}

/**
 * The on-chain period that contains the time `at` (Unix seconds). `anchor` is the start of any
 * period.
 */
export function periodAt(
  terms: Pick<PriceTerms, 'periodHours'>,
  anchor: Date,
  at: bigint,
): { start: bigint; end: bigint } {
  const length = lengthOf(terms);
  const first = unixSeconds(anchor);
  const start = first + ((at - first) / length) * length;
  return { start, end: start + length };
}

/**
 * Returns the due time of a payment. `next` is the time from which the chain allows the payment.
 * The payment is not due before the trial has ended, and not before `startsAt`, to which a change
 * of plan has deferred the payment.
 */
export function notInTrial(
  { trialEndsAt, startsAt = null }: Pick<PriceTerms, 'trialEndsAt' | 'startsAt'>,
  next: Date,
): Date {
  return [trialEndsAt, startsAt].reduce<Date>(
    (last, time) => (time !== null && time > last ? time : last),
    next,
  );
}

const lengthOf = ({ periodHours }: Pick<PriceTerms, 'periodHours'>) =>
  BigInt(periodHours) * SECONDS_PER_HOUR;

function chargedSeconds(
  terms: PriceTerms,
  { start, end }: { readonly start: bigint; readonly end: bigint },
): bigint {
  const from = chargeStart(terms, start);
  return from < end ? end - from : 0n;
}

/** Time from which the period that starts at `start` is charged. Times are in Unix seconds. */
export const chargeStart = (terms: PriceTerms, start: bigint): bigint =>
  latest(start, startOfCharge(terms));

/**
 * Time (Unix seconds) from which the subscriber is charged: the latest of the end of the trial, the
 * end of the pause, chargedFrom and startsAt. Null when all are null.
 */
function startOfCharge(terms: PriceTerms): bigint | null {
  const { trialEndsAt, unpausedAt, chargedFrom, startsAt = null } = terms;
  const times = [trialEndsAt, unpausedAt, chargedFrom, startsAt].flatMap((time) =>
    time === null ? [] : [unixSeconds(time)],
  );
  return times.reduce<bigint | null>((last, time) => latest(time, last), null);
}

function latest(time: bigint, other: bigint | null): bigint {
  return other !== null && other > time ? other : time;
}
