import type { ReactElement } from 'react';

const day = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric' });
const minute = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
});

/** A time in the reader's zone, with UTC as its title. */
export function Time({
  at,
  dateOnly = false,
}: {
  at: string | Date;
  dateOnly?: boolean;
}): ReactElement {
  const time = new Date(at);
  const utc = `${time.toISOString().replace('T', ' ').slice(0, 19)} UTC`;
  return (
    <time dateTime={time.toISOString()} title={utc}>
      {(dateOnly ? day : minute).format(time)}
    </time>
  );
}
