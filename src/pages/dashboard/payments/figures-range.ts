// Reads the days of the overview's figures from the URL's fragment: `days=90`, or
// `from=2026-01-01&to=2026-03-31` with `to` as the last day. Days are in UTC.
import { DAY_MS, dayOf } from '../parts/days.ts';
import type { Filters } from '../parts/hash.ts';
import { type Days, lastDays } from '../parts/presets.ts';

export const ranges = [7, 30, 90, 365] as const;
const DEFAULT_DAYS = 30;
/** Maximum number of days for which the API computes figures. */
const MAX_DAYS = 366;

export interface FiguresRange {
  /**
   * If `choice` is a number, the range has this number of days and ends today. If `choice` is
   * `own`, the user chose the first and the last day.
   */
  readonly choice: (typeof ranges)[number] | 'own';
  /**
   * The text of the first day in the fragment, if `choice` is `own`. The text may be incomplete
   * while the user types.
   */
  readonly first: string;
  readonly last: string;
  /** Returns the range at the time `now`. Undefined if the chosen days are not a range. */
  readonly daysAt: ((now: Date) => Days) | undefined;
  /** The reason why the chosen days are not a range, or undefined. */
  readonly problem: string | undefined;
}

/**
 * Reads the range from the fragment. If the fragment has a number of days that the page does not
 * offer, the default number is used.
 */
export function readRange({ days, from, to }: Filters): FiguresRange {
  if (from === undefined && to === undefined) {
    const choice = ranges.find((range) => String(range) === days) ?? DEFAULT_DAYS;
    const daysAt = (now: Date) => lastDays(choice, now);
    return { choice, first: '', last: '', daysAt, problem: undefined };
  }
  const [first = '', last = ''] = [from, to];
  const customRange = { choice: 'own', first, last } as const;
  const [start, end] = [dayOf(first), dayOf(last)];
  if (start === undefined || end === undefined)
    return { ...customRange, daysAt: undefined, problem: 'Choose the first and the last day.' };
  const count = (end.getTime() - start.getTime()) / DAY_MS + 1;
  const problem =
    count < 1
      ? 'The first day must not be after the last one.'
      : count > MAX_DAYS
        ? `Choose at most ${MAX_DAYS} days.`
        : undefined;
  const range = { from: start, to: new Date(end.getTime() + DAY_MS) };
  return { ...customRange, daysAt: problem === undefined ? () => range : undefined, problem };
}
