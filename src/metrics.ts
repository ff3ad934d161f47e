// A daemon's own port: /metrics in Prometheus text, /healthz (the process runs) and /readyz (it can do its work).
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { messageOf } from './errors.ts';

/** Why the daemon cannot do its work right now, in words; undefined when it can. */
export type Readiness = () => string | undefined | Promise<string | undefined>;

export interface MetricsServer {
  url: string;
  close(): Promise<void>;
}

/** A registry with Node's own metrics (event-loop lag, memory, GC), labelled with the daemon's name. */
export function createRegistry(daemon: string): Registry {
  const registry = new Registry();
  registry.setDefaultLabels({ daemon });
  collectDefaultMetrics({ register: registry });
  return registry;
}

/** Listens on `port`, or on the next free one of the hundred above it, so that several daemons share a machine; 0 is any port. */
export async function serveMetrics(
  registry: Registry,
  ready: Readiness,
  { host, port }: { host: string; port: number },
): Promise<MetricsServer> {
  const server = createServer((request, response) => {
    void answer(request.url ?? '/').then(({ status, type, body }) => response.writeHead(status, { 'content-type': type }).end(body));
  });
  const answer = async (path: string) => {
    try {
      if (path === '/metrics') return { status: 200, type: registry.contentType, body: await registry.metrics() };
      if (path === '/healthz') return { status: 200, type: 'text/plain', body: 'ok\n' };
      if (path === '/readyz') {
        const reason = await ready();
        return { status: reason === undefined ? 200 : 503, type: 'text/plain', body: `${reason ?? 'ready'}\n` };
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
      const taken = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
      if (!taken || port === 0 || candidate >= port + 100) throw error;
    }
  }
}
