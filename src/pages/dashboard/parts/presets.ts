// The ranges of days, such as "Last month", that a merchant can choose for an export. Days are in
// UTC, as in statements.
import { DAY_MS } from './days.ts';

export const presets = [
  ['this-month', 'This month'],
  ['last-month', 'Last month'],
  ['this-quarter', 'This quarter'],
  ['last-quarter', 'Last quarter'],
  ['this-year', 'This year'],
  ['last-30-days', 'Last 30 days'],
] as const;

export type Preset = (typeof presets)[number][0];

/**
 * A range of days. `from` is 00:00 UTC of the first day, and `to` is 00:00 UTC of the day after the
 * last day.
 */
export interface Days {
  readonly from: Date;
  readonly to: Date;
}

/** Returns the days of a preset. The current month, quarter or year includes its future days. */
export function daysOf(preset: Preset, now: Date): Days {
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  const quarter = month - (month % 3);
  const months = (first: number, count: number): Days => ({
    from: new Date(Date.UTC(year, first)),
    to: new Date(Date.UTC(year, first + count)),
  });
  switch (preset) {
    case 'this-month':
      return months(month, 1);
    case 'last-month':
      return months(month - 1, 1);
    case 'this-quarter':
      return months(quarter, 3);
    case 'last-quarter':
      return months(quarter - 3, 3);
    case 'this-year':
      return months(0, 12);
    case 'last-30-days':
      return lastDays(30, now);
  }
}

/** Returns the last `count` days, including today. */
export function lastDays(count: number, now: Date): Days {
  const to = (Math.floor(now.getTime() / DAY_MS) + 1) * DAY_MS;
  return { from: new Date(to - count * DAY_MS), to: new Date(to) };
}

/** Returns the first and the last day of a range in the form `2026-11-01`. */
export const datesOf = ({ from, to }: Days): readonly [first: string, last: string] => [
  from.toISOString().slice(0, 10),
  new Date(to.getTime() - DAY_MS).toISOString().slice(0, 10),
];
