// The API as a Fastify instance that does not listen. The schema beside each handler provides
// validation, types and documentation.
import { randomUUID } from 'node:crypto';
import cors from '@fastify/cors';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import Fastify, { LogController, type FastifyBaseLogger, type FastifyRequest } from 'fastify';
import { createTokens } from '../domain/accounts/tokens.ts';
import { ServiceError } from '../errors.ts';
import { createTrust } from './door/addresses.ts';
import { connectionLimits, type ConnectionOptions, Connections } from './door/connections.ts';
import { type Api, type ApiDeps, callerPath } from './door/context.ts';
import { bodyText, brokenQuery } from './door/encoding.ts';
import { onClientError, onError, refuseRoute } from './door/errors.ts';
import { createGate, type Gate } from './door/gate.ts';
import { unusedKey } from './door/idempotency.ts';
import { createLimiter } from './door/limits.ts';
import { actingFor } from './door/shared-chain.ts';
import { traceRequests } from './door/tracing.ts';
import { Places, takePlace } from './door/waiting.ts';
import { addRoutes } from './routes/register.ts';
import { serializerCompiler, validatorCompiler } from './shapes/schemas.ts';

const exposedHeaders = [
  'content-disposition',
  'idempotency-replayed',
  'link',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'retry-after',
  'www-authenticate',
  'x-data-age',
  'x-next-cursor',
  'x-request-id',
];
const SECURITY_HEADERS = {
  // Responses may contain keys, tokens and names. Files, pages and logos set their own value.
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none';frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  // This header lets browsers load responses for pages of other sites. CORS_ORIGINS decides which
  // sites may read the responses.
  'cross-origin-resource-policy': 'cross-origin',
  'origin-agent-cluster': '?1',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-dns-prefetch-control': 'off',
  'x-download-options': 'noopen',
  'x-frame-options': 'SAMEORIGIN',
  'x-permitted-cross-domain-policies': 'none',
  'x-xss-protection': '0',
};
const MAX_BODY_BYTES = 64 * 1024;
/** Milliseconds in which a connection must send a complete request head. */
const HEAD_TIMEOUT = 10_000;
/** Milliseconds in which the head and the body of a request must arrive. */
const REQUEST_TIMEOUT = 20_000;
/** After this many requests, the server closes the connection. */
const MAX_REQUESTS_PER_SOCKET = 1000;
/** Query parameters that may have several values, separated by commas. */
const SEVERAL: ReadonlySet<string> = new Set(['status', 'state', 'reason', 'type', 'expand']);

/** Builds the API from its dependencies. The caller starts and closes the server. */
export function buildApp(deps: ApiDeps): Api {
  const tokens = createTokens(deps.jwtSecrets, deps.publicUrl);
  const gate = createGate(deps, tokens, createLimiter(deps.sql));
  const app = createServer(deps, gate);
  const connections = new Connections(app.server, {
    ...connectionLimits,
    perAddress: deps.connectionsPerAddress,
    isTrusted: createTrust(deps.trustProxy),
    onRefused: refusalReport(deps),
  });
  addHooks(app, deps, gate, connections);
  app.addHook('preParsing', (request, reply, payload, done) => {
    // A request to an unknown route is refused before its body arrives.
    if (request.is404) refuseRoute(request, reply);
    else done(null, payload);
  });
  const places = new Places({ ...connectionLimits, perAddress: deps.connectionsPerAddress });
  app.addHook('preHandler', (request, reply, done) => done(takePlace(request, reply, places)));
  app.addHook('preHandler', (request, _reply, done) => actingFor(() => callerPath(request), done));
  traceRequests(app);
  const origins = [...deps.corsOrigins, ...deps.dashboardOrigins];
  if (origins.length > 0) {
    void app.register(cors, {
      origin: origins.map((url) => new URL(url).origin),
      methods: ['GET', 'POST', 'PATCH', 'DELETE'],
      allowedHeaders: 'authorization, content-type, idempotency-key, traceparent, x-request-id',
      exposedHeaders,
      maxAge: 600,
      strictPreflight: false,
    });
  }
  addRoutes(app, deps, gate, tokens);
  return app;
}

