/** A discount on each payment: a percentage or an amount. Both are null without a discount. */
export interface DiscountTerms {
  discountPercent: number | null;
  /** Discount per payment in base units. */
  discountAmount: bigint | null;
  /** Number of payments left with the discount. null means unlimited; 0 means used up. */
  discountPeriods: number | null;
}
