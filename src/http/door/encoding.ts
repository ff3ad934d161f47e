// Decodes the bytes of a request as text. Text that is not UTF-8 is refused, because a decoder
// would replace invalid bytes with U+FFFD and the service would store the replacement.
import type { FastifyRequest } from 'fastify';
import { invalidField, ServiceError } from '../../errors.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Returns a VALIDATION_ERROR if the body is compressed. Every body parser calls this function, also
 * the parser of images. Otherwise the service would store compressed bytes without their encoding.
 */
export function encodingFault({ headers }: FastifyRequest): ServiceError | undefined {
  const encoding = headers['content-encoding'];
  if (encoding === undefined || /^(identity)?$/i.test(encoding)) return undefined;
  return new ServiceError(
    'VALIDATION_ERROR',
    'Content-Encoding is not supported: send the body as it is, without compression.',
  );
}

/**
 * Returns the text of a body. Returns a VALIDATION_ERROR when the body is compressed or not UTF-8.
 */
export function bodyText(request: FastifyRequest, body: Buffer): string | ServiceError {
  const fault = encodingFault(request);
  if (fault !== undefined) return fault;
  try {
    return utf8.decode(body);
  } catch {
    return new ServiceError('VALIDATION_ERROR', 'The body is not valid UTF-8.');
  }
}

/**
 * Returns the VALIDATION_ERROR for the first query parameter that is not percent-encoded UTF-8, if
 * any. Routes that read no query parameters ignore the query, so their query is not checked.
 */
export function brokenQuery({ raw, routeOptions }: FastifyRequest): ServiceError | undefined {
  const { url = '' } = raw;
  const start = url.indexOf('?');
  if (start === -1 || !url.includes('%', start)) return undefined;
  const schema = routeOptions.schema as { querystring?: unknown } | undefined;
  if (schema?.querystring === undefined) return undefined;
  for (const parameter of url.slice(start + 1).split('&')) {
    if (isEncoded(parameter)) continue;
    const [name = ''] = parameter.split('=', 1);
    return isEncoded(name)
      ? invalidField(decodeURIComponent(name).slice(0, 120), 'must be percent-encoded UTF-8')
      : new ServiceError('VALIDATION_ERROR', 'The query must be percent-encoded UTF-8.');
  }
  return undefined;
}

function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
