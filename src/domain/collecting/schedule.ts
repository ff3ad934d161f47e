// The payments of a subscription that begins at a given time. The subscriber is shown these
// payments before subscribing. The rules of price.ts decide each amount. Pure.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { amountToCollect, discountOf, type PriceTerms, priceOf, usesDiscount } from './price.ts';

const SECONDS_PER_HOUR = 3600n;

/** Consecutive payments of the same amount. */
export interface PaymentRun {
  /** Base units of each payment. */
  readonly amount: bigint;
  /** Time at which the first of these payments is due. */
  readonly dueAt: Date;
  /** End of the time that the first of these payments covers. */
  readonly until: Date;
  /** Number of payments; null means that payments continue until the subscription ends. */
  readonly times: number | null;
}

export interface ScheduleTerms extends Omit<
  PriceTerms,
  'trialEndsAt' | 'unpausedAt' | 'chargedFrom'
> {
  readonly trialHours: number | null;
  readonly planEndsAt: Date | null;
}

/**
 * The payments of a subscription that begins at `startsAt`. The charge for a part of a period is
 * left out if it is below `minimum` (base units), because it is not collected.
 */
export function scheduleOf(terms: ScheduleTerms, startsAt: Date, minimum: bigint): PaymentRun[] {
  const anchor = unixSeconds(startsAt);
  const length = BigInt(terms.periodHours) * SECONDS_PER_HOUR;
  const charged = anchor + BigInt(terms.trialHours ?? 0) * SECONDS_PER_HOUR;
  const planEnd = terms.planEndsAt === null ? null : unixSeconds(terms.planEndsAt);
  const price = { ...terms, trialEndsAt: timeOf(charged), unpausedAt: null, chargedFrom: null };
  const runs: PaymentRun[] = [];
  let left = terms.discountPeriods;
  // Nothing is due before the period in which the trial ends.
  let start = anchor + ((charged - anchor) / length) * length;
  while (planEnd === null || start < planEnd) {
    const now = { ...price, discountPeriods: left };
    const wholePeriods = planEnd === null ? null : Number((planEnd - start) / length);
    const isCut = wholePeriods === 0;
    const end = isCut && planEnd !== null ? planEnd : start + length;
    const first = { dueAt: timeOf(charged > start ? charged : start), until: timeOf(end) };
    if (charged > start || isCut) {
      const amount = amountToCollect(now, { start, end }, minimum);
      if (amount > 0n) {
        runs.push({ amount, ...first, times: 1 });
        if (left !== null && usesDiscount(now, { start, end }, amount)) left -= 1;
      }
      start += length;
      continue;
    }
    const discounts = discountOf(now)?.periodsLeft ?? null;
    const times = least(discounts, wholePeriods);
    runs.push({ amount: priceOf(now), ...first, times });
    if (times === null) break;
    if (discounts !== null) left = discounts - times;
    start += BigInt(times) * length;
  }
  return runs;
}

function least(one: number | null, other: number | null): number | null {
  return one === null ? other : other === null ? one : Math.min(one, other);
}