/** Creates a Fastify instance with limits, parsers and error handlers, but without routes. */
function createServer(deps: ApiDeps, gate: Gate): Api {
  const logger: FastifyBaseLogger = deps.log;
  const headers = securityHeaders(deps.publicUrl);
  const app = Fastify({
    loggerInstance: logger,
    logController: new LogController({
      disableRequestLogging: true,
      requestIdLogLabel: 'requestId',
    }),
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT,
    connectionTimeout: 60_000,
    keepAliveTimeout: 65_000,
    maxRequestsPerSocket: MAX_REQUESTS_PER_SOCKET,
    http: {
      connectionsCheckingInterval: 1000,
      headersTimeout: HEAD_TIMEOUT,
      requireHostHeader: false,
    },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    trustProxy: createTrust(deps.trustProxy),
    clientErrorHandler: onClientError,
    // A proxy may send an absolute URL. The scheme and host of that URL are ignored. The URL `*`
    // names no resource (RFC 9112, section 3.2.4), but the router would treat `*` as `/`. Therefore
    // `*` becomes `/*`, which is the path of no resource.
    rewriteUrl: ({ url = '' }) =>
      url.startsWith('/') ? url : url === '*' ? '/*' : url.replace(/^https?:\/\/[^/?#]*/i, ''),
    // Fastify runs no hooks for framework errors, so this handler sets the headers.
    frameworkErrors: (error, request, reply) => {
      reply.headers(headers).header('x-request-id', request.id);
      gate.showBudget(request, reply);
      onError(error, request, reply);
    },
    genReqId: ({ headers: { 'x-request-id': given } }) => requestId(given),
  }).withTypeProvider<TypeBoxTypeProvider>();

  app.setValidatorCompiler(validatorCompiler());
  app.setSerializerCompiler(serializerCompiler());
  const parseJson = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<Buffer>(
    'application/json',
    { parseAs: 'buffer' },
    (request, body, done) => {
      const text = bodyText(request, body);
      if (text instanceof ServiceError) done(text);
      // An empty body is valid for routes without a body. The schemas of all other routes refuse an
      // empty body.
      else if (text === '') done(null, undefined);
      else void parseJson(request, text, done);
    },
  );
  app.setErrorHandler(onError);
  app.setNotFoundHandler(refuseRoute);
  app.decorate('methodsOf', watchMethods(app));
  app.decorateRequest('caller', null);
  app.decorateRequest('startedAt', 0);
  app.decorateRequest('mayWait', true);
  app.decorateRequest('refusal', null);
  // A request with an unknown Expect header is handled like any other request. Without this
  // listener, Node itself would respond, and the response of Node has no envelope
  // (docs/contract.md).
  app.server.on('checkExpectation', (request, response) =>
    app.server.emit('request', request, response),
  );
  return app;
}

/**
 * Adds the hooks that run for every request. The hooks use callbacks instead of promises, because
 * callbacks cost less time per request.
 */
function addHooks(app: Api, deps: ApiDeps, gate: Gate, connections: Connections): void {
  const headers = securityHeaders(deps.publicUrl);
  const warn = untrustedProxyWarning(deps);
  let closing = false;
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request;
    request.startedAt = performance.now();
    reply.headers(headers).header('x-request-id', request.id);
    warn(request);
    if (raw.headers.host === undefined && raw.httpVersion === '1.1') {
      // HTTP/1.1 requires a Host header. Node's own check (requireHostHeader) is off, because
      // Node's response has no envelope (docs/contract.md).
      reply.code(400).hijack();
      onClientError(new Error('no Host'), raw.socket);
    } else if (connections.admit(raw, reply.raw)) done();
    else {
      reply.headers({ connection: 'close', 'retry-after': 1 });
      done(
        new ServiceError(
          'RATE_LIMITED',
          `More than ${connectionLimits.inHand} concurrent requests on one connection.`,
        ),
      );
    }
  });
  app.addHook('preValidation', (request, _reply, done) => {
    // Ajv converts no types, and query parameters arrive as strings. Those that are numbers are
    // converted here.
    const query = request.query as Record<string, unknown>;
    for (const name of ['limit', 'wait', 'percentOff', 'periods']) {
      const text = query[name];
      if (typeof text === 'string' && /^\d{1,4}$/.test(text)) query[name] = Number(text);
    }
    // Separates the values of a parameter that may have several.
    for (const [name, text] of Object.entries(query))
      if (typeof text === 'string' && SEVERAL.has(name)) query[name] = text.split(',');
    trimExternalId(request);
    done(brokenQuery(request) ?? unusedKey(request));
  });
  app.addHook('preClose', (done) => {
    closing = true;
    connections.closeUnused();
    done();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    // If a request is not counted in a rate limit (unknown route, health), its response shows the
    // budget of the client's address.
    if (!reply.hasHeader('ratelimit-limit')) gate.showBudget(request, reply);
    // While the server stops, it closes each connection after the response.
    if (closing || deps.isStopping?.() === true) reply.header('connection', 'close');
    done(null, payload);
  });
  app.addHook('onResponse', (request, reply, done) => {
    const { method, routeOptions } = request;
    const response = { method, route: routeOptions.url ?? 'unknown', status: reply.statusCode };
    deps.onResponse({ ...response, seconds: reply.elapsedTime / 1000 });
    request.log.info({ ...response, ms: Math.round(reply.elapsedTime) }, 'answered');
    done();
  });
  // Requests that the client aborts are counted with status 499, as in nginx. If they were not
  // counted, the metrics of a hanging service would look good.
  app.addHook('onRequestAbort', (request, done) => {
    const { method, routeOptions, startedAt } = request;
    const seconds = (performance.now() - startedAt) / 1000;
    deps.onResponse({ method, route: routeOptions.url ?? 'unknown', status: 499, seconds });
    done();
  });
}

