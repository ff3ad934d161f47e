// The API: builds a Fastify instance and never listens. One schema per route, beside its handler, gives validation, types and documentation.
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import cors from '@fastify/cors';
import Fastify, { LogController, type FastifyBaseLogger, type FastifyReply, type FastifyRequest } from 'fastify';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { createCursors } from '../domain/cursors.ts';
import { createTokens } from '../domain/tokens.ts';
import { messageOf } from '../errors.ts';
import type { Admission } from './auth.ts';
import type { Api, ApiDeps } from './context.ts';
import { registerDocumentation } from './documentation.ts';
import { onClientError, onError, onUnknownRoute } from './errors.ts';
import { createGate } from './gate.ts';
import { createLimiter } from './limits.ts';
import { createPages } from './pages.ts';
import { serializerCompiler, validatorCompiler } from './schemas.ts';
import { securityHeaders } from './security-headers.ts';
import { analyticsRoutes } from './routes/analytics.ts';
import { apiKeyRoutes } from './routes/api-keys.ts';
import { appRoutes } from './routes/apps.ts';
import { authRoutes } from './routes/auth.ts';
import { deliveryRoutes } from './routes/deliveries.ts';
import { eventFeedRoutes } from './routes/event-feed.ts';
import { eventRoutes } from './routes/events.ts';
import { exportRoutes } from './routes/export.ts';
import { healthRoutes } from './routes/health.ts';
import { planRoutes } from './routes/plans.ts';
import { profileRoutes } from './routes/profile.ts';
import { subscriberRoutes } from './routes/subscriber.ts';
import { subscriptionRoutes } from './routes/subscriptions.ts';
import { transactionRoutes } from './routes/transactions.ts';
import { webhookRoutes } from './routes/webhooks.ts';

const exposedHeaders = [
  'content-disposition',
  'idempotency-replayed',
  'link',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'retry-after',
  'x-next-cursor',
  'x-request-id',
];
const bodyLimit = 64 * 1024;
/** Milliseconds within which a whole request must have arrived. */
const requestTimeout = 30_000;

