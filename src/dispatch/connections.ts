// Connections to endpoints: one request at a time on each, kept for the next after a clean exchange, never used again after any other.
import type { Socket } from 'node:net';
import { buildConnector } from 'undici';
import { Connection } from './connection.ts';
import { createDeadlines } from './deadlines.ts';
import type { Guard } from './guard.ts';

export interface Connections {
  take(origin: string): Connection;
  /** Puts a connection back after a clean exchange. */
  give(connection: Connection): void;
  /** Ends a connection and whatever runs on it. */
  drop(connection: Connection): void;
  /** Ends the idle ones; those in use are dropped when they are given back. */
  close(): void;
}

// Endpoints close idle connections after 5 s (Node's own default) or later. Ending ours sooner keeps a request from meeting a closing one: that
// would cost the delivery an attempt, since nothing is sent twice behind its back.
const keepAliveMs = 4000;
const readBytes = 64 * 1024;

/** `connectMs`: how long a connection may take to be made. */
export function createConnections(guard: Guard, connectMs: number): Connections {
  const idle = new Map<string, Connection[]>();
  const idling = createDeadlines(keepAliveMs);
  // All read into one piece of memory, one after the other: a piece for each read, as sockets have it by default, costs as much as the reading.
  const memory = Buffer.allocUnsafeSlow(readBytes);
  const bySocket = new WeakMap<Socket, Connection>();
  const connector = buildConnector({
    timeout: connectMs,
    // Said aloud, so that NODE_TLS_REJECT_UNAUTHORIZED, which somebody set for something else, does not switch it off.
    rejectUnauthorized: true,
    ...(guard.lookup === undefined ? {} : { lookup: guard.lookup }),
    onread: {
      buffer: memory,
      callback(this: Socket, length: number) {
        bySocket.get(this)?.received(memory.subarray(0, length));
        return true;
      },
    },
  });
  let closed = false;

  const forget = (connection: Connection) => {
    idling.stop(connection.idling);
    const list = idle.get(connection.origin);
    const at = list?.indexOf(connection) ?? -1;
    if (list === undefined || at < 0) return;
    list.splice(at, 1);
    if (list.length === 0) idle.delete(connection.origin);
  };
  const connect = (connection: Connection) => {
    const { protocol, hostname, host, port } = new URL(connection.origin);
    try {
      guard.checkLiteral(hostname);
      connector({ protocol, hostname: hostname.replace(/^\[(.*)\]$/, '$1'), host, port }, (...[error, socket]) => {
        if (error === null) {
          bySocket.set(socket, connection);
          connection.connected(socket);
        } else connection.fail(error);
      });
    } catch (error) {
      // Whoever sends on it is to hear of it, and does not before it has been given out.
      setImmediate(() => connection.fail(error as Error));
    }
  };

  return {
    take(origin) {
      const list = idle.get(origin);
      const connection = list?.pop();
      if (list?.length === 0) idle.delete(origin);
      if (connection !== undefined) {
        idling.stop(connection.idling);
        return connection;
      }
      const fresh = new Connection(origin, connect, forget);
      connect(fresh);
      return fresh;
    },
    give(connection) {
      if (closed || !connection.rest()) {
        connection.drop();
        return;
      }
      connection.idling = idling.start(connection.endIdle);
      const list = idle.get(connection.origin);
      if (list === undefined) idle.set(connection.origin, [connection]);
      else list.push(connection);
    },
    drop: (connection) => connection.drop(),
    close() {
      closed = true;
      for (const connection of [...idle.values()].flat()) connection.drop();
    },
  };
}
