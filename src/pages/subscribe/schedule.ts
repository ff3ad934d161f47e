// Converts the payments of a subscription to lines of the page: the payment of today, the next
// payments and the later payments.
import type { components } from '../../client/openapi.ts';

type PublicPlan = components['schemas']['PublicPlan'];

export interface PaymentLine {
  /** Base units of each payment. */
  readonly amount: string;
  /** Time at which the payment is due. null means today. */
  readonly at: Date | null;
  /** End of the time that the payment covers, if that time is shorter than a period. */
  readonly until: Date | null;
  /** Number of payments, one per period. null means until the subscription ends. */
  readonly times: number | null;
  /** Whether an earlier line exists. */
  readonly isLater: boolean;
}

const HOUR_MS = 3_600_000;
/** Maximum number of equal payments for which each payment has its own line. */
const MAX_LISTED = 2;

export function linesOf({
  schedule,
  periodHours,
  trialHours,
}: Pick<PublicPlan, 'schedule' | 'periodHours' | 'trialHours'>): PaymentLine[] {
  const period = periodHours * HOUR_MS;
  const lines: PaymentLine[] = [];
  const add = (amount: string, at: Date, more: Pick<PaymentLine, 'times' | 'until'>) => {
    const isToday = lines.length === 0 && trialHours === null;
    lines.push({ amount, at: isToday ? null : at, isLater: lines.length > 0, ...more });
  };
  for (const { amount, dueAt, until, times } of schedule) {
    const due = new Date(dueAt).getTime();
    const end = new Date(until);
    const isPart = end.getTime() - due < period;
    // A payment today has its own line. If the equal payments are few, each has its own line too.
    const alone = times !== null && times <= MAX_LISTED ? times : lines.length === 0 ? 1 : 0;
    for (let place = 0; place < alone; place += 1)
      add(amount, new Date(due + place * period), { times: 1, until: isPart ? end : null });
    if (times === null || times > alone)
      add(amount, new Date(due + alone * period), {
        times: times === null ? null : times - alone,
        until: null,
      });
  }
  return lines;
}
