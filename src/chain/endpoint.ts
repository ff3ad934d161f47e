import type { Pool } from 'undici';
import { backoff } from '../backoff.ts';
import { ChainDataError } from './layouts.ts';
import { createPace } from './pace.ts';
import { EndpointFailure, type EndpointFault, RpcError } from './rpc-errors.ts';

// One RPC endpoint: a connection pool, what JSON-RPC errors mean, and how healthy it has been.

/** What is known of an endpoint, for choosing one and for operators. */
export interface EndpointHealth {
  /** Scheme, host and port: paths and queries of RPC URLs hold keys. */
  readonly name: string;
  /** Failures in a row. */
  readonly failures: number;
  /** Moving average of answered requests, milliseconds; null before the first. */
  readonly latencyMs: number | null;
  /** Slots behind the most advanced endpoint. */
  readonly lag: number;
  readonly requests: number;
  readonly lastFault: EndpointFault | null;
}

export interface Endpoint {
  readonly name: string;
  readonly health: () => EndpointHealth;
  /** Whether it failed and its time to be left alone has not passed, or somebody else is trying it right now. */
  readonly down: (now: number) => boolean;
  /** Milliseconds until rate limit and requested pauses allow a request. */
  readonly delay: (now: number) => number;
  readonly setLag: (slots: number) => void;
  /**
   * What `read` makes of the result of one JSON-RPC call. Throws EndpointFailure (another endpoint may do) or RpcError (none would). A request that
   * has had to wait for a connection until after `last` (performance.now()) does not go out any more.
   */
  readonly call: <T>(method: string, params: readonly unknown[], read: (result: unknown) => T, last?: number) => Promise<T>;
  readonly close: () => Promise<void>;
}

export interface EndpointOptions {
  readonly timeoutMs: number;
  readonly requestsPerSecond?: number | undefined;
}

const MAX_CONNECTIONS = 64;
const MAX_IN_FLIGHT = 2048;
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const DEFAULT_429_PAUSE_MS = 1000;
const MIN_429_PAUSE_MS = 250;
const MAX_429_PAUSE_MS = 60_000;

// Codes by which a node says "not I", as Agave's rpc-client-api `custom_error.rs` and the JSON-RPC specification name them.
const BEHIND = new Set([-32004, -32005, -32014, -32016]);
const RATE_LIMITED = new Set([429, -32429]);
const METHOD_NOT_FOUND = -32601;
const INTERNAL_ERROR = -32603;
// Faults that say nothing of the endpoint's health.
const HARMLESS: ReadonlySet<EndpointFault> = new Set(['unsupported', 'behind', 'busy']);
// undici's, by which its errors are told apart.
const TIMEOUTS = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT', 'UND_ERR_CONNECT_TIMEOUT']);

