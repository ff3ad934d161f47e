// JSON-RPC over HTTP. Parses responses and classifies errors for the failover.
import { ChainDataError } from '../program/layouts.ts';
import { EndpointFailure, type EndpointFault, RpcError } from './errors.ts';

export interface HttpResponse {
  readonly status: number;
  readonly retryAfter: string | string[] | undefined;
  readonly text: string;
}

export const DEFAULT_429_PAUSE_MS = 1000;
const MIN_429_PAUSE_MS = 250;
const MAX_429_PAUSE_MS = 60_000;

// JSON-RPC error codes after which another endpoint may succeed. The codes are from the JSON-RPC
// specification and from `custom_error.rs` in Agave's rpc-client-api.
const BEHIND = new Set([-32004, -32005, -32014, -32016]);
/**
 * The endpoint lacks this part of the history: it keeps no transactions (-32011), has deleted old
 * blocks (-32001), or cannot reach its archive (-32019).
 */
const LACKS_HISTORY = new Set([-32001, -32011, -32019]);
const RATE_LIMITED = new Set([429, -32429]);
const METHOD_NOT_FOUND = -32601;
const UNSUPPORTED_VERSION = -32015;
const INTERNAL_ERROR = -32603;
const UNDICI_TIMEOUTS = new Set([
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/**
 * Returns the result in a JSON-RPC response. Throws EndpointFailure when another endpoint may
 * succeed, RpcError when every endpoint would refuse.
 */
export function readResult(endpoint: string, method: string, response: HttpResponse): unknown {
  const { status } = response;
  if (status === 429)
    throw new EndpointFailure('rate_limited', 'too many requests (429)', {
      pauseMs: retryAfterMs(response.retryAfter),
    });
  let body: unknown;
  try {
    body = JSON.parse(response.text);
  } catch {
    if (status >= 400) throw new EndpointFailure('http', `HTTP status ${status}`);
    throw new EndpointFailure('malformed', 'a response that is not JSON');
  }
  if (typeof body !== 'object' || body === null)
    throw new EndpointFailure('malformed', 'a response that is not JSON-RPC');
  if ('error' in body && typeof body.error === 'object' && body.error !== null)
    throw jsonRpcError(endpoint, method, body.error);
  if (status >= 400) throw new EndpointFailure('http', `HTTP status ${status}`);
  if (!('result' in body))
    throw new EndpointFailure('malformed', 'a response without result or error');
  return body.result;
}

function jsonRpcError(endpoint: string, method: string, error: object): Error {
  const code = 'code' in error && typeof error.code === 'number' ? error.code : NaN;
  const message =
    'message' in error && typeof error.message === 'string' ? error.message : 'no message';
  const data = 'data' in error ? error.data : undefined;
  const text = `${message} (${code})`;
  if (Number.isNaN(code))
    return new EndpointFailure('malformed', 'a JSON-RPC error without a code');
  if (RATE_LIMITED.has(code))
    return new EndpointFailure('rate_limited', text, { pauseMs: DEFAULT_429_PAUSE_MS });
  // Anyone can send a transaction that an endpoint fails to return. Therefore the error does not
  // count against the endpoint's health. Another endpoint may return the transaction.
  if (method === 'getTransaction')
    return new EndpointFailure(code === UNSUPPORTED_VERSION ? 'version' : 'refused', text);
  if (BEHIND.has(code)) return new EndpointFailure('behind', text);
  if (LACKS_HISTORY.has(code)) return new EndpointFailure('no_history', text);
  if (code === METHOD_NOT_FOUND) return new EndpointFailure('unsupported', text);
  if (code === INTERNAL_ERROR) return new EndpointFailure('http', text);
  return new RpcError(endpoint, method, code, message, data);
}

/**
 * Converts the error of a request into an EndpointFailure or RpcError with the endpoint's name. Any
 * other error is a bug and is rethrown.
 */
export function asFailure(
  error: unknown,
  endpoint: string,
  timeoutMs: number,
): EndpointFailure | RpcError {
  if (error instanceof RpcError) return error;
  const failure = (fault: EndpointFault, message: string, pauseMs?: number) =>
    new EndpointFailure(fault, message, { endpoint, pauseMs, cause: error });
  if (error instanceof EndpointFailure) return failure(error.fault, error.message, error.pauseMs);
  if (error instanceof ChainDataError) return failure('malformed', error.message);
  const code = codeOf(error);
  if (code === undefined || !(error instanceof Error)) throw error;
  if (UNDICI_TIMEOUTS.has(code)) return failure('timeout', timeoutText(timeoutMs));
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE')
    return failure('malformed', 'a response that is too long');
  return failure('unreachable', error.message === '' ? code : `${error.message} (${code})`);
}

export const timeoutText = (timeoutMs: number) => `no response within ${timeoutMs} ms`;

/** The `code` of an error of undici or of the operating system. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined;
}

/**
 * Returns the milliseconds of a Retry-After header, which has whole seconds or an HTTP date (RFC
 * 9110, 10.2.3). The maximum is a minute, so that a provider's mistake does not stop collection.
 * The minimum is a quarter of a second, so that "0" does not cause a busy loop.
 */
function retryAfterMs(header: string | string[] | undefined): number {
  if (typeof header !== 'string') return DEFAULT_429_PAUSE_MS;
  const ms = /^\d+$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms)
    ? DEFAULT_429_PAUSE_MS
    : Math.min(Math.max(ms, MIN_429_PAUSE_MS), MAX_429_PAUSE_MS);
}
