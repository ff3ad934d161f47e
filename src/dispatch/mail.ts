// Sends e-mails to merchants over SMTP (SMTP_URL). Every dispatcher runs this loop, and a claim
// gives each e-mail to one dispatcher. If that dispatcher dies before it records a sent e-mail,
// another dispatcher sends the e-mail again.
import { createTransport } from 'nodemailer';
import { queueConfirmations } from '../db/delivering/mail-addresses.ts';
import {
  deleteOldMails,
  finishMail,
  type MailRow,
  queueDigests,
  queueMails,
  readDay,
  retryMail,
  takeMails,
} from '../db/delivering/mails.ts';
import type { Sql } from '../db/postgres/connect.ts';
import { mailText } from '../domain/outbox/mail-text.ts';
import { messageOf } from '../errors.ts';
import type { Log } from '../log.ts';
import { type Loop, startLoop } from '../loop.ts';
import type { DispatchTimes } from './times.ts';

const BATCH = 10;
const DIGEST_HOUR = 7;
const MINUTE_MS = 60_000;

export interface MailOptions {
  /** SMTP_URL. */
  smtpUrl: string;
  /** MAIL_FROM. */
  from: string;
  publicUrl: string;
  log: Pick<Log, 'info' | 'warn'>;
  times: DispatchTimes['mail'];
  /** The hour (UTC) from which yesterday's digest is sent; default: 7. */
  digestHour?: number;
}

/** Starts the loop that queues and sends e-mails. */
export function startMails(sql: Sql, options: MailOptions): Loop {
  const { log, smtpUrl, from, publicUrl, times, digestHour = DIGEST_HOUR } = options;
  const timeouts = {
    connectionTimeout: times.connectMs,
    greetingTimeout: times.connectMs,
    socketTimeout: times.silenceMs,
  };
  const transport = createTransport({ url: smtpUrl, ...timeouts });
  /** The day whose digests this process has queued. */
  let digested = '';
  let purgedAt = -Infinity;

  const queue = async () => {
    await queueConfirmations(sql);
    await queueMails(sql);
    const { hour, yesterday } = await readDay(sql);
    if (hour >= digestHour && yesterday !== digested) digested = await queueDigests(sql);
    if (performance.now() - purgedAt < times.purgeMs) return;
    purgedAt = performance.now();
    await deleteOldMails(sql);
  };

  const send = async (mail: MailRow) => {
    const { id, email, kind, attempts } = mail;
    if (email === null) return finishMail(sql, mail, 'dropped');
    const { subject, text, unsubscribeUrl } = mailText(mail, publicUrl);
    try {
      await transport.sendMail({
        from,
        to: email,
        subject,
        text,
        messageId: `<${id}@${new URL(publicUrl).hostname}>`,
        headers: {
          'List-Unsubscribe': `<${unsubscribeUrl}>`,
          'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
          'Auto-Submitted': 'auto-generated',
        },
      });
    } catch (error) {
      const minutes = isRefused(error) ? undefined : times.retryMinutes[attempts - 1];
      const report = { mail: id, kind, attempts, err: error };
      if (minutes === undefined) {
        log.warn(report, 'e-mail given up');
        return finishMail(sql, mail, 'failed', messageOf(error));
      }
      log.warn(report, 'e-mail not sent, and tried again');
      return retryMail(sql, mail, { delayMs: minutes * MINUTE_MS, error: messageOf(error) });
    }
    log.info({ mail: id, kind }, 'e-mail sent');
    return finishMail(sql, mail, 'sent');
  };

  return startLoop({
    name: 'sending e-mails',
    idleMs: times.idleMs,
    turn: async () => {
      await queue();
      const mails = await takeMails(sql, BATCH);
      for (const mail of mails) await send(mail);
      return mails.length === BATCH;
    },
    // The main loop logs an outage of Postgres, so this loop logs nothing.
    onError: () => undefined,
  });
}

/**
 * Tells whether the server refused the recipient or the message permanently (5xx). After a refused
 * login (535), returns false: the operator can correct SMTP_URL, so the e-mail is tried again.
 */
function isRefused(error: unknown): boolean {
  const { code, responseCode = 0 } = error as { code?: string; responseCode?: number };
  return (code === 'EENVELOPE' || code === 'EMESSAGE') && responseCode >= 500;
}
