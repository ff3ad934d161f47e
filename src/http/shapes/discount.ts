// Schemas of discounts: the input of a merchant and the view that the API returns.
import { Type, type Static } from '@sinclair/typebox';
import type { DiscountTerms } from '../../db/offers/terms.ts';
import { discounted, discountOf } from '../../domain/invoices/terms.ts';
import { invalidField } from '../../errors.ts';
import { AmountInput, AmountOrNull, nullable } from './fields.ts';

export const Discount = Type.Object(
  {
    percentOff: nullable(Type.Integer({ description: 'Percent of the amount, 1 to 99.' })),
    amountOff: { ...AmountOrNull, description: 'USDC base units off each payment.' },
    periodsLeft: nullable(
      Type.Integer({ description: 'Remaining payments that it reduces; null: all.' }),
    ),
  },
  { title: 'Discount', description: 'The discount of the next payments; null if there is none.' },
);

/** Returns the discount on the next payment in the form of the API, or null when there is none. */
export function discountView(terms: DiscountTerms): Static<typeof Discount> | null {
  const discount = discountOf(terms);
  return discount && { ...discount, amountOff: discount.amountOff?.toString() ?? null };
}

const periods = Type.Integer({
  minimum: 1,
  maximum: 1000,
  description: 'Payments that it reduces. null or absent: all.',
});

/** Query parameters of a discount. If all of them are absent, there is no discount. */
export const discountQuery = {
  percentOff: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 99, description: 'Percent of the amount.' }),
  ),
  amountOff: Type.Optional({
    ...AmountInput,
    description: 'USDC base units off each payment, as a string.',
  }),
  periods: Type.Optional({ ...periods, description: 'Payments that it reduces. Absent: all.' }),
};

export const DiscountInput = Type.Object(
  { ...discountQuery, periods: Type.Optional(nullable(periods)) },
  {
    title: 'DiscountInput',
    additionalProperties: false,
    description:
      "Either percentOff or amountOff. The reduced amount is rounded down, to whole cents where the plan's amount is whole cents.",
    examples: [{ percentOff: 25, periods: 3 }],
  },
);

const none: DiscountTerms = {
  discountPercent: null,
  discountAmount: null,
  discountPeriods: null,
};

/**
 * Converts a discount on `amount` base units to columns of the database. Null removes the discount.
 * Throws VALIDATION_ERROR if the input has neither or both of percentOff and amountOff, or if the
 * discounted price is zero or less than `minimum`.
 */
export function discountTermsOf(
  input: Static<typeof DiscountInput> | null,
  amount: bigint,
  minimum: bigint,
): DiscountTerms {
  if (input === null) return none;
  const { percentOff = null, amountOff: off = null, periods = null } = input;
  if ((percentOff === null) === (off === null))
    throw invalidField('discount', 'must have percentOff or amountOff, and not both');
  const amountOff = off === null ? null : BigInt(off);
  const least = minimum > 1n ? minimum : 1n;
  if (discounted(amount, { percentOff, amountOff }) < least)
    throw invalidField(
      'discount',
      `must leave at least ${least} base units of ${amount} to collect`,
    );
  return { discountPercent: percentOff, discountAmount: amountOff, discountPeriods: periods };
}