/** Opens an endpoint; nothing is sent yet. Throws a TypeError for what is no http or https URL. */
export function createEndpoint(url: string, { timeoutMs, requestsPerSecond }: EndpointOptions): Endpoint {
  const { origin, pathname, search, username, password, protocol } = new URL(url);
  if (protocol !== 'http:' && protocol !== 'https:') throw new TypeError(`an RPC URL begins with http:// or https://, not ${protocol}`);
  const path = pathname + search;
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const headers = {
    'content-type': 'application/json',
    ...(username !== '' && { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` }),
  };
  const openPool = async () => {
    const undici = await import('undici');
    const opened = new undici.Pool(origin, {
      connections: MAX_CONNECTIONS,
      connect: { timeout: Math.min(timeoutMs, 5000) },
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      // A fresh TLS handshake costs more than a request; a connection that the server closed meanwhile is opened again.
      keepAliveTimeout: 30_000,
      maxResponseSize: MAX_ANSWER_BYTES,
    });
    if (closed) await opened.destroy();
    return opened;
  };
  // With the first request: serve listens before it asks a chain, and undici is a good part of a start's time.
  let pool: Promise<Pool> | undefined;
  const pace = createPace(requestsPerSecond);
  let id = 0;
  let requests = 0;
  let inFlight = 0;
  let failures = 0;
  let downUntil = -Infinity;
  let onTrial = false;
  let latencyMs: number | null = null;
  let lag = 0;
  let lastFault: EndpointFault | null = null;
  let closed = false;

  // undici's handlers rather than its `request`: an answer of two hundred bytes needs no stream, and each payment waits for one.
  async function post(body: string, last: number): Promise<Answer> {
    const started = performance.now();
    pool ??= openPool();
    const opened = await pool;
    return new Promise((resolve, reject) => {
      let status = 0;
      let retryAfter: Answer['retryAfter'];
      const chunks: Buffer[] = [];
      opened.dispatch(
        { method: 'POST', path, headers, body },
        {
          // The last moment before the bytes go out. Handlers of undici's older kind are told apart by not having this one.
          onRequestStart() {
            if (performance.now() > last) throw new EndpointFailure('busy', 'no connection was free in time');
          },
          onResponseStart(_controller, statusCode, { 'retry-after': pause }) {
            status = statusCode;
            retryAfter = pause;
          },
          onResponseData(controller, chunk) {
            chunks.push(chunk);
            // bodyTimeout only watches the gaps: an endpoint that trickles would hold the caller for ever.
            if (performance.now() - started > timeoutMs) controller.abort(new EndpointFailure('timeout', noAnswer(timeoutMs)));
          },
          onResponseEnd: () => resolve({ status, retryAfter, text: textOf(chunks) }),
          onResponseError: (_controller, error) => reject(error),
        },
      );
    });
  }

  async function ask(method: string, params: readonly unknown[], last: number): Promise<unknown> {
    id = (id + 1) % 0x7fffffff;
    const body = JSON.stringify({ jsonrpc: '2.0', id, method, params });
    // A kept connection may be closed by the other side at the very moment of use. Every method is safe to repeat, sending included.
    const { status, retryAfter, text } = await post(body, last).catch((error: unknown) => {
      if (closed || codeOf(error) !== 'UND_ERR_SOCKET') throw error;
      return post(body, last);
    });
    if (status === 429) throw new EndpointFailure('rate_limited', 'too many requests (429)', { pauseMs: retryAfterMs(retryAfter) });
    return readAnswer(method, status, text);
  }

  function readAnswer(method: string, status: number, text: string): unknown {
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch {
      if (status >= 400) throw new EndpointFailure('http', `HTTP status ${status}`);
      throw new EndpointFailure('malformed', 'an answer that is not JSON');
    }
    if (typeof answer !== 'object' || answer === null) throw new EndpointFailure('malformed', 'an answer that is not JSON-RPC');
    if ('error' in answer && typeof answer.error === 'object' && answer.error !== null) throw jsonRpcError(method, answer.error);
    if (status >= 400) throw new EndpointFailure('http', `HTTP status ${status}`);
    if (!('result' in answer)) throw new EndpointFailure('malformed', 'an answer without result or error');
    return answer.result;
  }

  function jsonRpcError(method: string, error: object): Error {
    const code = 'code' in error && typeof error.code === 'number' ? error.code : NaN;
    const message = 'message' in error && typeof error.message === 'string' ? error.message : 'no message';
    const data = 'data' in error ? error.data : undefined;
    const text = `${message} (${code})`;
    if (Number.isNaN(code)) return new EndpointFailure('malformed', 'a JSON-RPC error without a code');
    if (RATE_LIMITED.has(code)) return new EndpointFailure('rate_limited', text, { pauseMs: DEFAULT_429_PAUSE_MS });
    if (BEHIND.has(code)) return new EndpointFailure('behind', text);
    if (code === METHOD_NOT_FOUND) return new EndpointFailure('unsupported', text);
    if (code === INTERNAL_ERROR) return new EndpointFailure('http', text);
    return new RpcError(origin, method, code, message, data);
  }

  function record(error: unknown): EndpointFailure | RpcError {
    const failure = asFailure(error, origin, timeoutMs);
    if (failure instanceof RpcError) {
      failures = 0;
      return failure;
    }
    lastFault = failure.fault;
    const now = performance.now();
    if (failure.fault === 'rate_limited') pace.pauseUntil(now + (failure.pauseMs ?? DEFAULT_429_PAUSE_MS));
    // Requests that were under way together fail together: they count as one failure.
    else if (!HARMLESS.has(failure.fault) && now >= downUntil) {
      failures += 1;
      downUntil = now + backoff(failures, { base: 500, cap: 30_000 });
    }
    return failure;
  }

  return {
    name: origin,
    health: () => ({ name: origin, failures, latencyMs, lag, requests, lastFault }),
    down: (now) => failures > 0 && (now < downUntil || onTrial),
    delay: (now) => pace.delay(now),
    setLag: (slots) => (lag = slots),
    async call(method, params, read, last = Infinity) {
      if (inFlight >= MAX_IN_FLIGHT) throw new EndpointFailure('busy', `${inFlight} requests under way`, { endpoint: origin });
      const started = performance.now();
      pace.take(started);
      requests += 1;
      inFlight += 1;
      // After a failure one request at a time finds out whether the endpoint is back, so that not everybody waits for its timeout.
      const trial = failures > 0;
      if (trial) onTrial = true;
      try {
        const answer = read(await ask(method, params, last));
        const took = performance.now() - started;
        latencyMs = latencyMs === null ? took : latencyMs + (took - latencyMs) / 5;
        failures = 0;
        return answer;
      } catch (error) {
        throw record(error);
      } finally {
        inFlight -= 1;
        if (trial) onTrial = false;
      }
    },
    async close() {
      closed = true;
      await (await pool)?.destroy();
    },
  };
}

interface Answer {
  readonly status: number;
  readonly retryAfter: string | string[] | undefined;
  readonly text: string;
}

function textOf(chunks: readonly Buffer[]): string {
  const [first] = chunks;
  return chunks.length === 1 && first !== undefined ? first.toString('utf8') : Buffer.concat(chunks).toString('utf8');
}

/** What went wrong, with the endpoint's name. Anything that is neither HTTP's nor JSON-RPC's fault is a bug of ours and stays what it is. */
function asFailure(error: unknown, endpoint: string, timeoutMs: number): EndpointFailure | RpcError {
  if (error instanceof RpcError) return error;
  const failure = (fault: EndpointFault, message: string, pauseMs?: number) =>
    new EndpointFailure(fault, message, { endpoint, pauseMs, cause: error });
  if (error instanceof EndpointFailure) return failure(error.fault, error.message, error.pauseMs);
  if (error instanceof ChainDataError) return failure('malformed', error.message);
  const code = codeOf(error);
  if (code === undefined || !(error instanceof Error)) throw error;
  if (TIMEOUTS.has(code)) return failure('timeout', noAnswer(timeoutMs));
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return failure('malformed', 'an answer that is too long');
  return failure('unreachable', error.message === '' ? code : `${error.message} (${code})`);
}

const noAnswer = (timeoutMs: number) => `no answer within ${timeoutMs} ms`;

/** The code of an error of undici's or the system's. */
function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/**
 * Retry-After: whole seconds, or an HTTP date (RFC 9110, 10.2.3). At most a minute, so that a slip does not stop collecting; at least a quarter
 * of a second, so that "0" does not become a loop.
 */
function retryAfterMs(header: string | string[] | undefined): number {
  if (typeof header !== 'string') return DEFAULT_429_PAUSE_MS;
  const ms = /^\d+$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? DEFAULT_429_PAUSE_MS : Math.min(Math.max(ms, MIN_429_PAUSE_MS), MAX_429_PAUSE_MS);
}
