// Formats the lists of the sandbox screen: payments and webhook attempts, newest first.
import stringWidth from 'string-width';
import { formatUsdc } from '../../format.ts';
import { cells, type Part } from './line.tsx';
import { safeText } from './safe-text.ts';
import { moment } from './time.ts';
import { cut } from './width.ts';

export interface FlowPayment {
  id: string;
  occurredAt: Date;
  subscriberWallet: string;
  appName: string;
  gross: bigint;
  fee: bigint;
  net: bigint;
  failureReason: string | null;
}

export interface FlowWebhook {
  deliveryId: string;
  number: number;
  startedAt: Date;
  durationMs: number;
  httpStatus: number | null;
  error: string | null;
  eventType: string;
  appName: string;
}

/**
 * Returns a title and the newest payments as arrows from wallet to app, in at most `height` lines.
 */
export function paymentLines(payments: FlowPayment[], width: number, height: number): Part[][] {
  const title: Part[] = [{ text: cut("Money, by the chain's clock", width), tone: 'head' }];
  return [
    title,
    ...payments.map(
      ({ occurredAt, subscriberWallet, appName, gross, fee, net, failureReason }): Part[] => {
        const from = `${moment(occurredAt, true).slice(0, -3)}  ${shortWallet(subscriberWallet)}  `;
        if (failureReason !== null)
          return [
            { text: from, tone: 'dim' },
            ...toFit(
              [{ text: `──✗ ${formatUsdc(gross)}  ${safeText(failureReason)}`, tone: 'bad' }],
              width - stringWidth(from),
            ),
          ];
        const arrow: Part = { text: `── ${formatUsdc(gross)} ──▶ `, tone: 'good' };
        const to: Part = {
          text: `${safeText(appName)} ${formatUsdc(net)}, fee ${formatUsdc(fee)}`,
        };
        return [{ text: from, tone: 'dim' }, ...toFit([arrow, to], width - stringWidth(from))];
      },
    ),
  ].slice(0, Math.max(0, height));
}

/**
 * Returns a title and the newest webhook attempts with their results, in at most `height` lines.
 */
export function webhookLines(webhooks: FlowWebhook[], width: number, height: number): Part[][] {
  const title: Part[] = [{ text: cut('Webhooks, by the clock of Postgres', width), tone: 'head' }];
  return [
    title,
    ...webhooks.map(
      ({ startedAt, eventType, appName, number, httpStatus, error, durationMs }): Part[] => {
        const good = httpStatus !== null && httpStatus >= 200 && httpStatus < 300;
        const from = `${moment(startedAt, true)}  ${cells([[eventType, 20]])}  `;
        const outcome = httpStatus === null ? (error ?? '') : String(httpStatus);
        const arrow: Part = { text: `──▶ ${safeText(appName)}  `, tone: 'plain' };
        const result: Part = {
          text: `${outcome} in ${durationMs} ms${number === 1 ? '' : `, attempt ${number}`}`,
          tone: good ? 'good' : 'bad',
        };
        return [{ text: from, tone: 'dim' }, ...toFit([arrow, result], width - stringWidth(from))];
      },
    ),
  ].slice(0, Math.max(0, height));
}

const shortWallet = (address: string) =>
  address.length <= 11 ? address : `${address.slice(0, 5)}…${address.slice(-4)}`;

/** Cuts the parts so that together they take at most `width` columns. */
function toFit(parts: Part[], width: number): Part[] {
  let left = width;
  return parts.map((part) => {
    const text = cut(part.text, Math.max(0, left));
    left -= stringWidth(text);
    return { ...part, text };
  });
}
