// Formats one delivery as lines of text: the request, the attempts and their results.
import { isUtf8 } from 'node:buffer';
import type { DeliveryItem } from './deliveries-state.ts';
import type { Tone } from './line.tsx';
import { prettyJson } from './pretty-json.ts';
import { bytesAsLines, safeLines, safeText } from './safe-text.ts';
import { exactMoment, span } from './time.ts';
import { fit, wrap } from './width.ts';

export interface AttemptView {
  number: number;
  startedAt: Date;
  durationMs: number;
  httpStatus: number | null;
  error: string | null;
  response: Buffer | null;
  address: string | null;
  /**
   * Alternating names and values of the headers, or a text that explains why the headers are
   * unknown.
   */
  headers: string[] | string;
}

export interface WholeItem extends DeliveryItem {
  appId: string;
  webhookId: string;
  eventId: string;
  merchant: string;
  replayOf: string | null;
  nextAttemptAt: Date | null;
  finishedAt: Date | null;
  endpointDeletedAt: Date | null;
  /** The request body, as it was or will be sent. */
  body: string;
  attemptLog: AttemptView[];
}

export interface StyledLine {
  text: string;
  tone?: Tone;
}

// Maximum number of lines shown of a body. Requests have a few hundred bytes and stored responses
// at most 4 KiB, so only unusual bodies are cut.
const LINES_SHOWN = 2000;

/**
 * Returns the lines of a delivery. `attempt` is the number of the attempt whose request and
 * response are shown; null shows the last attempt.
 */
export function deliveryLines(
  item: WholeItem,
  attempt: number | null,
  { width, now }: { width: number; now: Date },
): StyledLine[] {
  const shown =
    attempt === null
      ? item.attemptLog.at(-1)
      : item.attemptLog.find(({ number }) => number === attempt);
  const body = prettyJson(item.body);
  const lines: StyledLine[] = [
    ...facts(item, now),
    { text: '' },
    { text: 'Attempts', tone: 'head' },
    ...(item.attemptLog.length === 0
      ? [{ text: '  none yet' }]
      : item.attemptLog.map((each) => attemptLine(each, each === shown))),
    { text: '' },
    { text: `Request${shown === undefined ? '' : ` of attempt ${shown.number}`}`, tone: 'head' },
    { text: `  POST ${safeText(item.url)}` },
    ...headerLines(shown),
    { text: '' },
    ...indented(body === undefined ? safeLines(item.body) : safeLines(body)),
    ...(shown === undefined ? [] : responseLines(shown)),
  ];
  return lines.flatMap(({ text, ...tone }) =>
    wrap(text, width).map((part) => ({ text: part, ...tone })),
  );
}

function facts(item: WholeItem, now: Date): StyledLine[] {
  const { status, attempts, nextAttemptAt, finishedAt, endpointDeletedAt, replayOf } = item;
  const fact = (name: string, value: string): StyledLine => ({
    text: `${fit(name, 10)}${safeText(value)}`,
  });
  const due = nextAttemptAt === null ? 0 : nextAttemptAt.getTime() - now.getTime();
  const next =
    nextAttemptAt === null
      ? ''
      : `next attempt ${exactMoment(nextAttemptAt)}, ${due > 0 ? `in ${span(due)}` : 'due now'}`;
  const end = finishedAt === null ? next : `ended ${exactMoment(finishedAt)}`;
  return [
    fact('Delivery', item.id),
    fact('Status', `${status} after ${attempts} of 6 attempts${end === '' ? '' : `, ${end}`}`),
    fact('Event', `${item.eventType} ${item.eventId}`),
    fact('App', `${item.appName} ${item.appId}`),
    fact('Merchant', item.merchant),
    fact(
      'Webhook',
      `${item.webhookId}${endpointDeletedAt === null ? '' : `, deleted ${exactMoment(endpointDeletedAt)}`}`,
    ),
    fact('Queued', exactMoment(item.createdAt)),
    ...(replayOf === null ? [] : [fact('Replay of', replayOf)]),
  ];
}

function attemptLine(
  { number, startedAt, durationMs, httpStatus, error, address }: AttemptView,
  chosen: boolean,
): StyledLine {
  const outcome = httpStatus === null ? (error ?? '') : `HTTP ${httpStatus}`;
  const text = `${chosen ? '>' : ' '} ${number}  ${exactMoment(startedAt)}  ${fit(`${durationMs} ms`, 8)}  ${fit(outcome, 11)}  ${safeText(address ?? '')}`;
  return {
    text,
    tone: httpStatus !== null && httpStatus >= 200 && httpStatus < 300 ? 'good' : 'bad',
  };
}

function headerLines(shown: AttemptView | undefined): StyledLine[] {
  if (shown === undefined) return [{ text: '  It is signed when it is sent.', tone: 'dim' }];
  const { headers } = shown;
  if (typeof headers === 'string') return [{ text: `  ${headers}`, tone: 'warn' }];
  return headers.flatMap((name, at) =>
    at % 2 === 0 ? [{ text: `  ${name}: ${safeText(headers[at + 1] ?? '')}` }] : [],
  );
}

function responseLines({ number, httpStatus, error, response }: AttemptView): StyledLine[] {
  const title: StyledLine = { text: `Response to attempt ${number}`, tone: 'head' };
  if (httpStatus === null)
    return [{ text: '' }, title, { text: `  none: ${error ?? ''}`, tone: 'bad' }];
  const bytes = response ?? Buffer.alloc(0);
  const size = `${bytes.length} bytes${bytes.length >= 4096 ? ', cut there' : ''}`;
  const lines = bytesAsLines(bytes);
  const pretty = isUtf8(bytes) ? prettyJson(bytes.toString('utf8')) : undefined;
  return [
    { text: '' },
    title,
    { text: `  HTTP ${httpStatus}, ${size}`, tone: 'dim' },
    ...(bytes.length === 0 ? [] : indented(pretty === undefined ? lines : safeLines(pretty))),
  ];
}

function indented(lines: string[]): StyledLine[] {
  return lines.slice(0, LINES_SHOWN).map((line) => ({ text: `  ${line}` }));
}