export function buildApp(deps: ApiDeps): Api {
  const { log, publicUrl, jwtSecrets } = deps;
  const tokens = createTokens(jwtSecrets, publicUrl);
  const limiter = createLimiter(deps.sql, (error) =>
    log.warn({ reason: messageOf(error) }, 'an unspent rate lease could not be given back'),
  );
  const gate = createGate(deps, tokens, limiter);
  const cursors = createCursors(jwtSecrets);
  const pages = createPages(cursors, publicUrl);
  let headers: Record<string, string> = {};
  const introduce = (request: FastifyRequest, reply: FastifyReply) => {
    reply.headers(headers).header('x-request-id', request.id);
  };
  const logger: FastifyBaseLogger = log;
  const app = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    bodyLimit,
    requestTimeout,
    connectionTimeout: 60_000,
    keepAliveTimeout: 65_000,
    http: { connectionsCheckingInterval: 2000, requireHostHeader: false },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    trustProxy: deps.trustProxy.length > 0 ? [...deps.trustProxy] : false,
    clientErrorHandler: onClientError,
    // The whole URL is a proxy's way to ask; which host it names is not looked at.
    rewriteUrl: ({ url = '' }) => (url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '')),
    // No hook runs for these.
    frameworkErrors: (error, request, reply) => {
      introduce(request, reply);
      gate.describe(request, reply);
      onError(error, request, reply);
    },
    genReqId: ({ headers }) => requestId(headers['x-request-id']),
  }).withTypeProvider<TypeBoxTypeProvider>();

  app.setValidatorCompiler(validatorCompiler());
  app.setSerializerCompiler(serializerCompiler());
  const parseJson = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, body, done) => {
    // No body at all is fine wherever none is asked for, whatever the header says; where one is, its schema misses it.
    if (body === '') done(null, undefined);
    else void parseJson(request, body, done);
  });

  app.setErrorHandler(onError);
  app.setNotFoundHandler(onUnknownRoute);
  app.decorateRequest('caller', null);
  // Callbacks rather than promises: these run on every request.
  app.addHook('onRequest', (request, reply, done) => {
    introduce(request, reply);
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
      // Not HTTP either; Node would say so in an answer of its own.
      reply.code(400).hijack();
      onClientError(new Error('no Host'), request.raw.socket);
    } else done();
  });
  app.addHook('preValidation', (request, _reply, done) => {
    // Nothing is converted behind the schema's back but the numbers that queries have.
    const query = request.query as Record<string, unknown>;
    for (const name of ['limit', 'wait']) {
      const text = query[name];
      if (typeof text === 'string' && /^\d{1,4}$/.test(text)) query[name] = Number(text);
    }
    done();
  });
  // Nothing that could be expected but 100-continue is anything to us; Node would refuse it in an answer of its own.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  let closing = false;
  const connections = new Set<Socket>();
  app.server.on('connection', (socket: Socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  app.addHook('preClose', (done) => {
    closing = true;
    // To Node a connection is idle only after a request. One that was opened ahead of its first would hold the stop up for a minute.
    for (const socket of connections) if (socket.bytesRead === 0) socket.destroy();
    done();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    // An answer that no budget was spent for (unknown routes, health, documents, 401) tells the address's standing.
    if (!reply.hasHeader('ratelimit-limit')) gate.describe(request, reply);
    // A connection that still has a request in hand when we stop would stay open after its answer.
    if (closing) reply.header('connection', 'close');
    done(null, payload);
  });
  app.addHook('onResponse', (request, reply, done) => {
    const { method, routeOptions } = request;
    const answer = { method, route: routeOptions.url ?? 'unknown', status: reply.statusCode };
    deps.onAnswer({ ...answer, seconds: reply.elapsedTime / 1000 });
    request.log.info({ ...answer, ms: Math.round(reply.elapsedTime) }, 'answered');
    done();
  });
  app.addHook('onReady', async () => {
    headers = await securityHeaders(publicUrl);
  });
  app.addHook('onReady', () => limiter.start());
  app.addHook('onClose', () => limiter.stop());

  if (deps.corsOrigins.length > 0) {
    void app.register(cors, {
      origin: deps.corsOrigins.map((origin) => new URL(origin).origin),
      methods: ['GET', 'POST', 'PATCH', 'DELETE'],
      allowedHeaders: ['authorization', 'content-type', 'idempotency-key', 'x-request-id'],
      exposedHeaders,
      maxAge: 600,
      strictPreflight: false,
    });
  }
  registerDocumentation(app, publicUrl, deps.version);

  const forCallers = (prefix: string, admission: Admission, register: (api: Api) => void) => {
    void app.register(
      async (scope: Api) => {
        scope.addHook('onRequest', (request, reply) => gate.caller(request, reply, admission));
        register(scope);
      },
      { prefix },
    );
  };
  void app.register(async (scope: Api) => healthRoutes(scope, deps));
  void app.register(async (scope: Api) => {
    scope.addHook('onRequest', (request, reply) => gate.address(request, reply));
    authRoutes(scope, deps, tokens);
  });
  forCallers('/merchant', 'merchant wallet', (api) => apiKeyRoutes(api, deps, pages));
  forCallers('/merchant', 'merchant', (api) => {
    profileRoutes(api, deps);
    appRoutes(api, deps, pages);
    planRoutes(api, deps, pages);
    subscriptionRoutes(api, deps, pages);
    transactionRoutes(api, deps, pages);
    exportRoutes(api, deps);
    analyticsRoutes(api, deps);
    webhookRoutes(api, deps, pages);
    deliveryRoutes(api, deps, pages);
    eventRoutes(api, deps, pages);
    eventFeedRoutes(api, deps, cursors);
  });
  forCallers('/subscriber', 'subscriber', (api) => subscriberRoutes(api, deps, pages));
  return app;
}

/** The caller's own id of a request where it is a plain word, so that it can be followed through both sides' logs. */
function requestId(given: string | string[] | undefined): string {
  return typeof given === 'string' && /^[\w.:/+=-]{1,128}$/.test(given) ? given : randomUUID();
}
