// Failover over several RPC endpoints. A call goes to the best endpoint first, then to the other
// endpoints until one succeeds.
import { setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from '../../log.ts';
import type { ObservedRequest } from './call-errors.ts';
import { errorOfAll, outcomeOf, tooSlow } from './call-errors.ts';
import { EndpointPlaces } from './endpoint-slots.ts';
import { ranked, type EndpointHealth, RpcEndpoint } from './endpoint.ts';
import { EndpointFailure, isUnreadable, lacksData, RpcUnreachable } from './errors.ts';
import { createRateLimit, createRateLimitWithin, type Rate } from './rate-limit.ts';
import type { TrustedSlotsOptions } from './trusted-slots.ts';

export interface FailoverOptions {
  /** URLs of the endpoints in order of preference. */
  readonly urls: readonly string[];
  /** Timeout of one request to one endpoint in milliseconds. */
  readonly timeoutMs?: number | undefined;
  /** Maximum number of requests per second to each endpoint. */
  readonly requestsPerSecond?: Rate | undefined;
  /**
   * Another Failover with the same URLs. If `within` is given, the new Failover has no limit of its
   * own: its requests count against `requestsPerSecond` of the other Failover.
   */
  readonly within?: Failover | undefined;
  /**
   * Interval (ms) at which the Clock account of each endpoint is read. The account is read only
   * while calls are made, and only when several endpoints are configured.
   */
  readonly probeMs?: number | undefined;
  /**
   * Options for the check of the slot in each response. A response with an implausible slot is
   * rejected. Undefined on a local chain, whose users may move the slot.
   */
  readonly slots?: TrustedSlotsOptions | undefined;
  /**
   * Returns why an endpoint with this genesis hash must not be used, or null to accept the
   * endpoint. The genesis hash is read before the endpoint's first call, because an endpoint of
   * another chain would report all accounts as missing. Without `refuses` every endpoint is used.
   */
  readonly refuses?: ((genesisHash: string) => string | null) | undefined;
  readonly log: Pick<Log, 'warn' | 'info'>;
  /** Called after every request to an endpoint, for metrics. */
  readonly observe?: ((request: ObservedRequest) => void) | undefined;
}

/** Parses the result of a call. Throws EndpointFailure for a result of an unexpected shape. */
type Read<T> = (result: unknown) => T;

/** Calls a method of one endpoint. */
export type Ask = <T>(method: string, params: readonly unknown[], read: Read<T>) => Promise<T>;

export interface AskOptions {
  /**
   * Milliseconds after which the request is not sent to any further endpoint. A request that was
   * already sent may still succeed.
   */
  readonly withinMs?: number | undefined;
}

const DEFAULT_TIMEOUT_MS = 10_000;
/** Default of `probeMs`. */
const DEFAULT_PROBE_MS = 15_000;
export class Failover {
  readonly #options: FailoverOptions;
  readonly #timeoutMs: number;
  readonly #endpoints: readonly RpcEndpoint[];
  readonly #closing = new AbortController();
  /**
   * `#admitted` has the endpoints whose genesis hash was accepted. `#pending` has the requests in
   * flight that read genesis hashes.
   */
  readonly #admitted = new Set<RpcEndpoint>();
  readonly #pending = new Map<RpcEndpoint, Promise<void>>();
  readonly #places: EndpointPlaces;

  /** Creates the failover without sending a request. Throws a TypeError for a bad URL. */
  constructor(options: FailoverOptions) {
    const { urls, timeoutMs = DEFAULT_TIMEOUT_MS, requestsPerSecond, within } = options;
    if (urls.length === 0) throw new TypeError('at least one RPC URL is needed');
    this.#options = options;
    // Each call that waits for the rate limit adds a listener, so Node's default limit of listeners
    // is too low.
    setMaxListeners(0, this.#closing.signal);
    this.#timeoutMs = timeoutMs;
    this.#endpoints = urls.map((url, index) => {
      const other = within === undefined ? undefined : within.#endpoints[index]?.rateLimit;
      const rateLimit =
        other === undefined ? createRateLimit(requestsPerSecond) : createRateLimitWithin(other);
      return new RpcEndpoint(url, { timeoutMs, rateLimit });
    });
    this.#places = new EndpointPlaces({
      endpoints: this.#endpoints,
      everyMs: options.probeMs ?? DEFAULT_PROBE_MS,
      slots: options.slots,
      ask: (endpoint, method, params, read) => this.#attempt(endpoint, method, params, read),
    });
  }

  /** Number of endpoints. URLs of one host and port count as one. */
  get size(): number {
    return new Set(this.#endpoints.map(({ host }) => host)).size;
  }

  health(): EndpointHealth[] {
    return this.#endpoints.map((endpoint) => endpoint.health());
  }

  /**
   * Number of requests that may be sent now to the endpoint whose rate limit allows the most
   * requests.
   */
  allowed(): number {
    const now = performance.now();
    return Math.max(...this.#endpoints.map((endpoint) => endpoint.allowed(now)));
  }

  /**
   * Milliseconds until the rate limit of at least one endpoint allows a request. Endpoints that are
   * down are ignored unless all endpoints are down.
   */
  delay(): number {
    const now = performance.now();
    const up = this.#endpoints.filter((endpoint) => !endpoint.down(now));
    const usable = up.length > 0 ? up : this.#endpoints;
    return Math.min(...usable.map((endpoint) => endpoint.delay(now)));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#endpoints.map((endpoint) => endpoint.close()));
    await this.#places.close();
  }

  /** Returns the result of the first endpoint that succeeds. Throws RpcUnreachable or RpcError. */
  async call<T>(
    method: string,
    params: readonly unknown[],
    read: Read<T>,
    { withinMs = Infinity }: AskOptions = {},
  ): Promise<T> {
    this.#places.refresh();
    const last = performance.now() + withinMs;
    const deadline = Math.min(performance.now() + this.#timeoutMs, last);
    const failures = new Map<RpcEndpoint, EndpointFailure>();
    const left = new Set(this.#endpoints);
    for (;;) {
      const now = performance.now();
      const [best] = ranked(this.#endpoints, now).filter((endpoint) => left.has(endpoint));
      // When an endpoint has responded to getTransaction without a readable transaction, the call
      // does not try endpoints that are down.
      const isUnreadableSoFar = [...failures.values()].some(({ fault }) => isUnreadable(fault));
      if (best === undefined || now > last || (isUnreadableSoFar && best.down(now)))
        throw errorOfAll(method, [...failures.values()]);
      const wait = best.delay(now);
      if (wait > 0) {
        if (now + wait > deadline) throw tooSlow(method, left, failures, wait);
        await this.#pause(wait, method, best);
        continue;
      }
      try {
        return await this.#judged(best, method, params, read, last);
      } catch (error) {
        if (!(error instanceof EndpointFailure)) throw error;
        failures.set(best, error);
        // A rate-limited endpoint stays in `left`, so this call tries the endpoint again after its
        // pause.
        if (error.fault !== 'rate_limited') left.delete(best);
      }
    }
  }

  /**
   * Calls every endpoint that is up and within its rate limit, in parallel. Returns the results of
   * all successful calls. Throws RpcUnreachable or RpcError when every call fails.
   */
  async callAll<T>(method: string, params: readonly unknown[], read: Read<T>): Promise<T[]> {
    return this.callEach(method, (ask) => ask(method, params, read));
  }

  /**
   * Runs `work` for every URL that is up and within its rate limit. `work` may make several calls,
   * and gets the host and port of its URL. Returns the results of the URLs at which all calls
   * succeeded. If no URL succeeds, throws an error that names the work as `workName`.
   */
  async callEach<T>(workName: string, work: (ask: Ask, host: string) => Promise<T>): Promise<T[]> {
    const settled = await Promise.allSettled(this.#ready().map(({ ask, host }) => work(ask, host)));
    const results = settled.filter((one) => one.status === 'fulfilled').map(({ value }) => value);
    const reasons = settled
      .filter((one) => one.status === 'rejected')
      .map(({ reason }) => reason as unknown);
    if (results.length === 0) throw errorOfAll(workName, reasons);
    return results;
  }

  /**
   * Calls every endpoint that is up and within its rate limit, and resolves with the first result.
   * The requests to the other endpoints continue.
   */
  async callAny<T>(
    method: string,
    params: readonly unknown[],
    read: Read<T>,
    options?: AskOptions,
  ): Promise<T> {
    try {
      return await Promise.any(this.#ready(options).map(({ ask }) => ask(method, params, read)));
    } catch (error) {
      throw error instanceof AggregateError ? errorOfAll(method, error.errors) : error;
    }
  }

  /**
   * Returns one function for each endpoint that is up and within its rate limit now. Each function
   * calls its endpoint once. When there is no such endpoint, returns a single function, which first
   * waits for an endpoint.
   */
  #ready(options?: AskOptions): { ask: Ask; host: string }[] {
    this.#places.refresh();
    const now = performance.now();
    const ready = this.#endpoints.filter((one) => !one.down(now) && one.delay(now) === 0);
    if (ready.length === 0)
      return [
        { ask: (method, params, read) => this.call(method, params, read, options), host: '' },
      ];
    const last = now + (options?.withinMs ?? Infinity);
    return ready.map((endpoint) => ({
      ask: (method, params, read) => this.#judged(endpoint, method, params, read, last),
      host: endpoint.host,
    }));
  }

  /**
   * Calls an endpoint once. A response with an implausible slot counts as a fault of the endpoint.
   */
  async #judged<T>(
    endpoint: RpcEndpoint,
    method: string,
    params: readonly unknown[],
    read: Read<T>,
    last: number,
  ): Promise<T> {
    // The request has to count against the rate limit at once. During an await, other calls could
    // choose the same endpoint and exceed its limit. Therefore this method awaits only if the
    // endpoints' slots are not known yet.
    const slotsRead = this.#places.known();
    if (slotsRead !== undefined) await slotsRead;
    const judge = (result: unknown) => {
      this.#places.check(endpoint, result);
      return read(result);
    };
    return this.#attempt(endpoint, method, params, judge, last);
  }

  async #attempt<T>(
    endpoint: RpcEndpoint,
    method: string,
    params: readonly unknown[],
    read: Read<T>,
    last?: number,
  ): Promise<T> {
    const { log } = this.#options;
    const before = endpoint.health().failures;
    const startedAt = performance.now();
    try {
      const admission = method === 'getGenesisHash' ? undefined : this.#admission(endpoint);
      if (admission !== undefined) await admission;
      const result = await endpoint.call(method, params, read, last);
      if (before > 0) log.info({ endpoint: endpoint.name }, 'RPC endpoint is back');
      this.#observed(endpoint, method, 'ok', startedAt);
      return result;
    } catch (error) {
      const outcome = outcomeOf(error);
      if (outcome !== undefined) this.#observed(endpoint, method, outcome, startedAt);
      // A failure is logged only if the endpoint was not failing before this request. Not a failure
      // are lag, a history that is too short, and an unreadable transaction.
      if (
        error instanceof EndpointFailure &&
        !lacksData(error.fault) &&
        !isUnreadable(error.fault) &&
        before === 0
      )
        log.warn(
          { endpoint: endpoint.name, method, fault: error.fault, reason: error.message },
          'RPC endpoint failed',
        );
      throw error;
    }
  }

  #observed(
    endpoint: RpcEndpoint,
    method: string,
    outcome: ObservedRequest['outcome'],
    startedAt: number,
  ): void {
    const seconds = (performance.now() - startedAt) / 1000;
    this.#options.observe?.({ endpoint: endpoint.name, method, outcome, seconds });
  }

  /**
   * Resolves once the endpoint's genesis hash is accepted. Rejects with EndpointFailure when the
   * hash is refused. Returns undefined if the hash was accepted before or is not checked. Then the
   * caller sends its request without an await, so that the request counts against the rate limit at
   * once.
   */
  #admission(endpoint: RpcEndpoint): Promise<void> | undefined {
    const { refuses } = this.#options;
    if (refuses === undefined || this.#admitted.has(endpoint)) return undefined;
    const pending = this.#pending.get(endpoint);
    if (pending !== undefined) return pending;
    const read = (hash: unknown) => {
      const reason = typeof hash === 'string' ? refuses(hash) : 'it has no genesis hash';
      if (reason !== null) throw new EndpointFailure('malformed', reason);
      this.#admitted.add(endpoint);
    };
    const result = endpoint
      .call('getGenesisHash', [], read)
      .finally(() => this.#pending.delete(endpoint));
    this.#pending.set(endpoint, result);
    return result;
  }

  async #pause(ms: number, method: string, endpoint: RpcEndpoint): Promise<void> {
    await pause(ms, undefined, { signal: this.#closing.signal }).catch(() => {
      const failure = new EndpointFailure('unreachable', 'closed', { endpoint: endpoint.name });
      throw new RpcUnreachable(method, [failure]);
    });
  }
}
