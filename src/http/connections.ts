// Limits the resources that clients can hold: connections, unanswered requests per connection
// (pipelining), and responses that a client does not read.
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export interface ConnectionLimits {
  /** Maximum number of open connections. Further connections are closed on accept. */
  connections: number;
  /** Maximum number of unanswered requests per connection. */
  inHand: number;
  /** Milliseconds between two checks for clients that read slowly. */
  checkMs: number;
  /**
   * Minimum number of bytes that a client with a pending response must read between two checks.
   * Node counts the bytes of a write only when the whole write is sent.
   */
  bytesPerCheck: number;
}

export const connectionLimits: ConnectionLimits = {
  connections: 2000,
  inHand: 16,
  checkMs: 30_000,
  bytesPerCheck: 16 * 1024,
};

export interface Connections {
  /**
   * Counts a request as in flight until its response closes. Returns false when its connection has
   * too many requests in flight.
   */
  admit(socket: Socket, response: ServerResponse): boolean;
  /**
   * Closes connections that have received no byte. Node treats a connection as idle only after its
   * first request, so Node does not close them.
   */
  closeUnused(): void;
}

/** Watches the connections of `server` until it closes. */
export function watchConnections(
  server: Server,
  { connections, inHand, checkMs, bytesPerCheck }: ConnectionLimits,
): Connections {
  const open = new Set<Socket>();
  const requests = new WeakMap<Socket, number>();
  /**
   * Number of bytes sent by the last check, for each connection that had unsent bytes at that
   * check.
   */
  let waiting = new Map<Socket, number>();

  server.maxConnections = connections;
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  const timer = setInterval(() => {
    const before = waiting;
    waiting = new Map();
    for (const socket of open) {
      if (socket.writableLength === 0) continue;
      const taken = socket.bytesWritten - socket.writableLength;
      if (taken - (before.get(socket) ?? -Infinity) < bytesPerCheck) socket.destroy();
      else waiting.set(socket, taken);
    }
  }, checkMs).unref();
  server.once('close', () => clearInterval(timer));

  return {
    admit(socket, response) {
      const count = (requests.get(socket) ?? 0) + 1;
      requests.set(socket, count);
      response.once('close', () => requests.set(socket, (requests.get(socket) ?? 1) - 1));
      return count <= inHand;
    },
    closeUnused() {
      for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
    },
  };
}
