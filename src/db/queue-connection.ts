// Connections for the dispatcher's statements, whose plans must not depend on how large the tables were when they were first prepared.
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

/**
 * A pool of its own to the same database, at most `max` connections, that plans as the queue's statements need. The caller ends it. `durable: false`
 * is for claims alone: a claim that a crash of Postgres undoes costs nothing, since its row is simply due again, and waiting for the disk would
 * be most of its time.
 */
export function connectQueue(sql: Sql, max: number, { durable = true } = {}): Sql {
  const { connection, ...options } = sql.options;
  const own = {
    ...options,
    max,
    // Its statements take arrays as text (literal() in arrays.ts): what the types of arrays are need not be asked first.
    fetch_types: false,
    connection: { ...connection, ...settings, ...(durable ? {} : { synchronous_commit: 'off' }) },
    shared: { retries: 0, typeArrayMap: {} },
  };
  return postgres(own as unknown as postgres.Options<{ bigint: postgres.PostgresType<bigint> }>);
}
