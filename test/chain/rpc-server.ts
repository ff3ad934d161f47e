import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request as the server saw it. */
interface Seen {
  readonly method: string;
  readonly params: readonly unknown[];
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
}

/** The handler of a request: returns its result, or writes the response itself. */
export type Behaviour = (seen: Seen, response: ServerResponse, request: IncomingMessage) => unknown;

/** Says that a behaviour has dealt with the response itself (or will never answer). */
export const HANDLED = Symbol('handled');

/** A JSON-RPC endpoint on loopback with the handler that `behave` was last called with. Call `close` at the end. */
export async function startRpcServer(first: Behaviour) {
  let behaviour = first;
  const calls: Seen[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString()) as {
        id: number;
        method: string;
        params: unknown[];
      };
      const seen = { method, params, path: request.url ?? '', headers: request.headers };
      calls.push(seen);
      const result = behaviour(seen, response, request);
      if (result === HANDLED) return;
      answer(response, {
        jsonrpc: '2.0',
        id,
        ...(isError(result) ? { error: result.rpcError } : { result }),
      });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    behave: (next: Behaviour) => (behaviour = next),
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Writes JSON with a status. */
export function answer(
  response: ServerResponse,
  body: unknown,
  status = 200,
  headers: Record<string, string> = {},
): typeof HANDLED {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
  return HANDLED;
}

/** A result that goes out as a JSON-RPC error. */
export const rpcError = (code: number, message: string, data?: unknown) => ({
  rpcError: { code, message, data },
});

function isError(result: unknown): result is ReturnType<typeof rpcError> {
  return typeof result === 'object' && result !== null && 'rpcError' in result;
}
