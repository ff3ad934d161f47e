import { isCalendarDay } from '../../format.ts';

/** Formats a time in UTC to the second, as in 2026-11-21 09:00:01. `short` omits the year. */
export function moment(time: Date, short = false): string {
  return time
    .toISOString()
    .slice(short ? 5 : 0, 19)
    .replace('T', ' ');
}

/** Formats a time in UTC to the millisecond, as in 2026-11-21 09:00:01.123. */
export function exactMoment(time: Date): string {
  return time.toISOString().slice(0, 23).replace('T', ' ');
}

/** Formats a duration in one unit, such as 3 s, 5 min, 2 h or 4 d. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800
    ? `${Math.floor(seconds / 3600)} h`
    : `${Math.floor(seconds / 86_400)} d`;
}

const units = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Parses a typed time. The text is an ISO 8601 time (in UTC if the text has no zone), or a duration
 * before `now` such as 30m, 6h or 7d. Returns undefined for any other text.
 */
export function parseMoment(text: string, now: Date): Date | undefined {
  const ago = /^(\d{1,5})([mhd])$/.exec(text);
  if (ago !== null)
    return new Date(now.getTime() - Number(ago[1]) * units[ago[2] as keyof typeof units]);
  const iso =
    /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?))?(Z|[+-]\d{2}:?\d{2})?$/.exec(
      text,
    );
  if (iso?.[1] === undefined || !isCalendarDay(iso[1])) return undefined;
  const time = new Date(`${iso[1]}T${iso[2] ?? '00:00'}${iso[3] ?? 'Z'}`);
  return Number.isNaN(time.getTime()) ? undefined : time;
}
