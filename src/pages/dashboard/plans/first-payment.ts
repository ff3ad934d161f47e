// Computes the first payment of a plan that does not exist yet, for the preview of its page.

const HOUR_SECONDS = 3600;
/** Base units of a cent. */
const CENT = 10_000n;

/**
 * Returns the first payment in base units, rounded down: to whole cents if the amount is whole
 * cents. If the trial ends in the middle of a
 * period, only the rest of this period is charged. If the plan ends before the period ends, only
 * the time until the plan's end is charged (src/domain/invoices/draw-up.ts).
 */
export function firstPayment(
  {
    amount,
    periodHours,
    trialHours,
    endsAt,
  }: {
    amount: string;
    periodHours: number;
    trialHours: number | null;
    /** ISO 8601. */
    endsAt: string | null;
  },
  now: Date,
): bigint {
  const period = periodHours * HOUR_SECONDS;
  const from = (trialHours ?? 0) * HOUR_SECONDS;
  const periodEnd = (Math.floor(from / period) + 1) * period;
  const planEnd =
    endsAt === null
      ? periodEnd
      : Math.max(from, Math.floor((Date.parse(endsAt) - now.getTime()) / 1000));
  const charged = Math.min(periodEnd, planEnd) - from;
  const whole = BigInt(amount);
  const part = (whole * BigInt(charged)) / BigInt(period);
  return whole % CENT === 0n ? part - (part % CENT) : part;
}
