// The future payments that the service shows to a subscriber before subscribing: their schema and
// their values.
import { Type } from '@sinclair/typebox';
import { timeOf } from '../../chain/time.ts';
import type { DiscountTerms } from '../../db/offers/terms.ts';
import { type Beginning, type PaymentRun, scheduleOf } from '../../domain/invoices/schedule.ts';
import type { RunningPeriod } from '../../domain/registration/first-payment.ts';
import { Amount, nullable, Time } from './fields.ts';

export const Schedule = Type.Array(
  Type.Object({
    amount: { ...Amount, description: 'Each payment, base units.' },
    creditSpent: {
      ...Amount,
      description: 'Credit of the customer that each payment spends beside amount, base units.',
    },
    dueAt: { ...Time, description: 'When the first of them is due.' },
    until: { ...Time, description: 'End of the time that the first of them pays for.' },
    times: nullable(
      Type.Integer({ description: 'Number of payments; null: until the subscription ends.' }),
    ),
  }),
  {
    title: 'Schedule',
    description:
      'The payments of a subscription that begins now, to the base unit: equal payments in one entry, a period apart, with the trial and, in a checkout session, with its discount. In a standing whose account still runs: those after subscribing resumes it.',
  },
);

type Begun = Pick<Beginning, 'startsAt' | 'credit'> & { readonly running: RunningPeriod | null };

const NOTHING_RUNS: Begun = { running: null, credit: 0n, startsAt: null };
const undiscounted: DiscountTerms = {
  discountPercent: null,
  discountAmount: null,
  discountPeriods: null,
};

/**
 * Returns the future payments of a new subscription. If subscribing resumes an on-chain account in
 * the middle of a billing period, `running` is that period. `credit` and `startsAt` are what the
 * subscription takes over. `minimum` is PLAN_MINIMUM_AMOUNT.
 */
export function scheduleView(
  plan: { amount: bigint; periodHours: number; trialHours: number | null; endsAt: Date | null },
  minimum: bigint,
  { discountPercent, discountAmount, discountPeriods }: DiscountTerms = undiscounted,
  { running, credit, startsAt }: Begun = NOTHING_RUNS,
): PaymentRun[] {
  const { amount, periodHours, trialHours, endsAt: planEndsAt } = plan;
  const price = { amount, periodHours, trialHours, planEndsAt };
  const discount = { discountPercent, discountAmount, discountPeriods };
  const terms = { ...price, ...discount };
  if (running === null) return scheduleOf(terms, new Date(), minimum);
  // chargedFrom already includes the trial.
  return scheduleOf({ ...terms, trialHours: null }, timeOf(running.chargedFrom), minimum, {
    startsAt,
    credit,
    running: { start: timeOf(running.start), state: 'unpaid' },
  });
}
