// Sends error responses in the envelope (envelope.ts). For a bug or an outage, the client gets only
// a general message. Bugs are logged in full.
import type { Socket } from 'node:net';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import { isTooSlow, isUnavailable } from '../../db/postgres/outage.ts';
import { ServiceError, type ErrorCode, type Fault } from '../../errors.ts';
import { refusal, statusOf } from '../shapes/envelope.ts';
import { formats } from '../shapes/fields.ts';

const MAX_FAULTS = 20;

/**
 * Code and message for Fastify's own errors (https://fastify.dev/docs/latest/Reference/Errors/).
 */
const framework: Record<string, [ErrorCode, string]> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [
    'VALIDATION_ERROR',
    'The body must be JSON: send Content-Type: application/json.',
  ],
  FST_ERR_CTP_BODY_TOO_LARGE: ['VALIDATION_ERROR', 'The body is larger than 64 KiB.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    'VALIDATION_ERROR',
    'The body is not as long as Content-Length says.',
  ],
  FST_ERR_CTP_INVALID_JSON_BODY: ['VALIDATION_ERROR', 'The body is not valid JSON.'],
  FST_ERR_BAD_URL: ['NOT_FOUND', 'There is no such route.'],
  FST_ERR_MAX_PARAM_LENGTH: ['NOT_FOUND', 'There is no such route.'],
};

function sendRefusal(
  reply: FastifyReply,
  code: ErrorCode,
  message: string,
  details?: readonly Fault[],
): FastifyReply {
  if (code === 'UNAUTHORIZED' && !reply.hasHeader('www-authenticate'))
    reply.header('www-authenticate', 'Bearer');
  return reply
    .code(statusOf[code])
    .type('application/json; charset=utf-8')
    .send(refusal(code, message, details));
}

/** Value of Retry-After during an outage, in seconds. */
const RETRY_SECONDS = 5;

/** Responds 503 when Postgres or the chain is unavailable. */
function sendUnavailable(reply: FastifyReply, message: string): FastifyReply {
  return reply
    .code(503)
    .header('retry-after', RETRY_SECONDS)
    .type('application/json; charset=utf-8')
    .send(refusal('INTERNAL_ERROR', message));
}

export function onError(
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  if (isUnavailable(error)) {
    request.log.debug({ err: error }, 'database unavailable');
    return sendUnavailable(
      reply,
      isTooSlow(error) && request.method === 'GET'
        ? 'The database did not answer in time. Narrow a list that is filtered by status, type or plan with since and until, or try again in a moment.'
        : 'The database is unavailable. Try again in a moment.',
    );
  }
  if (error instanceof ServiceError) {
    if (error.cause instanceof RpcUnreachable || error.cause instanceof RpcError) {
      request.log.warn({ err: error.cause }, 'chain unavailable');
      return sendUnavailable(reply, error.message);
    }
    if (error.code === 'INTERNAL_ERROR')
      request.log.error({ err: error, cause: error.cause }, 'request failed');
    return sendRefusal(reply, error.code, error.message, error.details);
  }
  if (error.validation !== undefined) {
    const details = faultsOf(error);
    const first = details[0];
    return sendRefusal(
      reply,
      'VALIDATION_ERROR',
      first === undefined ? 'The request is not valid.' : sentence(first),
      details,
    );
  }
  const knownRefusal = framework[error.code];
  if (knownRefusal !== undefined) return sendRefusal(reply, knownRefusal[0], knownRefusal[1]);
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
    return sendRefusal(reply, 'VALIDATION_ERROR', 'The request cannot be read.');
  }
  request.log.error({ err: error }, 'unexpected error');
  return sendRefusal(
    reply,
    'INTERNAL_ERROR',
    `Something went wrong on our side. If you report it, name the request ${request.id}.`,
  );
}

/**
 * Responds 405 with the header Allow if the path has other methods, otherwise 404. If the request
 * has a body, closes the connection, because the server would have to read the body before the next
 * request.
 */
