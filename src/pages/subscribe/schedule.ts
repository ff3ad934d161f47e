// Converts a plan's schedule of payments to the lines that the page shows. A line has one payment,
// or several payments of the same amount.
import type { components } from '../../client/openapi.ts';

type PublicPlan = components['schemas']['PublicPlan'];
type Standing = components['schemas']['Standing'];

export interface PaymentLine {
  /** Base units of each payment. */
  readonly amount: string;
  /** Time at which the line's first payment is due. Null if it is due today. */
  readonly at: Date | null;
  /** End of the time that the payment covers, if that time is shorter than a period. */
  readonly until: Date | null;
  /** Number of payments, one per period. null means until the subscription ends. */
  readonly times: number | null;
  /** Whether an earlier line exists. */
  readonly isLater: boolean;
}

const HOUR_MS = 3_600_000;
/**
 * If at most this number of consecutive payments have the same amount, each of them has its own
 * line.
 */
const MAX_LISTED = 2;

export function linesOf({
  schedule,
  periodHours,
  trialHours,
  usdcNeeded,
  change = null,
}: Pick<PublicPlan, 'schedule' | 'periodHours' | 'trialHours'> &
  Partial<Pick<Standing, 'usdcNeeded'>> & {
    readonly change?: { readonly startsAt: string | null } | null;
  }): PaymentLine[] {
  const period = periodHours * HOUR_MS;
  const lines: PaymentLine[] = [];
  const add = (amount: string, at: Date, more: Pick<PaymentLine, 'times' | 'until'>) => {
    // A resumed account may already have paid for the current period. Nothing is then due today.
    const isPaid = usdcNeeded === '0' && amount !== '0';
    const isDeferred = trialHours !== null || (change !== null && change.startsAt !== null);
    const isToday = lines.length === 0 && !isDeferred && !isPaid;
    lines.push({ amount, at: isToday ? null : at, isLater: lines.length > 0, ...more });
  };
  for (const { amount, dueAt, until, times } of schedule) {
    const due = new Date(dueAt).getTime();
    const end = new Date(until);
    const isPart = end.getTime() - due < period;
    // `listedOneByOne` is the number of payments of this entry that get a line each. In a short
    // entry (at most MAX_LISTED payments), each payment gets a line. In a longer entry, only the
    // first payment of the whole schedule gets a line. The other payments share one line.
    const listedOneByOne =
      times !== null && times <= MAX_LISTED ? times : lines.length === 0 ? 1 : 0;
    for (let index = 0; index < listedOneByOne; index += 1)
      add(amount, new Date(due + index * period), { times: 1, until: isPart ? end : null });
    if (times === null || times > listedOneByOne)
      add(amount, new Date(due + listedOneByOne * period), {
        times: times === null ? null : times - listedOneByOne,
        until: null,
      });
  }
  return lines;
}
