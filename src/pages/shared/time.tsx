import { type ReactElement, useSyncExternalStore } from 'react';
import { locale } from './language.ts';

const dayParts = { year: 'numeric', month: 'short', day: 'numeric' } as const;
const minuteParts = { ...dayParts, hour: '2-digit', minute: '2-digit' } as const;

// True if the reader chose to see all times of the page in UTC.
let isUtc = false;
const watchers = new Set<() => void>();

/** Switches all times of the page between UTC and the reader's time zone. */
export function switchZone(): void {
  isUtc = !isUtc;
  for (const changed of watchers) changed();
}

export function useUtc(): boolean {
  return useSyncExternalStore(
    (changed) => {
      watchers.add(changed);
      return () => watchers.delete(changed);
    },
    () => isUtc,
  );
}

/**
 * Shows a time in the reader's time zone, with UTC in the title attribute. If the reader chose UTC,
 * shows the time in UTC.
 */
export function Time({
  at,
  dateOnly = false,
}: {
  at: string | Date;
  dateOnly?: boolean;
}): ReactElement {
  const timeZone = useUtc() ? 'UTC' : undefined;
  const time = new Date(at);
  const title = `${time.toISOString().replace('T', ' ').slice(0, 19)} UTC`;
  const format = new Intl.DateTimeFormat(locale, {
    ...(dateOnly ? dayParts : minuteParts),
    timeZone,
  });
  return (
    <time dateTime={time.toISOString()} title={title}>
      {format.format(time)}
    </time>
  );
}
