// Paths that browsers and crawlers request from every site.
import type { FastifyReply } from 'fastify';
import type { Api } from '../door/context.ts';

/**
 * Crawlers may read a plan's page, so that chats can show a preview of a link to the page. Search
 * engines must not list the page, because the merchant decides where to link to the plan. A meta
 * element of the page (site-documents.ts) therefore forbids indexing.
 */
const ROBOTS = `User-agent: *
Allow: /s/
Disallow: /
`;

/** Registers `/`, `/favicon.ico`, `/robots.txt` and the pages' URLs with a trailing slash. */
export function sitePaths(api: Api, pages: readonly string[], icon: string): void {
  api.get('/', (_request, reply) => reply.redirect('/dashboard'));
  api.get('/favicon.ico', (_request, reply) => reply.redirect(icon));
  api.get('/robots.txt', (_request, reply) =>
    reply.type('text/plain; charset=utf-8').header('cache-control', 'max-age=86400').send(ROBOTS),
  );
  for (const page of pages) api.get(`${page}/`, ({ url }, reply) => withoutSlash(reply, url));
}

/** Redirects to the same URL without the slash at the end of its path. */
function withoutSlash(reply: FastifyReply, url: string): FastifyReply {
  const [path = '', query] = url.split('?', 2);
  const target = path.replace(/\/$/, '');
  return reply.redirect(query === undefined ? target : `${target}?${query}`, 301);
}
