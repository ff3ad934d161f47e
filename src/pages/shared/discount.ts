import type { Data } from '../../client/client.ts';
import { fill } from '../../words/fill.ts';
import { counted, locale, words } from './language.ts';
import { formatExact } from './money.ts';

export type Discount = NonNullable<
  Data<'/merchant/apps/{appId}/subscriptions/{subscriptionId}', 'get'>['discount']
>;

/** Describes a discount, such as `25% off 3 payments`. */
export function discountText({ percentOff, amountOff, periodsLeft }: Discount): string {
  const percent = new Intl.NumberFormat(locale, { style: 'percent' });
  const off =
    amountOff === null ? percent.format((percentOff ?? 0) / 100) : `${formatExact(amountOff)} USDC`;
  return periodsLeft === null
    ? fill(words.discount.each, { off })
    : counted(words.discount.some, periodsLeft, { off });
}
