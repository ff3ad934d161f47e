import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from '../log.ts';
import { createEndpoint, type Endpoint, type EndpointHealth } from './endpoint.ts';
import { EndpointFailure, type EndpointFault, RpcError, RpcUnreachable } from './rpc-errors.ts';

// Several endpoints as one: the best goes first, the others follow until one answers.

export interface FailoverOptions {
  /** In order of preference. */
  readonly urls: readonly string[];
  /** Milliseconds for one request to one endpoint. */
  readonly timeoutMs?: number | undefined;
  /** Requests per second to each endpoint. */
  readonly requestsPerSecond?: number | undefined;
  /** Milliseconds between looks at how far each endpoint is (one getSlot each, only while calls are made and there are several). */
  readonly probeMs?: number | undefined;
  /**
   * Why an endpoint that serves the chain with this genesis hash must not be asked; null when it may be. Each endpoint is asked for its hash once, before
   * anything else: of another chain every account of ours is gone. Without it all are believed.
   */
  readonly refuses?: ((genesisHash: string) => string | null) | undefined;
  readonly log: Pick<Log, 'warn' | 'info'>;
  /** Told of every request to an endpoint, for metrics. */
  readonly observe?: ((request: ObservedRequest) => void) | undefined;
}

/** One request to one endpoint. */
export interface ObservedRequest {
  /** Scheme, host and port: paths and queries of RPC URLs hold keys. */
  readonly endpoint: string;
  readonly method: string;
  readonly outcome: 'ok' | 'refused' | EndpointFault;
  readonly seconds: number;
}

/** A JSON-RPC method, its parameters, and what makes a result of the answer (throws EndpointFailure for an answer of another shape). */
type Ask<R> = <T>(
  method: string,
  params: readonly unknown[],
  read: (result: unknown) => T,
  options?: AskOptions,
) => Promise<R extends 'many' ? T[] : T>;

export interface AskOptions {
  /** Milliseconds after which no request goes out to any endpoint any more; what went out before may still be answered. */
  readonly withinMs?: number | undefined;
}

export interface Failover {
  /** The first endpoint that answers. Throws RpcUnreachable or RpcError. */
  readonly call: Ask<'one'>;
  /** Every endpoint that is up, at once. Resolves when all are done, with the answers; throws when there are none. */
  readonly callAll: Ask<'many'>;
  /** As `callAll`, but resolves with the first answer; the other requests go on behind it. */
  readonly callAny: Ask<'one'>;
  readonly health: () => EndpointHealth[];
  readonly close: () => Promise<void>;
}

const DEFAULT_TIMEOUT_MS = 10_000;
const DEFAULT_PROBE_MS = 15_000;
// What a place further down the list, an unknown latency and a slot of lag weigh, in milliseconds of latency.
const PREFERENCE_MS = 100;
const UNKNOWN_LATENCY_MS = 50;
const SLOT_MS = 400;
// Waiting this long for an endpoint that is well beats asking one that is not.
const SHORT_WAIT_MS = 250;
// One or two slots of difference are how fast news travel, not lag.
const LAG_TOLERANCE = 2;

