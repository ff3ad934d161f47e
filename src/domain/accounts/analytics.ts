// Computes the figures of each day and of a range of days.
import type { DayRow } from '../../db/money/analytics.ts';

/**
 * Figures of one day or of a range of days. active, pastDue and mrr are the values at the end of
 * the day or range. successRate and churnRate are ratios. All other figures are sums.
 */
export interface Figures extends Omit<DayRow, 'day' | 'liveBefore'> {
  /** Succeeded payments divided by attempted payments; null when no payment was attempted. */
  successRate: number | null;
  /**
   * Number of cancelled and expired subscriptions, divided by the number of subscriptions that were
   * live at the start of the day or range. Null when no subscription was live.
   */
  churnRate: number | null;
}

type Movement = 'mrrNew' | 'mrrReactivation' | 'mrrExpansion' | 'mrrContraction' | 'mrrChurn';

export interface Report extends Figures {
  daily: (Figures & { date: string })[];
}

/** Builds the report of a range. `days` contains at least one day, in ascending order. */
export function reportOf(days: readonly DayRow[]): Report {
  const [first] = days;
  const last = days.at(-1);
  if (first === undefined || last === undefined) throw new Error('a range without days');
  const sum = (field: 'cancelled' | 'expired' | 'new' | 'paymentsSucceeded' | 'paymentsFailed') =>
    days.reduce((total, day) => total + day[field], 0);
  type Money = 'gross' | 'fees' | 'net' | 'refunded' | Movement;
  const money = (field: Money) =>
    days.reduce((total, day) => total + BigInt(day[field]), 0n).toString();
  const totals: DayRow = {
    ...last,
    liveBefore: first.liveBefore,
    mrrBefore: first.mrrBefore,
    mrrNew: money('mrrNew'),
    mrrReactivation: money('mrrReactivation'),
    mrrExpansion: money('mrrExpansion'),
    mrrContraction: money('mrrContraction'),
    mrrChurn: money('mrrChurn'),
    cancelled: sum('cancelled'),
    expired: sum('expired'),
    new: sum('new'),
    gross: money('gross'),
    fees: money('fees'),
    net: money('net'),
    refunded: money('refunded'),
    paymentsSucceeded: sum('paymentsSucceeded'),
    paymentsFailed: sum('paymentsFailed'),
  };
  return {
    ...figuresOf(totals),
    daily: days.map((day) => ({ date: day.day.toISOString().slice(0, 10), ...figuresOf(day) })),
  };
}

function figuresOf({ day: _day, liveBefore, ...figures }: DayRow): Figures {
  const { paymentsSucceeded, paymentsFailed, cancelled, expired } = figures;
  return {
    ...figures,
    successRate: ratio(paymentsSucceeded, paymentsSucceeded + paymentsFailed),
    churnRate: ratio(cancelled + expired, liveBefore),
  };
}

function ratio(part: number, whole: number): number | null {
  return whole === 0 ? null : Math.round((part / whole) * 1e6) / 1e6;
}
