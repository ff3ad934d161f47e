// Connections for the dispatcher. Its statements are planned each time: a plan that was made while the queue was empty reads a full one for 200 ms.
// No statement is waited for without end: where the peer is gone without a word, TCP takes a quarter of an hour to find out.
import postgres from 'postgres';
import { openPool, type Sql } from './connect.ts';

// Before its first ANALYZE a queue is taken to be short, and the whole backlog would be read and sorted for each claim.
const ordered = { enable_sort: 'off', enable_bitmapscan: 'off', enable_seqscan: 'off' };

/** The statements take milliseconds, and some tenths of a second on an overloaded machine. */
const answerMs = 10_000;

/**
 * A pool of its own to the same database, at most `max` connections. The caller ends it. The server cancels a slow statement. When nothing arrives
 * within `limitMs`, the connections are dropped: pending statements are rejected, and later ones and LISTEN get new connections.
 */
export function connectQueue(sql: Sql, max: number, { limitMs = answerMs } = {}): Sql {
  return connectPlanning(sql, max, limitMs, {});
}

/** One connection for claims, which does not wait for the disk: a row whose claim is lost in a crash of Postgres is claimed again. */
export function connectClaims(sql: Sql): Sql {
  return connectPlanning(sql, 1, answerMs, { synchronous_commit: 'off' });
}

function connectPlanning(
  sql: Sql,
  max: number,
  limitMs: number,
  settings: Record<string, string>,
): Sql {
  const { connection, host, port, path, ...options } = sql.options;
  const planned = {
    ...options,
    host,
    port,
    path,
    max,
    prepare: false,
    // Its statements take JSON: the types of arrays need not be read first.
    fetch_types: false,
    connection: {
      ...connection,
      jit: 'off',
      ...ordered,
      ...settings,
      // The server's limit comes first: as long as it answers at all, its connection is kept.
      statement_timeout: Math.ceil(limitMs * 0.8),
    },
    shared: { retries: 0, typeArrayMap: {} },
  };
  return openPool(
    (own) =>
      postgres({ ...planned, ...own } as unknown as postgres.Options<{
        bigint: postgres.PostgresType<bigint>;
      }>),
    limitMs,
  );
}
