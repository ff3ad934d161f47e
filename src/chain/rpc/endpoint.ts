// One RPC endpoint: its connection pool, rate limit and health.
import type { Pool } from 'undici';
import { backoff } from '../../backoff.ts';
import { ADDRESS_TIMEOUT_MS } from '../../sockets.ts';
import { EndpointFailure, type EndpointFault, isUnreadable, RpcError } from './errors.ts';
import { hostOf } from './hosts.ts';
import {
  asFailure,
  codeOf,
  DEFAULT_429_PAUSE_MS,
  type HttpResponse,
  timeoutText,
  readResult,
} from './json-rpc.ts';
import { createRateLimit, type RateLimit } from './rate-limit.ts';

/** The health of an endpoint, used to rank endpoints and shown to operators. */
export interface EndpointHealth {
  /**
   * Scheme, host and port of the endpoint. Paths and queries are omitted, because they hold API
   * keys.
   */
  readonly name: string;
  /** Number of consecutive failures. */
  readonly failures: number;
  /**
   * Moving average of the latency of successful requests in milliseconds. Null before the first
   * success.
   */
  readonly latencyMs: number | null;
  /** Number of slots by which this endpoint is behind the most advanced endpoint. */
  readonly lag: number;
  readonly requests: number;
  readonly lastFault: EndpointFault | null;
}

export interface EndpointOptions {
  readonly timeoutMs: number;
  /** Default: no limit except the pauses that the endpoint requests. */
  readonly rateLimit?: RateLimit | undefined;
}

const MAX_CONNECTIONS = 64;
const MAX_IN_FLIGHT = 2048;
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
/** Faults that do not count as a failure of the endpoint. */
const HARMLESS: ReadonlySet<EndpointFault> = new Set([
  'unsupported',
  'behind',
  'no_history',
  'busy',
]);

export class RpcEndpoint {
  /** Scheme, host and port of the URL. */
  readonly name: string;
  /**
   * Host and port of the URL (hostOf). URLs that differ only in scheme, credentials, path or query
   * lead to one provider and count as one witness.
   */
  readonly host: string;
  readonly rateLimit: RateLimit;
  readonly #timeoutMs: number;
  readonly #path: string;
  readonly #headers: Record<string, string>;
  #pool: Promise<Pool> | undefined;
  #id = 0;
  #requests = 0;
  #inFlight = 0;
  #failures = 0;
  #downUntil = -Infinity;
  #isOnTrial = false;
  #latencyMs: number | null = null;
  #lag = 0;
  #lastFault: EndpointFault | null = null;
  #isClosed = false;

