// /openapi.json and /docs. What makes them is loaded by the first request for one of them: a tenth of a start's time.
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { ServiceError } from '../errors.ts';
import type { Api } from './context.ts';

const ofTheConnection = ['connection', 'date', 'keep-alive', 'transfer-encoding'];

/** Before any route: those that are registered afterwards are the document's. */
export function registerDocumentation(app: Api, publicUrl: string, version: string): void {
  const routes: RouteOptions[] = [];
  const build = async () => (await import('./openapi.ts')).buildDocumentation(routes, publicUrl, version);
  let built: ReturnType<typeof build> | undefined;
  const show = async ({ url, headers }: FastifyRequest, reply: FastifyReply) => {
    built ??= build();
    const answer = await (await built).inject({ method: 'GET', url, headers });
    if (answer.statusCode === 404 || answer.statusCode === 400) {
      reply.callNotFound();
      return reply;
    }
    if (answer.statusCode >= 500) throw new Error(`the document could not be shown: ${answer.payload}`);
    if (answer.statusCode > 400) throw new ServiceError('VALIDATION_ERROR', 'The document cannot be had under these conditions.');
    for (const [name, value] of Object.entries(answer.headers)) if (!ofTheConnection.includes(name)) reply.header(name, value);
    return reply.code(answer.statusCode).send(answer.rawPayload);
  };
  for (const url of ['/openapi.json', '/docs', '/docs/*']) app.get(url, show);
  app.addHook('onRoute', (route) => {
    if (route.method !== 'HEAD') routes.push(route);
  });
  app.addHook('onClose', async () => {
    await (await built?.catch(() => undefined))?.close();
  });
}
