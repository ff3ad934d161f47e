// What one client can make the process hold: connections, requests that wait for their answer on one connection (pipelining), and answers
// that it does not read.
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export interface ConnectionLimits {
  /** Open at once; further ones are closed as soon as they are accepted. */
  connections: number;
  /** Requests of one connection that are not answered yet. */
  inHand: number;
  /** Milliseconds between two looks at who reads too slowly. */
  checkMs: number;
  /** Bytes that a client with an answer waiting must take from one look to the next; what was written at once counts when all of it is taken. */
  bytesPerCheck: number;
}

export const connectionLimits: ConnectionLimits = {
  connections: 2000,
  inHand: 16,
  checkMs: 30_000,
  bytesPerCheck: 16 * 1024,
};

export interface Connections {
  /** Counts a request until its response is closed; false when its connection has too many in hand. */
  admit(socket: Socket, response: ServerResponse): boolean;
  /** Closes connections on which no byte has arrived yet. Node calls a connection idle only after a request. */
  closeUnused(): void;
}

/** Watches the connections of `server` until it closes. */
export function watchConnections(
  server: Server,
  { connections, inHand, checkMs, bytesPerCheck }: ConnectionLimits,
): Connections {
  const open = new Set<Socket>();
  const requests = new WeakMap<Socket, number>();
  /** Bytes taken as of the last look, of those connections that had more to take then. */
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
