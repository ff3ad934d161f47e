// The HTTP server on the metrics port of a daemon: /metrics (Prometheus text), /healthz (liveness)
// and /readyz (readiness).
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { ObservedRequest } from '../chain/rpc/call-errors.ts';
import { messageOf, OperatorError } from '../errors.ts';
import { droppedLines } from '../log.ts';

/** Returns the reason why the daemon is not ready, or undefined when the daemon is ready. */
export type Readiness = () => string | undefined | Promise<string | undefined>;

export interface MetricsServer {
  url: string;
  close(): Promise<void>;
}

/** Time limit of the readiness check. */
const READY_MS = 2000;

/**
 * Creates a registry that labels all metrics with the daemon's name. The registry already has
 * Node's own metrics (event-loop lag, memory, GC) and the number of dropped log lines.
 */
export function createRegistry(daemon: string): Registry {
  const registry = new Registry();
  registry.setDefaultLabels({ daemon });
  collectDefaultMetrics({ register: registry });
  new Counter({
    name: 'billing_log_lines_dropped_total',
    help: 'Log lines that could not be written: the disk is full, or the reader has exited',
    registers: [registry],
    collect() {
      this.reset();
      this.inc(droppedLines());
    },
  });
  return registry;
}

/**
 * Creates an observer for createRpc(). The observer counts and times the requests to RPC endpoints.
 * Throws when the metrics of an observer are already registered in `registry`.
 */
export function rpcObserver(registry: Registry): (request: ObservedRequest) => void {
  const registers = [registry];
  const calls = new Counter({
    name: 'billing_rpc_calls_total',
    help: 'Requests to Solana RPC endpoints by endpoint (without path and query), method and outcome (ok, refused or the kind of fault)',
    labelNames: ['endpoint', 'method', 'outcome'] as const,
    registers,
  });
  const durations = new Histogram({
    name: 'billing_rpc_call_duration_seconds',
    help: 'Duration of requests to Solana RPC endpoints',
    labelNames: ['endpoint'] as const,
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  });
  return ({ endpoint, method, outcome, seconds }) => {
    calls.inc({ endpoint, method, outcome });
    durations.observe({ endpoint }, seconds);
  };
}

/**
 * Runs the readiness check, and stops waiting for it after READY_MS (2 s). Returns the reason why
 * the daemon is not ready. Never rejects.
 */
async function reasonWithin(ready: Readiness): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(
      () => resolve(`the readiness check has not ended within ${READY_MS / 1000} s`),
      READY_MS,
    );
  });
  try {
    return await Promise.race([ready(), late]);
  } catch (error) {
    return messageOf(error);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Starts the metrics server. If `port` is taken, the server uses the next free port of the 100
 * ports above `port`, so several daemons can share a machine. Port 0 means any free port. While the
 * daemon is ready, /readyz shows the text that `note` returns. Throws an OperatorError if it cannot
 * listen.
 */
export async function serveMetrics(
  registry: Registry,
  ready: Readiness,
  {
    host,
    port,
    note = () => undefined,
  }: { host: string; port: number; note?: () => string | undefined },
): Promise<MetricsServer> {
  new Gauge({
    name: 'billing_ready',
    help: '1 while the daemon can do its work, as /readyz says',
    registers: [registry],
    async collect() {
      this.set((await reasonWithin(ready)) === undefined ? 1 : 0);
    },
  });
  const server = createServer((request, response) => {
    void respond(request.url ?? '/').then(({ status, type, body }) =>
      response.writeHead(status, { 'content-type': type }).end(body),
    );
  });
  const respond = async (path: string) => {
    try {
      if (path === '/metrics')
        return { status: 200, type: registry.contentType, body: await registry.metrics() };
      if (path === '/healthz') return { status: 200, type: 'text/plain', body: 'ok\n' };
      if (path === '/readyz') {
        const reason = await reasonWithin(ready);
        const noted = note();
        return {
          status: reason === undefined ? 200 : 503,
          type: 'text/plain',
          body: `${reason ?? (noted === undefined ? 'ready' : `ready; ${noted}`)}\n`,
        };
      }
      return { status: 404, type: 'text/plain', body: 'not found\n' };
    } catch (error) {
      return { status: 503, type: 'text/plain', body: `${messageOf(error)}\n` };
    }
  };
  const listening = await listen(server, host, port);
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${listening}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function listen(server: Server, host: string, port: number): Promise<number> {
  for (let candidate = port; ; candidate += 1) {
    try {
      server.listen(candidate, host);
      await once(server, 'listening');
      const address = server.address();
      return typeof address === 'object' && address !== null ? address.port : candidate;
    } catch (error) {
      const isPortTaken = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
      if (isPortTaken && port !== 0 && candidate < port + 100) continue;
      throw new OperatorError(
        `The metrics cannot be served on ${host}:${port}: ${messageOf(error)}. Set METRICS_HOST or METRICS_PORT.`,
        1,
        { cause: error },
      );
    }
  }
}