/** Opens the endpoints; nothing is sent yet. Throws a TypeError for a URL that is none. */
export function createFailover({
  urls,
  timeoutMs = DEFAULT_TIMEOUT_MS,
  requestsPerSecond,
  probeMs = DEFAULT_PROBE_MS,
  refuses,
  log,
  observe,
}: FailoverOptions): Failover {
  if (urls.length === 0) throw new TypeError('at least one RPC URL is needed');
  const endpoints = urls.map((url) => createEndpoint(url, { timeoutMs, requestsPerSecond }));
  const closing = new AbortController();
  let nextProbe = probeMs === Infinity ? Infinity : -Infinity;
  let probing: Promise<void> = Promise.resolve();

  const cost = (endpoint: Endpoint) => {
    const { latencyMs, lag } = endpoint.health();
    return endpoints.indexOf(endpoint) * PREFERENCE_MS + (latencyMs ?? UNKNOWN_LATENCY_MS) + Math.max(0, lag - LAG_TOLERANCE) * SLOT_MS;
  };

  /** The best first: those that are up and can take a request now, those that are up and soon can, those that are down, those that have to wait. */
  function ranked(among: readonly Endpoint[], now: number): Endpoint[] {
    const group = (wait: number, down: boolean) => (wait > SHORT_WAIT_MS ? 3 : down ? 2 : wait > 0 ? 1 : 0);
    return among
      .map((endpoint) => {
        const wait = endpoint.delay(now);
        return { endpoint, group: group(wait, endpoint.down(now)), cost: cost(endpoint) + wait };
      })
      .sort((a, b) => a.group - b.group || a.cost - b.cost)
      .map(({ endpoint }) => endpoint);
  }

  const admitted = new Set<Endpoint>();
  const asking = new Map<Endpoint, Promise<void>>();

  /** Undefined once it was: nothing is waited for then. */
  function admission(endpoint: Endpoint): Promise<void> | undefined {
    if (refuses === undefined || admitted.has(endpoint)) return undefined;
    const read = (hash: unknown) => {
      const reason = typeof hash === 'string' ? refuses(hash) : 'it has no genesis hash';
      if (reason !== null) throw new EndpointFailure('malformed', reason);
      admitted.add(endpoint);
    };
    let answer = asking.get(endpoint);
    if (answer === undefined) {
      answer = endpoint.call('getGenesisHash', [], read).finally(() => asking.delete(endpoint));
      asking.set(endpoint, answer);
    }
    return answer;
  }

  async function attempt<T>(
    endpoint: Endpoint,
    method: string,
    params: readonly unknown[],
    read: (result: unknown) => T,
    last?: number,
  ): Promise<T> {
    const before = endpoint.health().failures;
    const startedAt = performance.now();
    const tell = (outcome: ObservedRequest['outcome']) =>
      observe?.({ endpoint: endpoint.name, method, outcome, seconds: (performance.now() - startedAt) / 1000 });
    try {
      const asked = method === 'getGenesisHash' ? undefined : admission(endpoint);
      if (asked !== undefined) await asked;
      const answer = await endpoint.call(method, params, read, last);
      tell('ok');
      if (before > 0) log.info({ endpoint: endpoint.name }, 'RPC endpoint is back');
      return answer;
    } catch (error) {
      if (error instanceof EndpointFailure) tell(error.fault);
      else if (error instanceof RpcError) tell('refused');
      // A sick endpoint fails many requests at once: the first one is news. A slot that has not come yet is none at all.
      if (error instanceof EndpointFailure && error.fault !== 'behind' && before === 0) {
        log.warn({ endpoint: endpoint.name, method, fault: error.fault, reason: error.message }, 'RPC endpoint failed');
      }
      throw error;
    }
  }

  async function call<T>(
    method: string,
    params: readonly unknown[],
    read: (result: unknown) => T,
    { withinMs = Infinity }: AskOptions = {},
  ): Promise<T> {
    probe();
    const last = performance.now() + withinMs;
    const deadline = Math.min(performance.now() + timeoutMs, last);
    const failures = new Map<Endpoint, EndpointFailure>();
    const left = new Set(endpoints);
    for (;;) {
      const now = performance.now();
      const [best] = ranked([...left], now);
      if (best === undefined || now > last) throw new RpcUnreachable(method, [...failures.values()]);
      const wait = best.delay(now);
      if (wait > 0) {
        if (now + wait > deadline) {
          for (const endpoint of left) {
            if (!failures.has(endpoint))
              failures.set(endpoint, new EndpointFailure('rate_limited', `may not be asked for ${Math.ceil(wait)} ms`));
          }
          throw new RpcUnreachable(method, [...failures.values()]);
        }
        await pause(wait, undefined, { signal: closing.signal }).catch(() => {
          const failure = new EndpointFailure('unreachable', 'closed', { endpoint: best.name });
          throw new RpcUnreachable(method, [failure]);
        });
        continue;
      }
      try {
        return await attempt(best, method, params, read, last);
      } catch (error) {
        if (!(error instanceof EndpointFailure)) throw error;
        failures.set(best, error);
        // An endpoint that asked for a pause gets its turn again after it.
        if (error.fault !== 'rate_limited') left.delete(best);
      }
    }
  }

  /** One attempt at each endpoint that may be asked now; when that is none, the one that may be asked first, after its pause. */
  function everywhere<T>(method: string, params: readonly unknown[], read: (result: unknown) => T, options?: AskOptions): Promise<T>[] {
    probe();
    const now = performance.now();
    const ready = endpoints.filter((endpoint) => !endpoint.down(now) && endpoint.delay(now) === 0);
    if (ready.length === 0) return [call(method, params, read, options)];
    const last = now + (options?.withinMs ?? Infinity);
    return ready.map((endpoint) => attempt(endpoint, method, params, read, last));
  }

  function nobodyAnswered(method: string, reasons: readonly unknown[]): unknown {
    const failures = reasons.filter((reason) => reason instanceof EndpointFailure);
    // A refusal says more than an outage elsewhere.
    return reasons.find((reason) => !(reason instanceof EndpointFailure)) ?? new RpcUnreachable(method, failures);
  }

  async function look(): Promise<void> {
    const now = performance.now();
    const ready = endpoints.filter((endpoint) => endpoint.delay(now) === 0);
    const read = (result: unknown) => {
      if (typeof result !== 'number') throw new EndpointFailure('malformed', 'a slot that is not a number');
      return result;
    };
    const slots = await Promise.all(
      ready.map((endpoint) => attempt(endpoint, 'getSlot', [{ commitment: 'confirmed' }], read).catch(() => null)),
    );
    const highest = Math.max(...slots.map((slot) => slot ?? -Infinity));
    slots.forEach((slot, place) => {
      if (slot !== null) ready[place]?.setLag(highest - slot);
    });
  }

  function probe(): void {
    const now = performance.now();
    if (endpoints.length === 1 || now < nextProbe) return;
    nextProbe = now + probeMs;
    probing = look();
  }

  return {
    call,
    async callAll(method, params, read, options) {
      const settled = await Promise.allSettled(everywhere(method, params, read, options));
      const answers = settled.filter((one) => one.status === 'fulfilled').map(({ value }) => value);
      const reasons = settled.filter((one) => one.status === 'rejected').map(({ reason }) => reason as unknown);
      if (answers.length === 0) throw nobodyAnswered(method, reasons);
      return answers;
    },
    async callAny(method, params, read, options) {
      try {
        return await Promise.any(everywhere(method, params, read, options));
      } catch (error) {
        throw error instanceof AggregateError ? nobodyAnswered(method, error.errors) : error;
      }
    },
    health: () => endpoints.map((endpoint) => endpoint.health()),
    async close() {
      closing.abort();
      await Promise.all(endpoints.map((endpoint) => endpoint.close()));
      await probing;
    },
  };
}
