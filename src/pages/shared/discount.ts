import type { Data } from '../../client/client.ts';
import { formatUsdcGrouped } from '../../format.ts';

export type Discount = NonNullable<
  Data<'/merchant/apps/{appId}/subscriptions/{subscriptionId}', 'get'>['discount']
>;

/** Describes a discount, such as `25 % off 3 payments`. */
export function discountText({ percentOff, amountOff, periodsLeft }: Discount): string {
  const off = amountOff === null ? `${percentOff ?? 0} %` : `${formatUsdcGrouped(amountOff)} USDC`;
  if (periodsLeft === null) return `${off} off each payment`;
  return `${off} off ${periodsLeft === 1 ? 'one payment' : `${periodsLeft} payments`}`;
}
