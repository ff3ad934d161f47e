// The texts of e-mails to merchants: plain text that says what to do next.
import type { FailureKind, MailRow } from '../../db/delivering/mails.ts';
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

/**
 * Quotes a text that a merchant or a buyer chose, so that it does not read as the service's words.
 */
const quoted = (text: string) => `"${text.replaceAll(/["\u201c\u201d]/g, "'")}"`;

interface Content {
  /** Begins with the service's own words and ends with quoted names. */
  subject: string;
  paragraphs: string[];
}

function contentOf(kind: FailureKind, { data, day }: Pick<MailRow, 'data' | 'day'>): Content {
  const { appName = '', url = '', since = '', lastError = '', planName = '', reason = '' } = data;
  const app = quoted(appName);
  switch (kind) {
    case 'endpoint_failing':
      return {
        subject: `Your webhook fails: ${app}`,
        paragraphs: [
          `Requests to your webhook at ${hostOf(url)} fail since ${timeText(since)}, the last one with ${quoted(lastError)}.`,
          'Each event is tried six times within about 15 hours. Repair the endpoint, then replay what failed on the dashboard, under Webhook.',
        ],
      };
    case 'endpoint_disabled':
      return {
        subject: `Your webhook is disabled: ${app}`,
        paragraphs: [
          `All requests to your webhook at ${hostOf(url)} failed for days. Since ${timeText(since)} nothing is sent to it.`,
          'Repair the endpoint, then enable it on the dashboard, under Webhook. Enabling it sends what it missed.',
        ],
      };
    case 'plan_blocked':
      return {
        subject: `Nothing is collected for a plan: ${quoted(planName)} of ${app}`,
        paragraphs: [
          `Payments of your plan ${quoted(planName)} cannot be collected. ${sentenceOf(blockReasons, reason)}`,
          'The payments wait, and are collected once the cause is gone. Subscribers keep their access for the grace period.',
        ],
      };
    case 'payments_failed':
      return digestOf(data, day ?? '');
  }
}

function digestOf(
  { appName = '', count = 0, amount = '0', payments = [] }: MailRow['data'],
  day: string,
): Content {
  const lines = payments.map(
    (one) =>
      `- ${quoted(one.customer)}: ${amountDisplay(BigInt(one.amount))}. ${sentenceOf(failureReasons, one.reason)}`,
  );
  const more = count - payments.length;
  return {
    subject: `${count === 1 ? '1 payment' : `${count} payments`} failed on ${day}: ${quoted(appName)}`,
    paragraphs: [
      `On ${day} (UTC) ${count === 1 ? '1 attempt' : `${count} attempts`} to collect ${amountDisplay(BigInt(amount))} failed:`,
      [...lines, ...(more > 0 ? [`- and ${more} more`] : [])].join('\n'),
      'They are tried again by themselves, as the plan says.',
    ],
  };
}

/** The first e-mail to an address. Contains no text that a merchant chose. */
function confirmation(publicUrl: string, token: string): Content {
  return {
    subject: 'Confirm your e-mail address',
    paragraphs: [
      `This address was entered on ${publicUrl}/dashboard, to get e-mails about failing webhooks and payments there.`,
      `If that was you, open this link: ${publicUrl}/mails/confirm/${token}`,
      'If not, do nothing. No other e-mail is sent to an address that is not confirmed.',
    ],
  };
}

/** Builds an e-mail. `publicUrl` is the base of its links. */
export function mailText(row: MailRow, publicUrl: string): MailText {
  const { kind, confirmToken, unsubscribeToken } = row;
  const unsubscribeUrl = `${publicUrl}/mails/unsubscribe/${unsubscribeToken}`;
  const { subject, paragraphs } =
    kind === 'confirm_address' ? confirmation(publicUrl, confirmToken ?? '') : contentOf(kind, row);
  const foot =
    kind === 'confirm_address'
      ? [`To get no e-mail of this service at all: ${unsubscribeUrl}`]
      : [
          `Dashboard: ${publicUrl}/dashboard`,
          `You get this e-mail because your address is in the dashboard's settings. To get none: ${unsubscribeUrl}`,
        ];
  return { subject, text: `${[...paragraphs, ...foot].join('\n\n')}\n`, unsubscribeUrl };
}
