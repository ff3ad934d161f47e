// The payments of a subscription that begins at a given time. The subscriber is shown these
// payments before subscribing. Each amount is that of the invoice (draw-up.ts). Pure.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { periodLength } from './cover.ts';
import { creditFor, drawUp } from './draw-up.ts';
import { type BillingTerms, discountOf, priceOf } from './terms.ts';

const SECONDS_PER_HOUR = 3600n;

/** Consecutive payments of the same amount. */
export interface PaymentRun {
  /** Base units of each payment. */
  readonly amount: bigint;
  /** Credit in base units that each payment spends in addition to `amount`. */
  readonly creditSpent: bigint;
  /** Time at which the first of these payments is due. */
  readonly dueAt: Date;
  /** End of the time that the first of these payments covers. */
  readonly until: Date;
  /** Number of payments; null means that payments continue until the subscription ends. */
  readonly times: number | null;
}

export interface ScheduleTerms extends Omit<
  BillingTerms,
  'trialEndsAt' | 'billedFrom' | 'startsAt' | 'credit'
> {
  readonly trialHours: number | null;
  readonly planEndsAt: Date | null;
}

/** How a subscription begins if it resumes an account or results from a change of plan. */
export interface Beginning {
  /** Time to which the first payment is deferred; null if it is due at once. */
  readonly startsAt: Date | null;
  /** Credit in base units. The credit is spent before anything is collected. */
  readonly credit: bigint;
  /**
   * The running period of a resumed account. If `paid`, nothing is charged for the period. If
   * `credited`, the chain collects nothing more in the period, so only the credit can pay for the
   * rest.
   */
  readonly running?: { readonly start: Date; readonly state: 'unpaid' | 'paid' | 'credited' };
}

/**
 * Returns the payments of a subscription that begins at `startsAt`. If only a part of a period is
 * charged and the charge is below `minimum` (base units), the result has no payment for this
 * period, because such a charge is not collected.
 */
export function scheduleOf(
  terms: ScheduleTerms,
  startsAt: Date,
  minimum: bigint,
  beginning: Beginning = { startsAt: null, credit: 0n },
): PaymentRun[] {
  const { running } = beginning;
  const anchor = unixSeconds(running?.start ?? startsAt);
  const length = periodLength(terms);
  const begun = unixSeconds(startsAt) + BigInt(terms.trialHours ?? 0) * SECONDS_PER_HOUR;
  const deferred = beginning.startsAt === null ? begun : unixSeconds(beginning.startsAt);
  const charged = deferred > begun ? deferred : begun;
  const planEnd = terms.planEndsAt === null ? null : unixSeconds(terms.planEndsAt);
  const price = { ...terms, trialEndsAt: timeOf(charged), billedFrom: null };
  const runs: PaymentRun[] = [];
  let left = terms.discountPeriods;
  let { credit } = beginning;
  // Begins with the period in which the trial or the deferral ends. Nothing is due before.
  let start = anchor + ((charged - anchor) / length) * length;
  while (planEnd === null || start < planEnd) {
    const now = { ...price, discountPeriods: left, credit };
    const wholePeriods = planEnd === null ? null : Number((planEnd - start) / length);
    const isCut = wholePeriods === 0;
    const end = isCut && planEnd !== null ? planEnd : start + length;
    const first = { dueAt: timeOf(charged > start ? charged : start), until: timeOf(end) };
    const paid = start === anchor && running !== undefined ? running.state : 'unpaid';
    if (charged > start || isCut || paid !== 'unpaid' || spendsPart(now, minimum)) {
      // In a credited period the chain allows no pull, so only the credit can pay.
      const limits = paid === 'credited' ? { minimum: 0n, room: 0n } : { minimum };
      const invoice = drawUp(now, { start, end }, limits);
      if (paid !== 'paid' && invoice.total > 0n) {
        const { amountDue: amount, creditApplied: creditSpent } = invoice;
        runs.push({ amount, creditSpent, ...first, times: 1 });
        if (left !== null && left > 0) left -= 1;
        credit -= creditSpent;
      }
      start += length;
      continue;
    }
    const discounts = discountOf(now)?.periodsLeft ?? null;
    const fullPrice = priceOf(now);
    const byCredit = credit >= fullPrice ? Number(credit / fullPrice) : null;
    const times = least(least(discounts, wholePeriods), byCredit);
    const amounts =
      byCredit === null
        ? { amount: fullPrice, creditSpent: 0n }
        : { amount: 0n, creditSpent: fullPrice };
    runs.push({ ...amounts, ...first, times });
    if (times === null) break;
    if (discounts !== null && left !== null) left -= times;
    credit -= amounts.creditSpent * BigInt(times);
    start += BigInt(times) * length;
  }
  return runs;
}

/** Whether the credit pays a part, but not all, of the price of a whole period. */
function spendsPart(terms: BillingTerms & { readonly credit: bigint }, minimum: bigint): boolean {
  const price = priceOf(terms);
  return terms.credit < price && creditFor(terms.credit, price, minimum) > 0n;
}

function least(one: number | null, other: number | null): number | null {
  return one === null ? other : other === null ? one : Math.min(one, other);
}