  /** Throws a TypeError unless `url` is an http or https URL. */
  constructor(url: string, { timeoutMs, rateLimit = createRateLimit() }: EndpointOptions) {
    const parsed = new URL(url);
    const { origin, pathname, search, username, password, protocol } = parsed;
    if (protocol !== 'http:' && protocol !== 'https:')
      throw new TypeError(`an RPC URL begins with http:// or https://, not ${protocol}`);
    const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    this.name = origin;
    this.host = hostOf(parsed);
    this.#timeoutMs = timeoutMs;
    this.#path = pathname + search;
    this.#headers = {
      'content-type': 'application/json',
      ...(username !== '' && {
        authorization: `Basic ${Buffer.from(credentials).toString('base64')}`,
      }),
    };
    this.rateLimit = rateLimit;
  }

  health(): EndpointHealth {
    return {
      name: this.name,
      failures: this.#failures,
      latencyMs: this.#latencyMs,
      lag: this.#lag,
      requests: this.#requests,
      lastFault: this.#lastFault,
    };
  }

  /**
   * Whether the endpoint counts as down. An endpoint is down in two cases: (1) the endpoint is in
   * backoff after a failure, (2) a single request is testing whether the endpoint works again.
   */
  down(now: number): boolean {
    return this.#failures > 0 && (now < this.#downUntil || this.#isOnTrial);
  }

  /**
   * Milliseconds until the next request may be sent. The rate limit delays requests, and so does a
   * pause that the endpoint requested.
   */
  delay(now: number): number {
    return this.rateLimit.delay(now);
  }

  /**
   * Number of requests that may be sent now under the rate limit; 0 during a pause that the
   * endpoint requested.
   */
  allowed(now: number): number {
    return this.rateLimit.allowed(now);
  }

  setLag(slots: number): void {
    this.#lag = slots;
  }

  /**
   * Makes one JSON-RPC call. `read` parses the result. Throws EndpointFailure when another endpoint
   * may succeed, and RpcError when every endpoint would refuse the request. `last` is the latest
   * time (performance.now()) at which the request may be sent.
   */
  async call<T>(
    method: string,
    params: readonly unknown[],
    read: (result: unknown) => T,
    last = Infinity,
  ): Promise<T> {
    if (this.#inFlight >= MAX_IN_FLIGHT)
      throw new EndpointFailure('busy', `${this.#inFlight} requests under way`, {
        endpoint: this.name,
      });
    const started = performance.now();
    this.rateLimit.take(started);
    this.#requests += 1;
    this.#inFlight += 1;
    // After a failure, only one request at a time tests this endpoint. All other requests use other
    // endpoints, so that they do not wait for a timeout.
    const isTrial = this.#failures > 0;
    if (isTrial) this.#isOnTrial = true;
    try {
      const response = read(await this.#ask(method, params, last));
      const took = performance.now() - started;
      this.#latencyMs =
        this.#latencyMs === null ? took : this.#latencyMs + (took - this.#latencyMs) / 5;
      this.#failures = 0;
      return response;
    } catch (error) {
      throw this.#record(error, started);
    } finally {
      this.#inFlight -= 1;
      if (isTrial) this.#isOnTrial = false;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#pool)?.destroy();
  }

  async #ask(method: string, params: readonly unknown[], last: number): Promise<unknown> {
    this.#id = (this.#id + 1) % 0x7fffffff;
    const body = JSON.stringify({ jsonrpc: '2.0', id: this.#id, method, params });
    // The server may close a kept-alive connection while the client writes a request to it. The
    // client then sends the request a second time. A repeated request is safe for every method,
    // including sendTransaction.
    const response = await this.#post(body, last).catch((error: unknown) => {
      if (this.#isClosed || codeOf(error) !== 'UND_ERR_SOCKET') throw error;
      return this.#post(body, last);
    });
    return readResult(this.name, method, response);
  }

  /**
   * Sends the request with undici's dispatch handlers. `undici.request` would create a stream for
   * each small response on the hot path of payments.
   */
  async #post(body: string, last: number): Promise<HttpResponse> {
    const started = performance.now();
    const timeoutMs = this.#timeoutMs;
    this.#pool ??= this.#openPool();
    const pool = await this.#pool;
    return new Promise((resolve, reject) => {
      let status = 0;
      let retryAfter: HttpResponse['retryAfter'];
      const chunks: Buffer[] = [];
      pool.dispatch(
        { method: 'POST', path: this.#path, headers: this.#headers, body },
        {
          // undici calls this method right before it writes the request. undici has two handler
          // interfaces, and this method tells undici that the handler has the new interface.
          onRequestStart() {
            if (performance.now() > last)
              throw new EndpointFailure('busy', 'no connection was free in time');
          },
          onResponseStart(_controller, statusCode, { 'retry-after': pause }) {
            status = statusCode;
            retryAfter = pause;
          },
          onResponseData(controller, chunk) {
            chunks.push(chunk);
            // undici's bodyTimeout limits only the gaps between chunks. A response that arrives
            // slowly in small chunks would never time out without this check.
            if (performance.now() - started > timeoutMs)
              controller.abort(new EndpointFailure('timeout', timeoutText(timeoutMs)));
          },
          onResponseEnd: () =>
            resolve({ status, retryAfter, text: Buffer.concat(chunks).toString('utf8') }),
          onResponseError: (_controller, error) => reject(error),
        },
      );
    });
  }

  /**
   * Imports undici on the first request, because loading undici takes long. `serve` first listens
   * and only later calls the chain, so `serve` can listen sooner.
   */
  async #openPool(): Promise<Pool> {
    const { default: undici } = await import('undici');
    const pool = new undici.Pool(this.name, {
      connections: MAX_CONNECTIONS,
      connect: {
        timeout: Math.min(this.#timeoutMs, 5000),
        autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS,
      },
      headersTimeout: this.#timeoutMs,
      bodyTimeout: this.#timeoutMs,
      // Idle connections stay open for 30 s, because a new TLS handshake costs more than a request.
      keepAliveTimeout: 30_000,
      maxResponseSize: MAX_RESPONSE_BYTES,
    });
    if (this.#isClosed) await pool.destroy();
    return pool;
  }

  #record(error: unknown, started: number): EndpointFailure | RpcError {
    const failure = asFailure(error, this.name, this.#timeoutMs);
    if (failure instanceof RpcError || isUnreadable(failure.fault)) {
      this.#failures = 0;
      return failure;
    }
    this.#lastFault = failure.fault;
    const now = performance.now();
    if (failure.fault === 'rate_limited')
      this.rateLimit.pauseUntil(now + (failure.pauseMs ?? DEFAULT_429_PAUSE_MS));
    // Requests that were in flight at the same time often fail together. Such failures count as one
    // failure of the endpoint, even if the last request fails much later.
    else if (!HARMLESS.has(failure.fault) && started >= this.#downUntil) {
      this.#failures += 1;
      this.#downUntil = now + backoff(this.#failures, { base: 500, cap: 30_000 });
    }
    return failure;
  }
}
// Endpoints are compared by cost. The cost (ms) of an endpoint is the sum of: its latency, its wait
// for the rate limit, PREFERENCE_MS for each endpoint before it in the configured list, and SLOT_MS
// for each slot of lag above LAG_TOLERANCE. UNKNOWN_LATENCY_MS replaces an unknown latency.
const PREFERENCE_MS = 100;
const UNKNOWN_LATENCY_MS = 50;
const SLOT_MS = 400;
// An endpoint that is up, and whose rate limit delays the request by at most this time (ms), is
// preferred to an endpoint that is down.
const SHORT_WAIT_MS = 250;
// A lag of one or two slots is propagation delay and costs nothing.
const LAG_TOLERANCE = 2;

/**
 * Sorts endpoints, best first: (1) up without a wait, (2) up with a wait of at most 250 ms, (3)
 * down with a wait of at most 250 ms, (4) every endpoint with a longer wait. `endpoints` is in the
 * configured order of preference.
 */
export function ranked(endpoints: readonly RpcEndpoint[], now: number): RpcEndpoint[] {
  return endpoints
    .map((endpoint, index) => {
      const wait = endpoint.delay(now);
      return {
        endpoint,
        group: groupOf(wait, endpoint.down(now)),
        cost: index * PREFERENCE_MS + costOf(endpoint) + wait,
      };
    })
    .sort((a, b) => a.group - b.group || a.cost - b.cost)
    .map(({ endpoint }) => endpoint);
}

function groupOf(wait: number, isDown: boolean): number {
  if (wait > SHORT_WAIT_MS) return 3;
  if (isDown) return 2;
  return wait > 0 ? 1 : 0;
}

function costOf(endpoint: RpcEndpoint): number {
  const { latencyMs, lag } = endpoint.health();
  return (latencyMs ?? UNKNOWN_LATENCY_MS) + Math.max(0, lag - LAG_TOLERANCE) * SLOT_MS;
}
