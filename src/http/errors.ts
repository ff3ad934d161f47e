// Every refusal leaves through here, in the envelope. What is not a refusal is a fault of ours: logged whole, told in general words.
import type { Socket } from 'node:net';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError, type ErrorCode, type Fault } from '../errors.ts';
import { refusal, statusOf } from './envelope.ts';
import { formats } from './fields.ts';

const mostFaults = 20;

/** Fastify's own refusals, in our words (https://fastify.dev/docs/latest/Reference/Errors/). */
const framework: Record<string, [ErrorCode, string]> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['VALIDATION_ERROR', 'The body must be JSON: send Content-Type: application/json.'],
  FST_ERR_CTP_BODY_TOO_LARGE: ['VALIDATION_ERROR', 'The body is larger than 64 KiB.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['VALIDATION_ERROR', 'The body is not as long as Content-Length says.'],
  FST_ERR_CTP_INVALID_JSON_BODY: ['VALIDATION_ERROR', 'The body is not valid JSON.'],
  FST_ERR_BAD_URL: ['NOT_FOUND', 'There is no such route.'],
  FST_ERR_MAX_PARAM_LENGTH: ['NOT_FOUND', 'There is no such route.'],
};

/** Answers with the envelope. */
function sendRefusal(reply: FastifyReply, code: ErrorCode, message: string, details?: readonly Fault[]): FastifyReply {
  if (code === 'UNAUTHORIZED') reply.header('www-authenticate', 'Bearer');
  return reply
    .code(statusOf[code])
    .type('application/json; charset=utf-8')
    .send(refusal(code, message, details));
}

/** The error handler of the whole API. */
export function onError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  // Fastify reads a body where there is no route, too.
  if (request.is404) return onUnknownRoute(request, reply);
  if (error instanceof ServiceError) {
    if (error.code === 'INTERNAL_ERROR') request.log.error({ err: error, cause: error.cause }, 'an answer could not be given');
    return sendRefusal(reply, error.code, error.message, error.details);
  }
  if (error.validation !== undefined) {
    const details = faultsOf(error);
    const first = details[0];
    return sendRefusal(reply, 'VALIDATION_ERROR', first === undefined ? 'The request is not valid.' : sentence(first), details);
  }
  const known = framework[error.code];
  if (known !== undefined) return sendRefusal(reply, known[0], known[1]);
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
    return sendRefusal(reply, 'VALIDATION_ERROR', 'The request cannot be read.');
  }
  request.log.error({ err: error }, 'an unexpected error');
  return sendRefusal(reply, 'INTERNAL_ERROR', `Something went wrong on our side. If you report it, name the request ${request.id}.`);
}

export function onUnknownRoute(_request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return sendRefusal(reply, 'NOT_FOUND', 'There is no such route.');
}

/** What is not HTTP at all, or never ends: answered on the bare socket, which is then closed. */
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
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

function sentence({ path, message }: Fault): string {
  return path === '' ? `The request ${message}.` : `${path} ${message}.`;
}

/** Ajv's errors as places and what would be right there. */
function faultsOf({ validation = [], validationContext }: FastifyError): Fault[] {
  return validation.slice(0, mostFaults).map(({ instancePath, keyword, params, message }) => {
    const at = instancePath.slice(1).replaceAll('/', '.');
    const inside = (name: unknown) => (at === '' ? String(name) : `${at}.${String(name)}`);
    if (keyword === 'required') return { path: inside(params.missingProperty), message: 'is required' };
    if (keyword === 'additionalProperties') {
      const kind = validationContext === 'querystring' ? 'query parameter' : 'field';
      return { path: inside(params.additionalProperty).slice(0, 120), message: `is not a known ${kind}` };
    }
    if (keyword === 'enum') return { path: at, message: `must be one of ${(params.allowedValues as string[]).join(', ')}` };
    if (keyword === 'format' && typeof params.format === 'string' && params.format in formats) {
      return { path: at, message: formats[params.format as keyof typeof formats].message };
    }
    if (at === '' && keyword === 'type') return { path: '', message: 'must have a JSON object as its body' };
    return { path: at, message: message ?? 'is not valid' };
  });
}
