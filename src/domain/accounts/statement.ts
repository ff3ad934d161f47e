// A month's statement: its range in UTC, and its totals. Pure.
import type { MonthRange, StatementDay } from '../../db/money/statements.ts';

/** The days of a month such as `2026-01`, in UTC. */
export function monthRange(month: string): MonthRange {
  const [year = 0, number = 0] = month.split('-').map(Number);
  return { from: new Date(Date.UTC(year, number - 1, 1)), to: new Date(Date.UTC(year, number, 1)) };
}

interface StatementSums extends Omit<StatementDay, 'day'> {
  /** `net` minus refunds. Negative if the month has more refunds than payments. */
  netAfterRefunds: string;
}

/** Returns the sums of the month and of each day. */
export function statementOf(
  days: readonly StatementDay[],
): StatementSums & { daily: (StatementSums & { date: string })[] } {
  const money = (field: 'gross' | 'fees' | 'net' | 'refunded' | 'sponsoredLamports') =>
    days.reduce((sum, day) => sum + BigInt(day[field]), 0n).toString();
  const count = (field: 'payments' | 'refunds') => days.reduce((sum, day) => sum + day[field], 0);
  const totals = {
    gross: money('gross'),
    fees: money('fees'),
    net: money('net'),
    refunded: money('refunded'),
    sponsoredLamports: money('sponsoredLamports'),
    payments: count('payments'),
    refunds: count('refunds'),
  };
  return {
    ...withRest(totals),
    daily: days.map(({ day, ...sums }) => ({
      date: day.toISOString().slice(0, 10),
      ...withRest(sums),
    })),
  };
}

function withRest(sums: Omit<StatementDay, 'day'>): StatementSums {
  return { ...sums, netAfterRefunds: (BigInt(sums.net) - BigInt(sums.refunded)).toString() };
}
