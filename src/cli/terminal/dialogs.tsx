// The dialogs of the deliveries screen: choosing from a list, entering a time, confirming a replay,
// and the help.
import type { ReactNode } from 'react';
import type { Mode, Option } from './deliveries-state.ts';
import { Line } from './line.tsx';
import { safeText } from './safe-text.ts';
import { wrap } from './width.ts';

/** Shows the choices that match the typed text. */
export function Choice({
  mode,
  options,
  height,
}: {
  mode: Extract<Mode, { name: 'choose' }>;
  options: Option[];
  height: number;
}): ReactNode {
  const room = Math.max(1, height - 2);
  const at = Math.min(mode.at, Math.max(0, options.length - 1));
  const from = Math.max(0, at - room + 1);
  return (
    <>
      <Line
        parts={[
          { text: `Which ${mode.of}? `, tone: 'head' },
          { text: safeText(mode.typed) },
          { text: '_' },
        ]}
      />
      {options.slice(from, from + room).map(({ label, value }, index) => (
        <Line
          key={value ?? ''}
          parts={[
            {
              text: `${from + index === at ? '>' : ' '} ${safeText(label)}`,
              tone: from + index === at ? 'chosen' : 'plain',
            },
          ]}
        />
      ))}
      {options.length === 0 && (
        <Line
          parts={[
            {
              text:
                mode.of === 'app' ? '  no app has that in its name; a whole id will do' : '  none',
            },
          ]}
        />
      )}
    </>
  );
}

/** Shows the input line for a time. */
export function Entry({ mode }: { mode: Extract<Mode, { name: 'enter' }> }): ReactNode {
  return (
    <>
      <Line
        parts={[
          { text: `Queued ${mode.of}: `, tone: 'head' },
          { text: safeText(mode.typed) },
          { text: '_' },
        ]}
      />
      {mode.fault === null ? (
        <Line
          parts={[
            {
              text: '2026-11-21 09:00 (UTC), or 30m, 6h, 7d before now; nothing for no limit',
              tone: 'dim',
            },
          ]}
        />
      ) : (
        <Line parts={[{ text: mode.fault, tone: 'bad' }]} />
      )}
    </>
  );
}

/** Shows what a replay will do and asks the user to confirm. */
export function Confirm({
  mode,
  width,
}: {
  mode: Extract<Mode, { name: 'confirm' }>;
  width: number;
}): ReactNode {
  const { ids, preview, failure, running } = mode;
  const text = failure ?? preview?.text ?? 'Counting...';
  const question =
    preview === null
      ? ''
      : preview.count === 0
        ? 'Nothing to send; any key goes back.'
        : `Send ${preview.count} again? y/N`;
  return (
    <>
      <Line
        parts={[
          {
            text: `Replay of ${ids.length === 1 ? `delivery ${ids[0] ?? ''}` : `${ids.length} deliveries`}`,
            tone: 'head',
          },
        ]}
      />
      {wrap(safeText(text), width).map((line, index) => (
        <Line key={index} parts={[{ text: line, tone: failure === null ? 'plain' : 'bad' }]} />
      ))}
      <Line parts={[{ text: running ? 'Queueing...' : question, tone: 'head' }]} />
    </>
  );
}

const help: readonly (readonly [string, string])[] = [
  ['up down, j k', 'move; PgUp PgDn, Home End (g G) go further'],
  ['Enter', 'open the delivery: attempts, request, response'],
  ['left right', 'in a delivery: the attempt whose request and response are shown'],
  ['n p', 'in a delivery: the next, the previous of the list'],
  ['Esc', 'back to the list'],
  ['space', 'mark, to replay several; c clears the marks'],
  ['r', 'replay the marked ones, or the one under the cursor; asks first'],
  ['s t a', 'filter by status, type, app'],
  ['f u', 'filter by time: queued since, until'],
  ['x', 'clear the filters'],
  ['l', 'look again now'],
  ['q, ctrl-C', 'leave'],
];

export function Help(): ReactNode {
  return help.map(([keys, does]) => (
    <Line key={keys} parts={[{ text: `  ${keys.padEnd(14)}`, tone: 'head' }, { text: does }]} />
  ));
}
