// The terms of a subscription from which its invoices are drawn up. Pure.

/** Terms of a price and its discount. Amounts are base units. */
export interface Price {
  /** The plan's amount: the maximum per period, which the chain enforces. */
  readonly amount: bigint;
  /** The discount on each payment. At most one of discountPercent and discountAmount is set. */
  readonly discountPercent: number | null;
  readonly discountAmount: bigint | null;
  /** Number of payments that still get the discount. Null: unlimited; 0: used up. */
  readonly discountPeriods: number | null;
}

/** Times from which a subscription is charged. The latest of them counts. */
export interface ChargeTimes {
  readonly trialEndsAt: Date | null;
  /** Latest time of a registration, a resume, the end of a pause or a late first try. */
  readonly billedFrom: Date | null;
  /** Time to which a change of plan has deferred the first payment. */
  readonly startsAt?: Date | null;
}

export interface BillingTerms extends Price, ChargeTimes {
  readonly periodHours: number;
  /** The discount's id, for the invoices that it reduces. Previews have none. */
  readonly discountId?: string | null;
  /** The customer's credit in base units. It is spent before anything is collected. */
  readonly credit?: bigint;
}

export const NO_DISCOUNT = {
  discountPercent: null,
  discountAmount: null,
  discountPeriods: null,
} as const;

/** The terms of whole periods of a plan, without a trial. */
export const wholePrice = (
  { amount, periodHours }: Pick<BillingTerms, 'amount' | 'periodHours'>,
  discount: Omit<Price, 'amount'> = NO_DISCOUNT,
) => ({ ...discount, amount, periodHours, trialEndsAt: null, billedFrom: null });

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
}: Omit<Price, 'amount'>): Discount | null {
  if (periodsLeft === 0 || (percentOff === null && amountOff === null)) return null;
  return { percentOff, amountOff, periodsLeft };
}

/** Base units of a cent. */
const CENT = 10_000n;

/** The base units to which a plan's amounts are rounded: a cent if its amount is whole cents. */
export const unitOf = (planAmount: bigint): bigint => (planAmount % CENT === 0n ? CENT : 1n);

/** Rounds down to a multiple of `unit`. */
export const floorTo = (unit: bigint, amount: bigint): bigint => amount - (amount % unit);

/**
 * Subtracts the discount from the plan's amount (base units). The result is rounded down to the
 * plan's unit (unitOf) and at least 0.
 */
export function discounted(
  amount: bigint,
  { percentOff, amountOff }: Pick<Discount, 'percentOff' | 'amountOff'>,
): bigint {
  const rest =
    amountOff === null ? (amount * BigInt(100 - (percentOff ?? 0))) / 100n : amount - amountOff;
  return rest > 0n ? floorTo(unitOf(amount), rest) : 0n;
}

/** The price of a whole period in base units. */
export function priceOf(price: Price): bigint {
  const discount = discountOf(price);
  return discount === null ? price.amount : discounted(price.amount, discount);
}
