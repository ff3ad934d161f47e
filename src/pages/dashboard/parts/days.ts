// The first and the last day of the rows that a list shows. The URL's fragment stores the days:
// `from=2026-01-01&to=2026-01-31`. Days are in UTC, so that a link shows the same rows to every
// reader.
import { isCalendarDay } from '../../../format.ts';
import type { Filters } from './hash.ts';

export const DAY_MS = 86_400_000;

/** The time range for the API: `since` is inclusive, `until` exclusive. */
export interface Range {
  readonly since?: string;
  readonly until?: string;
}

export interface ListDays {
  /** The text of the first day in the fragment. The text may be incomplete while the user types. */
  readonly first: string;
  readonly last: string;
  readonly range: Range;
  /** The reason why the days are not a range, or undefined. */
  readonly problem: string | undefined;
}

/**
 * Reads the days from the fragment. A text that is not a day, or a day before 1970, does not filter
 * the list.
 */
export function readDays({ from: first = '', to: last = '' }: Filters): ListDays {
  const [start, end] = [startOf(first), startOf(last)];
  const isReversed = start !== undefined && end !== undefined && start > end;
  return {
    first,
    last,
    range: {
      ...(start !== undefined && { since: new Date(start).toISOString() }),
      ...(end !== undefined && { until: new Date(end + DAY_MS).toISOString() }),
    },
    problem: isReversed
      ? `“From” (${first}) is after “To” (${last}). Choose a first day that is not after the last one.`
      : undefined,
  };
}

/** Returns the start of a day in UTC. Returns undefined for a text that is not a day. */
export const dayOf = (text: string): Date | undefined =>
  /^\d{4}-\d\d-\d\d$/.test(text) && isCalendarDay(text) ? new Date(`${text}T00:00:00Z`) : undefined;

/** The start of a day, or undefined for a day before 1970 or a text that is not a day. */
function startOf(text: string): number | undefined {
  const start = dayOf(text)?.getTime() ?? -1;
  return start < 0 ? undefined : start;
}
