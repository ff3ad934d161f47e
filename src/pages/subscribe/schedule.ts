// The payments of a subscription as lines of the page: what is paid today, next and after.
import type { components } from '../../client/openapi.ts';

type PublicPlan = components['schemas']['PublicPlan'];

export interface PaymentLine {
  /** Base units of each payment. */
  readonly amount: string;
  /** When it is due. Null: today. */
  readonly at: Date | null;
  /** End of the time that it pays for, when that is less than a period. */
  readonly until: Date | null;
  /**
   * Number of payments, a period apart. Null: until the subscription ends. A single payment is 1.
   */
  readonly times: number | null;
  /** Whether other payments come before it. */
  readonly isLater: boolean;
}

const HOUR_MS = 3_600_000;
/** Equal payments up to this number have one line each. */
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
    // A payment today has a line of its own, and so have the payments that a short list can name.
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
