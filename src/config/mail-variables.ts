// Environment variables of the e-mails to merchants.
import { sender, url } from './parse.ts';

export const mailVariables = {
  smtpUrl: {
    name: 'SMTP_URL',
    about:
      'SMTP server through which dispatch sends e-mails to merchants about failures: smtps://user:password@host, or smtp:// with STARTTLS where the server offers it (?requireTLS=true demands it); empty: none are sent',
    secret: true,
    parse: url('smtp:', 'smtps:'),
  },
  mailFrom: {
    name: 'MAIL_FROM',
    about: 'sender of these e-mails, such as "Billing <billing@example.com>"',
    parse: sender,
  },
};
