import type { ReactNode } from 'react';
import type { DeliveryFilter, DeliveryItem, ListView, State } from './deliveries-state.ts';
import { cells, Line, type Tone } from './line.tsx';
import { safeText } from './safe-text.ts';
import { moment } from './time.ts';

export const toneOfStatus: Record<string, Tone> = {
  delivered: 'good',
  failed: 'bad',
  pending: 'warn',
  cancelled: 'dim',
};

/** Returns the result of the last attempt: the HTTP status, or why there was no response. */
function outcome({
  lastStatus,
  lastError,
}: Pick<DeliveryItem, 'lastStatus' | 'lastError'>): string {
  return lastError ?? (lastStatus === null ? '' : String(lastStatus));
}

/**
 * Returns all columns except the leftmost column, which shows the cursor and the marks. All columns
 * together, including the leftmost column, take `width`.
 */
function columns(
  width: number,
): { title: string; width: number; cell: (row: DeliveryItem) => string }[] {
  const wide = width >= 130;
  const fixed = [
    {
      title: 'QUEUED, UTC',
      width: wide ? 19 : 14,
      cell: (row: DeliveryItem) => moment(row.createdAt, !wide),
    },
    { title: 'STATUS', width: 9, cell: (row: DeliveryItem) => row.status },
    { title: 'TYPE', width: 20, cell: (row: DeliveryItem) => row.eventType },
    { title: 'TRIES', width: 5, cell: (row: DeliveryItem) => String(row.attempts) },
    { title: 'LAST', width: 8, cell: (row: DeliveryItem) => outcome(row) },
  ];
  const used = 3 + fixed.reduce((sum, column) => sum + column.width + 2, 0);
  const app = (room: number) => ({
    title: 'APP',
    width: Math.max(4, room),
    cell: (row: DeliveryItem) => safeText(row.appName),
  });
  if (!wide) return [...fixed, app(width - used)];
  const rest = width - used - 38;
  const name = Math.min(24, Math.floor(rest / 3));
  return [
    ...fixed,
    { title: 'DELIVERY', width: 36, cell: (row) => row.id },
    app(name),
    { title: 'ENDPOINT', width: rest - name - 2, cell: (row) => safeText(row.url) },
  ];
}

/**
 * Shows the rows that fit into `height` lines, including the row of the cursor. The table has a
 * head when there is room for it.
 */
export function DeliveriesList({
  state,
  width,
  height,
}: {
  state: State;
  width: number;
  height: number;
}): ReactNode {
  const { list, index, marked } = state;
  const shown = columns(width);
  const headed = height > 1;
  const room = headed ? height - 1 : height;
  const wanted = Math.max(Math.min(state.offset, index), index - room + 1);
  // At the end of the list, earlier rows fill the screen, so that no line stays empty.
  const offset = Math.max(0, Math.min(wanted, list.rows.length - room));
  const rows = list.rows.slice(offset, offset + room);
  return (
    <>
      {headed && (
        <Line
          parts={[
            {
              text: `   ${cells(shown.map(({ title, width: columnWidth }) => [title, columnWidth]))}`,
              tone: 'dim',
            },
          ]}
        />
      )}
      {rows.map((row, line) => {
        const chosen = offset + line === index;
        const [before, status, after] = [shown.slice(0, 1), shown.slice(1, 2), shown.slice(2)].map(
          (part) => cells(part.map(({ cell, width: columnWidth }) => [cell(row), columnWidth])),
        );
        const mark = `${chosen ? '>' : ' '}${marked.has(row.id) ? '*' : ' '} `;
        if (chosen)
          return (
            <Line
              key={row.id}
              parts={[
                { text: `${mark}${before ?? ''}  ${status ?? ''}  ${after ?? ''}`, tone: 'chosen' },
              ]}
            />
          );
        return (
          <Line
            key={row.id}
            parts={[
              { text: `${mark}${before ?? ''}  ` },
              { text: status ?? '', tone: toneOfStatus[row.status] ?? 'plain' },
              { text: `  ${after ?? ''}` },
            ]}
          />
        );
      })}
      {rows.length === 0 && <Line parts={[{ text: `   ${emptiness(list)}`, tone: 'dim' }]} />}
    </>
  );
}

function emptiness({ asOf, readBackTo }: ListView): string {
  if (asOf !== null) return 'No delivery matches.';
  return readBackTo === null
    ? 'Reading...'
    : `Nothing yet, looked back to ${moment(readBackTo)} and going on...`;
}

/** Describes the filter in words, for the line above the list. */
export function filterInWords(
  { status, appId, endpointId, type, since, until }: DeliveryFilter,
  appName: string | undefined,
): string {
  const parts = [
    status === null ? '' : `status ${status}`,
    type === null ? '' : `type ${type}`,
    appId === null ? '' : `app ${safeText(appName ?? appId)}`,
    endpointId === null ? '' : `webhook ${endpointId}`,
    since === null ? '' : `since ${moment(since)}`,
    until === null ? '' : `until ${moment(until)}`,
  ].filter((part) => part !== '');
  return parts.length === 0 ? 'all of them' : parts.join(' · ');
}

/** Describes the cursor's position and the number of rows read so far. */
export function extent({ list, marked, index }: State): string {
  const { rows, more, asOf, readBackTo } = list;
  const searching =
    asOf === null && readBackTo !== null
      ? `, looked back to ${moment(readBackTo)} and going on`
      : '';
  const counted =
    rows.length === 0 ? '' : `${index + 1} of ${rows.length}${more ? ' or more' : ''}`;
  return [counted + searching, marked.size === 0 ? '' : `${marked.size} marked`]
    .filter((part) => part !== '')
    .join(' · ');
}
