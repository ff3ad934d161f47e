// Serves /openapi.json and /docs from dist/public. `npm run build` writes dist/public
// (scripts/public.ts).
import { fileURLToPath } from 'node:url';
import fastifyStatic from '@fastify/static';
import { ROOT } from '../../root.ts';
import type { Api } from '../door/context.ts';

const root = fileURLToPath(new URL('dist/public', ROOT));
// style-src allows 'unsafe-inline' because Swagger UI sets style attributes.
const PAGE_POLICY =
  "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'; object-src 'none'; frame-ancestors 'none'";

/**
 * Registers one route for each file of dist/public. Requests for any other path never read the
 * disk.
 */
export function staticFiles(api: Api): void {
  api.addHook('onRequest', (request, reply, done) => {
    if (request.routeOptions.url?.startsWith('/docs') === true)
      reply.header('content-security-policy', PAGE_POLICY);
    done();
  });
  void api.register(fastifyStatic, {
    root,
    prefix: '/',
    wildcard: false,
    redirect: true,
    decorateReply: false,
    acceptRanges: false,
  });
}
