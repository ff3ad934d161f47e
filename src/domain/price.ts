// What a subscription pays for a period, and from when. The plan's amount, which the chain enforces, is the ceiling: a discount takes less of it, a trial
// or a pause that ends inside a period leaves only the rest of that period to be charged. Every division rounds down. Pure.
import { unixSeconds } from '../chain/time.ts';

const SECONDS_PER_HOUR = 3600n;

/** What the price depends on. */
export interface PriceTerms {
  /** The plan's: the ceiling of a period, base units. */
  readonly amount: bigint;
  readonly periodHours: number;
  readonly trialEndsAt: Date | null;
  /** Off each payment: one of the two, or none. */
  readonly discountPercent: number | null;
  readonly discountAmount: bigint | null;
  /** Payments that the discount still reduces; null: all, 0: it is used up. */
  readonly discountPeriods: number | null;
  readonly unpausedAt: Date | null;
}

/** A discount that reduces the next payment. */
export interface Discount {
  readonly percentOff: number | null;
  readonly amountOff: bigint | null;
  /** Payments that it still reduces; null: all. */
  readonly periodsLeft: number | null;
}

/** The discount of the next payment; null when there is none or it is used up. */
export function discountOf({
  discountPercent: percentOff,
  discountAmount: amountOff,
  discountPeriods: periodsLeft,
}: Pick<PriceTerms, 'discountPercent' | 'discountAmount' | 'discountPeriods'>): Discount | null {
  if (periodsLeft === 0 || (percentOff === null && amountOff === null)) return null;
  return { percentOff, amountOff, periodsLeft };
}

/** What `discount` leaves of `amount` base units; at least 0. */
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
 * What is due for a period, in base units: of one that the plan's end cuts short, or in which a trial or a pause ended, the part that is left. Times are
 * Unix seconds; `end` is that of what a payment buys.
 */
export function amountDue(
  terms: PriceTerms,
  { start, end }: { readonly start: bigint; readonly end: bigint },
): bigint {
  const from = latest(start, chargedFrom(terms));
  const length = BigInt(terms.periodHours) * SECONDS_PER_HOUR;
  if (from >= end) return 0n;
  return end - from >= length ? priceOf(terms) : (priceOf(terms) * (end - from)) / length;
}

/** Whether `gross` is what a discount that counts its payments leaves of this period: it has then used one of them up. */
export function usesDiscount(
  terms: PriceTerms,
  period: { readonly start: bigint; readonly end: bigint },
  gross: bigint,
): boolean {
  const discount = discountOf(terms);
  return discount !== null && discount.periodsLeft !== null && gross === amountDue(terms, period);
}

/** What the next payment takes, as far as the rows tell (a plan's end is not in it); null when none is due. */
export function nextAmount(
  terms: PriceTerms & { readonly nextPaymentDue: Date | null; readonly periodAnchor: Date | null },
): bigint | null {
  const { nextPaymentDue, periodAnchor } = terms;
  if (nextPaymentDue === null) return null;
  if (periodAnchor === null) return priceOf(terms);
  return amountDue(terms, periodAt(terms, periodAnchor, unixSeconds(nextPaymentDue)));
}

/**
 * What a past-due subscription owes; null where it is not past due, or not tried again. The next try is due at the start of the next period at the
 * latest: what is owed is that of the period before it.
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
  if (periodAnchor === null) return priceOf(terms);
  const { start, end } = periodAt(terms, periodAnchor, unixSeconds(nextPaymentDue) - 1n);
  const isCut = planEndsAt !== null && unixSeconds(planEndsAt) < end;
  return amountDue(terms, { start, end: isCut ? unixSeconds(planEndsAt) : end });
}

/** The period of the chain that runs at this time (Unix seconds), by one period's start. */
function periodAt(
  { periodHours }: PriceTerms,
  anchor: Date,
  at: bigint,
): { start: bigint; end: bigint } {
  const length = BigInt(periodHours) * SECONDS_PER_HOUR;
  const first = unixSeconds(anchor);
  const start = first + ((at - first) / length) * length;
  return { start, end: start + length };
}

/** When the next payment is due, where the chain could be collected from at `next`: not before the trial's end. */
export function notInTrial({ trialEndsAt }: Pick<PriceTerms, 'trialEndsAt'>, next: Date): Date {
  return trialEndsAt !== null && trialEndsAt > next ? trialEndsAt : next;
}

/** Nothing is charged for the time before this (Unix seconds); null when everything is. */
function chargedFrom({ trialEndsAt, unpausedAt }: PriceTerms): bigint | null {
  const times = [trialEndsAt, unpausedAt].flatMap((time) =>
    time === null ? [] : [unixSeconds(time)],
  );
  return times.reduce<bigint | null>((last, time) => latest(time, last), null);
}

function latest(time: bigint, other: bigint | null): bigint {
  return other !== null && other > time ? other : time;
}
