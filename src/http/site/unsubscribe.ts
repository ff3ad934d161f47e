// Pages to which the links of e-mails lead: confirm an address, end the e-mails to it, and allow
// them again. A GET request changes nothing, because mail servers open links. The pages' buttons
// and the one-click unsubscribe of mail programs (RFC 8058) send a POST.
import type { FastifyReply } from 'fastify';
import {
  confirmAddress,
  isConfirmation,
  isSubscribed,
  setSubscribed,
} from '../../db/delivering/mail-addresses.ts';
import { isId } from '../../db/postgres/ids.ts';
import type { Api, ApiDeps } from '../door/context.ts';

interface Parts {
  /** Returns the elements of `<head>` for a title. */
  head: (title: string) => string;
  send: (reply: FastifyReply, html: string) => FastifyReply;
}

type ByToken = { Params: { token: string } };
type SendPage = (reply: FastifyReply, title: string, content: string) => FastifyReply;

export function unsubscribeRoutes(api: Api, deps: ApiDeps, { head, send }: Parts): void {
  // Mail programs send a form in the POST request. Its content is ignored.
  api.addContentTypeParser('*', (_request, payload, done) => {
    payload.on('end', () => done(null, undefined)).on('error', done);
    payload.resume();
  });
  const page: SendPage = (reply, title, content) =>
    send(
      reply,
      `<!doctype html>
<html lang="en">
<head>
${head(title)}
</head>
<body>
<main class="boot">
<h1>${title}</h1>
${content}
</main>
</body>
</html>
`,
    );
  confirmationRoutes(api, deps, page);
  endingRoutes(api, deps, page);
}

const absent = (page: SendPage, reply: FastifyReply) =>
  page(
    reply.code(404),
    'This link is not valid',
    '<p>Copy the whole link from the newest e-mail.</p>',
  );

const button = (action: string, text: string) =>
  `<form method="post" action="${action}"><button class="button primary" type="submit">${text}</button></form>`;

function confirmationRoutes(api: Api, { sql }: ApiDeps, page: SendPage): void {
  const path = '/mails/confirm/:token';
  api.get<ByToken>(path, async ({ params: { token } }, reply) => {
    if (!isId(token) || !(await isConfirmation(sql, token))) return absent(page, reply);
    return page(
      reply,
      'Confirm your e-mail address',
      `<p>You then get e-mails when a webhook fails, a plan is blocked or payments fail.</p>
${button(token, 'Send them to me')}`,
    );
  });
  api.post<ByToken>(path, async ({ params: { token } }, reply) => {
    if (!isId(token) || !(await confirmAddress(sql, token))) return absent(page, reply);
    return page(reply, 'Your e-mail address is confirmed', '<p>You can close this page.</p>');
  });
}

function endingRoutes(api: Api, { sql }: ApiDeps, page: SendPage): void {
  const ended = (reply: FastifyReply, token: string) =>
    page(
      reply,
      'You get no more e-mails',
      `<p>This service sends nothing to your address any more.</p>
${button(`../allow/${token}`, 'Send them again')}`,
    );
  const path = '/mails/unsubscribe/:token';
  api.get<ByToken>(path, async ({ params: { token } }, reply) => {
    const isOn = isId(token) ? await isSubscribed(sql, token) : undefined;
    if (isOn === undefined) return absent(page, reply);
    if (!isOn) return ended(reply, token);
    return page(
      reply,
      'E-mails about failures',
      `<p>You get e-mails when a webhook fails, a plan is blocked or payments fail.</p>
${button(token, 'Send me no more')}`,
    );
  });
  api.post<ByToken>(path, async ({ params: { token } }, reply) => {
    if (!isId(token) || !(await setSubscribed(sql, token, false))) return absent(page, reply);
    return ended(reply, token);
  });
  api.post<ByToken>('/mails/allow/:token', async ({ params: { token } }, reply) => {
    if (!isId(token) || !(await setSubscribed(sql, token, true))) return absent(page, reply);
    return page(
      reply,
      'You get e-mails again',
      '<p>Only about an account whose e-mail address you have confirmed.</p>',
    );
  });
}
