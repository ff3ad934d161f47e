// Warns about a price that differs so much from the app's other plans that its decimal point may be
// misplaced.
import { amountDisplay } from '../../format.ts';

export interface Price {
  id: string;
  name: string;
  /** USDC base units per period. */
  amount: bigint;
  periodHours: number;
}

export interface PriceWarning {
  code: 'amount_far_below' | 'amount_far_above';
  message: string;
}

/**
 * A price that differs from other prices by this factor is suspicious: its decimal point may be
 * misplaced by one digit.
 */
const FACTOR = 10n;

/**
 * Compares prices per hour. Warns when the plan costs at most a tenth of the cheapest other plan,
 * or at least ten times as much as the most expensive other plan. If `others` also contains the
 * plan itself, that entry is ignored.
 */
export function priceWarnings(plan: Price, others: readonly Price[]): PriceWarning[] {
  const ascending = others.filter(({ id }) => id !== plan.id).toSorted(byPricePerHour);
  const [cheapest, dearest] = [ascending[0], ascending.at(-1)];
  if (cheapest === undefined || dearest === undefined) return [];
  if (compare(plan, cheapest, FACTOR) <= 0) return [warning('below', plan, cheapest, 'cheapest')];
  if (compare(dearest, plan, FACTOR) <= 0) return [warning('above', plan, dearest, 'dearest')];
  return [];
}

const byPricePerHour = (a: Price, b: Price) => compare(a, b, 1n);

/**
 * Compares the hourly price of `a`, multiplied by `times`, with the hourly price of `b`. Negative
 * when the first value is lower, 0 when both are equal.
 */
function compare(a: Price, b: Price, times: bigint): number {
  const difference = a.amount * times * BigInt(b.periodHours) - b.amount * BigInt(a.periodHours);
  return difference < 0n ? -1 : Number(difference > 0n);
}

function warning(
  side: 'below' | 'above',
  plan: Price,
  other: Price,
  which: 'cheapest' | 'dearest',
): PriceWarning {
  return {
    code: `amount_far_${side}`,
    message: `${terms(plan)} is far ${side} "${other.name}" (${terms(other)}), the ${which} other plan of the app. amount is in base units: "1000000" is 1.00 USDC.`,
  };
}

const terms = ({ amount, periodHours }: Price) =>
  `${amountDisplay(amount)} every ${periodHours} hours`;
