// Connections for the dispatcher. Every execution is planned: a plan cached while the queue was
// empty takes 200 ms on a full queue. Every statement has a time limit: TCP needs a quarter of an
// hour to detect a peer that vanished.
import { openPool, type Sql } from './connect.ts';

// Before the first ANALYZE the planner assumes a short queue and would read and sort the whole
// backlog for each claim.
const ordered = { enable_sort: 'off', enable_bitmapscan: 'off', enable_seqscan: 'off' };

/** Statements take milliseconds, or some tenths of a second on an overloaded machine. */
const ANSWER_MS = 10_000;

/**
 * A separate pool of at most `max` connections to the same database; the caller ends it. The server
 * cancels slow statements. A connection that receives nothing within `limitMs` is dropped: its
 * statements reject, and LISTEN reconnects.
 */
export function connectQueue(sql: Sql, max: number, { limitMs = ANSWER_MS } = {}): Sql {
  const planned = {
    ...sql.options,
    max,
    prepare: false,
    connection: {
      ...sql.options.connection,
      jit: 'off',
      ...ordered,
      // The server's limit is shorter, so that a server that still answers keeps its connection.
      statement_timeout: Math.ceil(limitMs * 0.8),
    },
    shared: { retries: 0, typeArrayMap: {} },
  };
  return openPool(planned, limitMs);
}
