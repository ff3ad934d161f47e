import type { Socket } from 'node:net';
import fastify, { type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify';
import { responseFaultFor } from './faults.ts';
import { respond, errorResponse, methodsOf, parseBody, verifySignatures } from './json-rpc.ts';
import type { LocalEndpoint } from './params.ts';
import { exceedsRate } from './rate-limit.ts';

/** Maximum length of a request body in bytes. A validator has the same limit. */
export const MAX_BODY_BYTES = 50 * 1024;

const PLAIN = 'text/plain; charset=utf-8';

function refuse(error: FastifyError, reply: FastifyReply) {
  switch (error.statusCode) {
    case 413:
      return reply.code(413).type(PLAIN).send('The request body is too large');
    case 415:
      return reply
        .code(415)
        .type(PLAIN)
        .send('Supplied content type is not allowed. Content-Type: application/json is required');
    default:
      return reply
        .code(error.statusCode ?? 500)
        .type(PLAIN)
        .send(error.message);
  }
}

function tooManyRequests(reply: FastifyReply, retryAfter: number) {
  return reply
    .code(429)
    .header('retry-after', String(retryAfter))
    .type(PLAIN)
    .send('Too many requests');
}

async function serve(
  body: Buffer,
  endpoint: LocalEndpoint,
  connection: Socket,
  reply: FastifyReply,
) {
  let parsed: unknown;
  try {
    parsed = parseBody(body.toString('utf8'));
  } catch (error) {
    return reply.send(errorResponse(null, error));
  }
  if (endpoint.chain.faults.rate !== null && exceedsRate(endpoint, connection, methodsOf(parsed)))
    return tooManyRequests(reply, 1);
  const fault = responseFaultFor(endpoint, () => methodsOf(parsed));
  if (fault === undefined) {
    await verifySignatures(parsed, endpoint);
    return reply.send(respond(parsed, endpoint));
  }
  if (fault.status === null) {
    reply.hijack();
    endpoint.chain.events.once('faultsCleared', () => reply.raw.destroy());
    return reply;
  }
  if (fault.status === 429) return tooManyRequests(reply, fault.retryAfter);
  return reply.code(500).type(PLAIN).send('Internal server error');
}

/**
 * Builds the HTTP server of an endpoint. POST / takes JSON-RPC requests. GET /health returns plain
 * text, as on a validator. Web pages of any origin may send requests. The caller makes the server
 * listen.
 */
export function buildHttp(endpoint: LocalEndpoint): FastifyInstance {
  const app = fastify({ bodyLimit: MAX_BODY_BYTES, forceCloseConnections: true });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  );
  app.setErrorHandler((error: FastifyError, _request, reply) => refuse(error, reply));
  app.addHook('onSend', async (_request, reply) => {
    reply.header('access-control-allow-origin', '*');
  });
  app.post('/', (request, reply) =>
    serve(
      request.body as Buffer,
      endpoint,
      request.raw.socket,
      reply.type('application/json; charset=utf-8'),
    ),
  );
  app.get('/health', (_request, reply) => reply.type(PLAIN).send('ok'));
  app.options('/', (_request, reply) =>
    reply
      .code(204)
      .header('access-control-allow-methods', 'POST, OPTIONS')
      .header('access-control-allow-headers', '*')
      .send(),
  );
  app.setNotFoundHandler((_request, reply) =>
    reply
      .code(405)
      .type(PLAIN)
      .send('Used HTTP Method is not allowed. POST or OPTIONS is required'),
  );
  return app;
}
