// Page on which a merchant turns e-mails off. A GET request changes nothing, because mail servers
// open links. The page's button and the one-click unsubscribe of mail programs (RFC 8058) send a
// POST.
import type { FastifyReply } from 'fastify';
import { hasUnsubscribeToken, unsubscribeMails } from '../db/mails.ts';
import { isId } from '../db/postgres/ids.ts';
import type { Api, ApiDeps } from './context.ts';

const PATH = '/mails/unsubscribe/:token';

interface Parts {
  /** Returns the elements of `<head>` for a title. */
  head: (title: string) => string;
  send: (reply: FastifyReply, html: string) => FastifyReply;
}

export function unsubscribeRoutes(api: Api, { sql }: ApiDeps, { head, send }: Parts): void {
  // Mail programs send a form in the POST request. Its content is ignored.
  api.addContentTypeParser('*', (_request, payload, done) => {
    payload.on('end', () => done(null, undefined)).on('error', done);
    payload.resume();
  });
  const page = (reply: FastifyReply, title: string, content: string) =>
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
  const absent = (reply: FastifyReply) =>
    page(reply.code(404), 'This link is not known', '<p>Copy the whole link from the e-mail.</p>');

  api.get<{ Params: { token: string } }>(PATH, async ({ params: { token } }, reply) => {
    if (!isId(token) || !(await hasUnsubscribeToken(sql, token))) return absent(reply);
    return page(
      reply,
      'E-mails about failures',
      `<p>You get e-mails when a webhook fails, a plan is blocked or payments fail.</p>
<form method="post"><button class="button primary" type="submit">Send me no more</button></form>`,
    );
  });
  api.post<{ Params: { token: string } }>(PATH, async ({ params: { token } }, reply) => {
    if (!isId(token) || !(await unsubscribeMails(sql, token))) return absent(reply);
    return page(
      reply,
      'You get no more e-mails',
      '<p>To get them again, sign in to the <a href="/dashboard#/settings">dashboard</a>.</p>',
    );
  });
}
