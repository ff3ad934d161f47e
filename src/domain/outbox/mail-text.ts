// The texts of e-mails to merchants: plain text that says what to do next.
import type { MailRow } from '../../db/mails.ts';
import { amountDisplay } from '../../format.ts';
import { blockReasons, failureReasons } from '../reasons.ts';

export interface MailText {
  subject: string;
  text: string;
  unsubscribeUrl: string;
}

/** Returns the sentence of a reason code, or the code itself if it is unknown. */
const sentenceOf = (reasons: Readonly<Record<string, string>>, code: string) =>
  reasons[code] ?? code;

/** Formats an ISO time as `2026-11-26 07:10 UTC`. */
const timeText = (iso: string) =>
  `${new Date(iso).toISOString().replace('T', ' ').slice(0, 16)} UTC`;

/** Returns only the host of an endpoint's URL, because the path may contain a secret. */
const hostOf = (url: string) => (URL.canParse(url) ? new URL(url).host : url);

function contentOf({ kind, data, day }: MailRow): { subject: string; paragraphs: string[] } {
  const { appName, url = '', since = '', lastError = '' } = data;
  switch (kind) {
    case 'endpoint_failing':
      return {
        subject: `${appName}: your webhook fails`,
        paragraphs: [
          `Requests to your webhook at ${hostOf(url)} fail since ${timeText(since)}, the last one with "${lastError}".`,
          'Each event is tried six times within about 15 hours. Repair the endpoint, then replay what failed on the dashboard, under Webhook.',
        ],
      };
    case 'endpoint_disabled':
      return {
        subject: `${appName}: your webhook is disabled`,
        paragraphs: [
          `All requests to your webhook at ${hostOf(url)} failed for days. Since ${timeText(since)} nothing is sent to it.`,
          'Repair the endpoint, then enable it on the dashboard, under Webhook. Enabling it sends what it missed.',
        ],
      };
    case 'plan_blocked':
      return {
        subject: `${appName}: nothing is collected for ${data.planName ?? 'a plan'}`,
        paragraphs: [
          `Payments of your plan ${data.planName ?? ''} cannot be collected. ${sentenceOf(blockReasons, data.reason ?? '')}`,
          'The payments wait, and are collected once the cause is gone. Subscribers keep their access for the grace period.',
        ],
      };
    case 'payments_failed':
      return digestOf(data, day ?? '');
  }
}

function digestOf(
  { appName, count = 0, amount = '0', payments = [] }: MailRow['data'],
  day: string,
): { subject: string; paragraphs: string[] } {
  const lines = payments.map(
    (one) =>
      `- ${one.customer}: ${amountDisplay(BigInt(one.amount))}. ${sentenceOf(failureReasons, one.reason)}`,
  );
  const more = count - payments.length;
  return {
    subject: `${appName}: ${count === 1 ? '1 payment' : `${count} payments`} failed on ${day}`,
    paragraphs: [
      `On ${day} (UTC) ${count === 1 ? '1 attempt' : `${count} attempts`} to collect ${amountDisplay(BigInt(amount))} failed:`,
      [...lines, ...(more > 0 ? [`- and ${more} more`] : [])].join('\n'),
      'They are tried again by themselves, as the plan says.',
    ],
  };
}

/** Builds an e-mail. `publicUrl` is the base of its links. */
export function mailText(row: MailRow, publicUrl: string): MailText {
  const { subject, paragraphs } = contentOf(row);
  const unsubscribeUrl = `${publicUrl}/mails/unsubscribe/${row.unsubscribeToken}`;
  const text = [
    ...paragraphs,
    `Dashboard: ${publicUrl}/dashboard`,
    `You get this e-mail because your address is in the dashboard's settings. To get none: ${unsubscribeUrl}`,
  ].join('\n\n');
  return { subject, text: `${text}\n`, unsubscribeUrl };
}