/**
 * Warns at most once a minute about an untrusted proxy. All clients behind an untrusted proxy count
 * as one address and share one rate limit.
 */
function untrustedProxyWarning({ log }: ApiDeps): (request: FastifyRequest) => void {
  let silentUntil = 0;
  return ({ headers, raw, ip }) => {
    const { remoteAddress } = raw.socket;
    if (headers['x-forwarded-for'] === undefined || ip !== remoteAddress) return;
    if (performance.now() < silentUntil) return;
    silentUntil = performance.now() + 60_000;
    log.warn(
      { peer: remoteAddress },
      'X-Forwarded-For ignored: TRUST_PROXY does not list the peer',
    );
  };
}

/**
 * Returns a function that is called for each connection that was closed because a limit was
 * reached. The function counts every such connection, and logs at most one a minute.
 */
function refusalReport({ log, onConnectionRefused }: ApiDeps): ConnectionOptions['onRefused'] {
  let silentUntil = 0;
  return (limit, peer) => {
    onConnectionRefused?.(limit);
    if (performance.now() < silentUntil) return;
    silentUntil = performance.now() + 60_000;
    log.warn({ limit, peer }, 'too many connections: some were closed');
  };
}

/**
 * Returns the client's X-Request-Id if it is a plain token, so that the logs of client and service
 * share an id. Otherwise returns a new UUID.
 */
function requestId(header: string | string[] | undefined): string {
  return typeof header === 'string' && /^[\w.:/+=-]{1,128}$/.test(header) ? header : randomUUID();
}

/**
 * Returns the default headers of every response: the security headers that helmet sets, and
 * no-store. HSTS is included only when PUBLIC_URL is https.
 */
function securityHeaders(publicUrl: string): Record<string, string> {
  return publicUrl.startsWith('https:')
    ? { ...SECURITY_HEADERS, 'strict-transport-security': 'max-age=31536000; includeSubDomains' }
    : SECURITY_HEADERS;
}

/**
 * Records the routes that are registered after this call. Returns a function that lists the methods
 * of a URL, for the Allow header of a 405. The list is empty for an unknown path.
 */
function watchMethods(api: Api): (url: string) => string[] {
  const routes: { fits: RegExp; method: string }[] = [];
  api.addHook('onRoute', ({ url, method }) => {
    const pattern = url.split('/').map((part) => (part.startsWith(':') ? '[^/]+' : literal(part)));
    for (const each of [method].flat())
      routes.push({ fits: new RegExp(`^${pattern.join('/')}$`), method: each });
  });
  return (url) => {
    const path = url.split('?', 1)[0] ?? '';
    return [...new Set(routes.filter(({ fits }) => fits.test(path)).map(({ method }) => method))];
  };
}

function literal(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

/**
 * Trims externalId in the request's body and query before validation, because an id with spaces
 * around it names the same customer.
 */
function trimExternalId({ body, query }: Pick<FastifyRequest, 'body' | 'query'>): void {
  for (const fields of [body, query])
    if (isNamed(fields) && typeof fields.externalId === 'string')
      fields.externalId = fields.externalId.trim();
}

const isNamed = (fields: unknown): fields is { externalId?: unknown } =>
  typeof fields === 'object' && fields !== null;
