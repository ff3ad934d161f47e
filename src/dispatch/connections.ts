// Connections to endpoints: one request at a time on each, kept for the next after a clean exchange, never used again after any other.
import { buildConnector, Client } from 'undici';
import type { Guard } from './guard.ts';

export interface Connection {
  readonly client: Client;
  readonly origin: string;
  /** The peer of the connection that was made last. */
  address: string | null;
}

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

/** `connectMs`: how long a connection may take to be made. */
export function createConnections(guard: Guard, connectMs: number): Connections {
  const idle = new Map<string, Connection[]>();
  const connector = buildConnector({ timeout: connectMs, ...(guard.lookup === undefined ? {} : { lookup: guard.lookup }) });
  let closed = false;

  const forget = (connection: Connection) => {
    const list = idle.get(connection.origin);
    const at = list?.indexOf(connection) ?? -1;
    if (list === undefined || at < 0) return false;
    list.splice(at, 1);
    if (list.length === 0) idle.delete(connection.origin);
    return true;
  };
  const drop = ({ client }: Connection) => {
    if (!client.destroyed) void client.destroy();
  };

  const open = (origin: string): Connection => {
    const client = new Client(origin, {
      pipelining: 1,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      // The deadline over the whole exchange is post's.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: 16 * 1024,
      connect(options, callback) {
        try {
          guard.checkLiteral(options.hostname);
        } catch (error) {
          callback(error as Error, null);
          return;
        }
        connector(options, (...[error, socket]) => {
          if (error === null) {
            connection.address = socket.remoteAddress ?? null;
            callback(null, socket);
          } else callback(error, null);
        });
      },
    });
    const connection: Connection = { client, origin, address: null };
    client.on('disconnect', () => {
      if (forget(connection)) drop(connection);
    });
    return connection;
  };

  return {
    take(origin) {
      const list = idle.get(origin);
      const connection = list?.pop();
      if (list?.length === 0) idle.delete(origin);
      return connection ?? open(origin);
    },
    give(connection) {
      if (closed || connection.client.destroyed) {
        drop(connection);
        return;
      }
      const list = idle.get(connection.origin);
      if (list === undefined) idle.set(connection.origin, [connection]);
      else list.push(connection);
    },
    drop,
    close() {
      closed = true;
      for (const connection of [...idle.values()].flat()) drop(connection);
      idle.clear();
    },
  };
}
