// `billing sandbox` on a terminal: totals, the newest payments and the newest webhook attempts.
import { useApp } from 'ink';
import { type ReactNode, useEffect, useState } from 'react';
import stringWidth from 'string-width';
import { formatUsdc } from '../../format.ts';
import { type FlowPayment, type FlowWebhook, paymentLines, webhookLines } from './flow-lines.ts';
import { Ends, Frame, Keys, Line, type Part, type Tone } from './line.tsx';
import { type Freshness, freshness } from './poll.ts';
import { safeText } from './safe-text.ts';
import { useKeys, useNow, useSize } from './screen.tsx';
import { moment } from './time.ts';
import { cut, wrap } from './width.ts';

export interface Flow {
  chainTime: Date;
  totals: {
    active: number;
    pastDue: number;
    cancelled: number;
    expired: number;
    succeeded: number;
    refused: number;
    gross: bigint;
    fees: bigint;
    net: bigint;
    taken: number;
    waiting: number;
    givenUp: number;
    attempts: number;
  };
  /** The newest payments, newest first. The number of payments read is enough to fill a screen. */
  payments: FlowPayment[];
  webhooks: FlowWebhook[];
  /** Number of restarts of the sandbox's processes. */
  restarts: number;
}

export interface SandboxView extends Freshness {
  flow: Flow | null;
  /** The scenario's current step as a sentence. */
  step: string;
  /** Lines of the scenario's result; null until the scenario is over. */
  outcome: { text: string; tone: Tone }[] | null;
}

export interface SandboxSource {
  apiUrl: string;
  /** Name and URL of each browser page of the demo. */
  pages: readonly (readonly [name: string, url: string])[];
  /** A text about where the files of keys and wallets are, or how to get these files. */
  wallets: string;
  watch(report: (view: SandboxView) => void): { stop(): void };
}

/** What the user wants next: leave, see the access data, or see the deliveries. */
export type SandboxCommand = 'leave' | 'access' | 'deliveries';

interface Props {
  source: SandboxSource;
  onCommand: (command: SandboxCommand) => void;
}

const keys = [
  ['q', 'stop everything'],
  ['k', 'URLs, keys and tokens'],
  ['d', 'deliveries'],
] as const;
const commands: Record<string, SandboxCommand> = {
  q: 'leave',
  'ctrl-c': 'leave',
  k: 'access',
  d: 'deliveries',
};

const nothing: SandboxView = {
  flow: null,
  step: '',
  outcome: null,
  asOf: null,
  waitingSince: null,
  failure: null,
};
// Number of lines outside the body: title and progress above, the API's URL and the key help below.
const FRAME_LINES = 4;
// Minimum width in columns for showing payments and webhooks side by side.
const WIDE_COLUMNS = 150;

export function SandboxScreen({ source, onCommand }: Props): ReactNode {
  const { exit } = useApp();
  const size = useSize();
  const now = useNow();
  const [view, setView] = useState(nothing);
  useEffect(() => {
    const watching = source.watch(setView);
    return () => watching.stop();
  }, [source]);
  useKeys((key) => {
    const command = commands[key];
    if (command === undefined) return;
    onCommand(command);
    exit();
  });

  const { columns, rows } = size;
  const { flow, step, outcome } = view;
  const time = flow === null ? '' : `   ${moment(flow.chainTime)} on the chain`;
  const summary = [...pageLines(source, columns), ...summaryLines(view, columns)];
  const room = Math.max(0, rows - 1 - FRAME_LINES - summary.length);
  return (
    <Frame
      size={size}
      head={
        <>
          <Ends
            left={{ text: cut(`Sandbox${time}`, columns), tone: 'head' }}
            right={freshness(view, now)}
            width={columns}
          />
          <Line
            parts={[
              { text: cut(safeText(step), columns), tone: outcome === null ? 'warn' : 'dim' },
            ]}
          />
        </>
      }
      foot={
        <>
          <Ends
            left={{ text: source.apiUrl, tone: 'dim' }}
            right={{
              text:
                flow === null || flow.restarts === 0
                  ? ''
                  : `${flow.restarts} restarts of killed processes`,
              tone: 'warn',
            }}
            width={columns}
          />
          <Keys keys={keys} width={columns} />
        </>
      }
    >
      {summary.map((parts, index) => (
        <Line key={index} parts={parts} />
      ))}
      {flow !== null && <Lists flow={flow} width={columns} height={room} />}
    </Frame>
  );
}

/** Returns one line for each browser page of the demo, and one line about the wallet files. */
function pageLines({ pages, wallets }: SandboxSource, width: number): Part[][] {
  const name = (text: string): Part => ({ text: text.padEnd(10), tone: 'head' });
  return [
    ...pages.map(([page, url]): Part[] => [name(page), { text: cut(url, width - 10), link: url }]),
    [name('Wallets'), { text: cut(safeText(wallets), width - 10), tone: 'dim' }],
  ];
}

/**
 * Returns one line each for payers, payments, USDC and webhooks, then the scenario's result when
 * the scenario is over.
 */
function summaryLines({ flow, outcome }: SandboxView, width: number): Part[][] {
  if (flow === null) return [[{ text: 'Reading...', tone: 'dim' }]];
  const {
    active,
    pastDue,
    cancelled,
    expired,
    succeeded,
    refused,
    gross,
    fees,
    net,
    taken,
    waiting,
    givenUp,
    attempts,
  } = flow.totals;
  const count = (number: number, noun: string, tone: Tone): Part => ({
    text: `${number} ${noun}   `,
    tone: number === 0 ? 'dim' : tone,
  });
  const name = (text: string): Part => ({ text: text.padEnd(10), tone: 'head' });
  return [
    [
      name('Payers'),
      count(active, 'active', 'good'),
      count(pastDue, 'past due', 'warn'),
      count(cancelled, 'cancelled', 'plain'),
      count(expired, 'expired', 'plain'),
    ],
    [
      name('Payments'),
      count(succeeded, 'collected', 'good'),
      count(refused, 'could not be', 'bad'),
    ],
    [
      name('USDC'),
      {
        text: cut(
          `${formatUsdc(gross)} = ${formatUsdc(net)} to merchants + ${formatUsdc(fees)} fees`,
          width - 10,
        ),
      },
    ],
    [
      name('Webhooks'),
      count(taken, 'delivered', 'good'),
      count(waiting, 'waiting', 'warn'),
      count(givenUp, 'failed', 'bad'),
      { text: `${attempts} requests` },
    ],
    ...(outcome ?? []).flatMap(({ text, tone }) =>
      wrap(safeText(text), width).map((line) => [{ text: line, tone }]),
    ),
    [{ text: '' }],
  ];
}

function Lists({ flow, width, height }: { flow: Flow; width: number; height: number }): ReactNode {
  if (width >= WIDE_COLUMNS) {
    const half = Math.floor((width - 3) / 2);
    const left = paymentLines(flow.payments, half, height);
    const right = webhookLines(flow.webhooks, half, height);
    return Array.from({ length: Math.max(left.length, right.length) }, (_, index) => {
      const shown = left[index] ?? [];
      const gap = half + 3 - shown.reduce((sum, { text }) => sum + stringWidth(text), 0);
      return (
        <Line
          key={index}
          parts={[...shown, { text: ' '.repeat(Math.max(0, gap)) }, ...(right[index] ?? [])]}
        />
      );
    });
  }
  const upper = Math.ceil(height / 2);
  return [
    ...paymentLines(flow.payments, width, upper),
    ...webhookLines(flow.webhooks, width, height - upper),
  ].map((parts, index) => <Line key={index} parts={parts} />);
}
