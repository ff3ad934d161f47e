import { type ReactElement, useSyncExternalStore } from 'react';
import { Button } from './parts.tsx';

const dayParts = { year: 'numeric', month: 'short', day: 'numeric' } as const;
const minuteParts = { ...dayParts, hour: '2-digit', minute: '2-digit' } as const;
const formats = (timeZone: string | undefined) => ({
  day: new Intl.DateTimeFormat(undefined, { ...dayParts, timeZone }),
  minute: new Intl.DateTimeFormat(undefined, { ...minuteParts, timeZone }),
});
const local = formats(undefined);
const utc = formats('UTC');

// The formats of the chosen time zone, which all times of the page use.
let shown = local;
const watchers = new Set<() => void>();

function useFormats(): typeof local {
  return useSyncExternalStore(
    (changed) => {
      watchers.add(changed);
      return () => watchers.delete(changed);
    },
    () => shown,
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
  const { day, minute } = useFormats();
  const time = new Date(at);
  const title = `${time.toISOString().replace('T', ' ').slice(0, 19)} UTC`;
  return (
    <time dateTime={time.toISOString()} title={title}>
      {(dateOnly ? day : minute).format(time)}
    </time>
  );
}

/** Shows which time zone is used, and switches it for the whole page. */
export function ZoneSwitch(): ReactElement {
  const isUtc = useFormats() === utc;
  const zone = local.day.resolvedOptions().timeZone;
  return (
    <Button
      kind="link"
      onClick={() => {
        shown = isUtc ? local : utc;
        for (const changed of watchers) changed();
      }}
    >
      Times: {isUtc ? 'UTC' : (zone.split('/').at(-1)?.replaceAll('_', ' ') ?? zone)}
      <span className="visually-hidden"> Show {isUtc ? zone : 'UTC'}</span>
    </Button>
  );
}