export function refuseRoute(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { 'transfer-encoding': encoding, 'content-length': length } = request.headers;
  if (encoding !== undefined || Number(length ?? 0) > 0) reply.header('connection', 'close');
  const allowed = request.server.methodsOf(request.url);
  if (allowed.length === 0 || allowed.includes(request.method))
    return sendRefusal(reply, 'NOT_FOUND', 'There is no such route.');
  const list = allowed.join(', ');
  reply.header('allow', list);
  return sendRefusal(
    reply,
    'METHOD_NOT_ALLOWED',
    `This path takes ${list}, not ${request.method}.`,
  );
}

/**
 * Responds to invalid or incomplete HTTP. There is no request object, so the response is written to
 * the socket. The socket is then closed.
 */
export function onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, message] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'The headers are too large.']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'The request took too long to arrive.']
        : ['400 Bad Request', 'This is not a valid HTTP request.'];
  const body = JSON.stringify(refusal('VALIDATION_ERROR', message));
  // A slow client may never close its side of the connection, so the server destroys the socket as
  // soon as the response is written.
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') socket.once('finish', () => socket.destroy());
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\ncache-control: no-store\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

function sentence({ path, message }: Fault): string {
  return path === '' ? `The request ${message}.` : `${path} ${message}.`;
}

/** Maps each Ajv keyword to a function that returns the message of the validation error. */
const wishes: Record<string, (params: Record<string, unknown>) => string> = {
  minimum: ({ limit }) => `must be at least ${String(limit)}`,
  maximum: ({ limit }) => `must be at most ${String(limit)}`,
  minLength: ({ limit }) => `must have at least ${String(limit)} characters`,
  maxLength: ({ limit }) => `must have at most ${String(limit)} characters`,
  minItems: ({ limit }) => `must have at least ${String(limit)} entries`,
  maxItems: ({ limit }) => `must have at most ${String(limit)} entries`,
  minProperties: ({ limit }) => `must have at least ${String(limit)} fields`,
  maxProperties: ({ limit }) => `must have at most ${String(limit)} fields`,
  uniqueItems: () => 'must not have the same entry twice',
  pattern: () => 'must have the form that the reference at /docs says',
  type: ({ type }) =>
    `must be ${[type]
      .flat()
      .map((each) => typeNames[String(each)] ?? String(each))
      .join(' or ')}`,
};
const typeNames: Record<string, string> = {
  integer: 'a whole number',
  number: 'a number',
  string: 'a string',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
};

/** Converts Ajv's errors to field paths with messages. */
function faultsOf({ validation = [], validationContext }: FastifyError): Fault[] {
  // When a field violates a format and a pattern, only the format is reported, because its message
  // is more specific.
  const formatted = new Set(
    validation.flatMap(({ keyword, instancePath }) => (keyword === 'format' ? [instancePath] : [])),
  );
  const reported = validation.filter(
    ({ keyword, instancePath }) => keyword !== 'pattern' || !formatted.has(instancePath),
  );
  return reported.slice(0, MAX_FAULTS).map(({ instancePath, keyword, params, message }) => {
    const at = instancePath.slice(1).replaceAll('/', '.');
    const inside = (name: unknown) => (at === '' ? String(name) : `${at}.${String(name)}`);
    if (keyword === 'required')
      return { path: inside(params.missingProperty), message: 'is required' };
    if (keyword === 'additionalProperties') {
      const kind = validationContext === 'querystring' ? 'query parameter' : 'field';
      return {
        path: inside(params.additionalProperty).slice(0, 120),
        message: `is not a known ${kind}`,
      };
    }
    if (keyword === 'enum')
      return {
        path: at,
        message: `must be one of ${(params.allowedValues as string[]).join(', ')}`,
      };
    if (keyword === 'format' && typeof params.format === 'string' && params.format in formats) {
      return { path: at, message: formats[params.format as keyof typeof formats].message };
    }
    if (at === '' && keyword === 'type')
      return { path: '', message: 'must have a JSON object as its body' };
    return { path: at, message: wishes[keyword]?.(params) ?? message ?? 'is not valid' };
  });
}
