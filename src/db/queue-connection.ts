// Connections for the dispatcher's statements, whose plans must not depend on how large the tables were when they were first prepared, and of which
// none is waited for without end: where the other side is gone without a word, TCP takes a quarter of an hour to find out.
import { connect as connectSocket, type Socket } from 'node:net';
import postgres from 'postgres';
import type { Sql } from './connect.ts';

// The statements are prepared on a table that may be empty and run on one of millions of rows a minute later, before any ANALYZE: the planner's
// choice for the empty table (a sequential scan, a hash of everything) would be a disaster. Each has one right plan, nested loops over indexes.
const settings = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  jit: 'off',
};

/** The queue's statements take milliseconds, and some tenths of a second on a machine that has far too much to do. */
const answerMs = 10_000;

/**
 * A pool of its own to the same database, at most `max` connections, that plans as the queue's statements need. The caller ends it. `durable: false`
 * is for claims alone: a claim that a crash of Postgres undoes costs nothing, since its row is simply due again, and waiting for the disk would
 * be most of its time. A statement that is slow is given up by the server. Where nothing is heard within `limitMs` all connections are dropped:
 * statements that were sent are rejected, and what they did is not known; the next ones, and those who listen, get new connections.
 */
export function connectQueue(sql: Sql, max: number, { durable = true, limitMs = answerMs } = {}): Sql {
  const { connection, host, port, path, ...options } = sql.options;
  const sockets = new Set<Socket>();
  let turn = 0;
  const own = {
    ...options,
    host,
    port,
    path,
    max,
    // Its statements take arrays as text (literal() in arrays.ts): what the types of arrays are need not be asked first.
    fetch_types: false,
    connection: {
      ...connection,
      ...settings,
      // The server's limit comes first: as long as it answers at all, its connection is kept.
      statement_timeout: Math.ceil(limitMs * 0.8),
      ...(durable ? {} : { synchronous_commit: 'off' }),
    },
    shared: { retries: 0, typeArrayMap: {} },
    socket: () => {
      for (const socket of sockets) if (socket.destroyed) sockets.delete(socket);
      // Of several servers each gets its turn, as postgres.js has it; the driver ends a connection to one that is not what the URL asks for.
      const at = turn++ % host.length;
      const name = host[at] ?? 'localhost';
      const socket = path ? connectSocket(path) : connectSocket({ host: name, port: port[at] ?? 5432 });
      sockets.add(socket);
      // postgres.js checks the server's certificate against this.
      return Object.assign(socket, { host: name });
    },
  };
  const drop = () => {
    for (const socket of sockets) socket.destroy();
  };
  return limited(postgres(own as unknown as postgres.Options<{ bigint: postgres.PostgresType<bigint> }>), limitMs, drop);
}

/** The same pool, which calls `onLate` for each statement that has not ended after `limitMs`. */
function limited(sql: Sql, limitMs: number, onLate: () => void): Sql {
  return new Proxy(sql, {
    apply(target, self, args) {
      const made: unknown = Reflect.apply(target, self, args);
      // A statement begins when it is first waited for; a part of one never is.
      if (made instanceof Promise) {
        const then = made.then.bind(made);
        let begun = false;
        made.then = (...handlers) => {
          if (!begun) {
            begun = true;
            const timer = setTimeout(onLate, limitMs);
            const end = () => {
              clearTimeout(timer);
            };
            void then(end, end);
          }
          return then(...handlers);
        };
      }
      return made;
    },
  });
}
