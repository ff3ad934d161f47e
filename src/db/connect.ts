// The one way to Postgres: postgres.js, snake_case columns as camelCase fields, int8 as bigint.
import { setImmediate as nextTurn } from 'node:timers/promises';
import postgres from 'postgres';
import { backoff } from '../backoff.ts';
import { messageOf, OperatorError } from '../errors.ts';

/** The longest wait before the next try to reach a Postgres that was lost. */
const reconnectMs = 1000;

const types = { bigint: postgres.BigInt };

/** A pool. Every statement of src/db takes it, or a transaction of it, as `sql`. */
export type Sql = postgres.Sql<{ bigint: bigint }>;
export type Transaction = postgres.TransactionSql<{ bigint: bigint }>;
export type Queryable = Sql | Transaction;

export interface ConnectOptions {
  /** Connections at the most. */
  max: number;
  /** Shown in pg_stat_activity. */
  name: string;
  /** Reads by indexes wherever there is one: for daemons, whose sessions outlive what their plans were made for. */
  byIndexes?: boolean;
  /** Milliseconds after which the server gives a statement up; no limit of ours when absent. */
  statementMs?: number;
}

// The checks of foreign keys and PL/pgSQL keep a plan for as long as their session. One that began among few events read all of them for each new
// delivery (700 us of Postgres's time for a payment among 8,000), until an ANALYZE came. Before Postgres 18 what has no index then counts as so dear
// that it would be compiled.
const indexed = { enable_seqscan: 'off', jit: 'off' };

/** A lazy pool: no connection is made before the first query. */
export function connect(url: string, { max, name, byIndexes = false, statementMs }: ConnectOptions): Sql {
  const sql = postgres(url, {
    max,
    types,
    transform: postgres.camel,
    connect_timeout: 5,
    // Seconds. postgres.js's own goes up to 20 s, and each daemon would stand still so long after Postgres is back.
    backoff: (attempt) => backoff(attempt, { base: 20, cap: reconnectMs }) / 1000,
    idle_timeout: 60,
    onnotice: () => undefined,
    connection: {
      application_name: name,
      TimeZone: 'UTC',
      ...(byIndexes ? indexed : {}),
      ...(statementMs === undefined ? {} : { statement_timeout: statementMs }),
    },
  });
  return Object.assign(sql, { begin: survivingLoss(sql) });
}

/**
 * `sql.begin` that outlives its connection. postgres.js 3.4 writes its rollback (or commit) to a connection that is gone as well, where no socket is
 * left, and the process dies of it (github.com/porsager/postgres/issues/1154 and 1208). The transaction's promise is rejected by then: what is left
 * of its work is never heard again.
 */
function survivingLoss(sql: Sql): Sql['begin'] {
  const begin = sql.begin.bind(sql) as (options: string, work: (tx: Transaction) => Promise<unknown>) => Promise<unknown>;
  const surviving = async (...args: [string, Work] | [Work]) => {
    const [options, work] = args.length === 1 ? ['', args[0]] : args;
    let isOver = false;
    const transaction = begin(options, async (tx) => {
      try {
        const result = work(tx);
        return await (Array.isArray(result) ? Promise.all(result) : result);
      } catch (error) {
        // The connection's end is told to its queries first and to the transaction after them.
        await nextTurn();
        throw error;
      } finally {
        if (isOver) await new Promise(() => undefined);
      }
    });
    return transaction.catch((error: unknown) => {
      isOver = true;
      throw error;
    });
  };
  return surviving as Sql['begin'];
}

type Work = (tx: Transaction) => unknown;

/** Where a URL points, without its credentials. */
export function describeDatabase(url: string): string {
  const { hostname, port, pathname } = new URL(url);
  return `${hostname === '' ? 'localhost' : hostname}:${port === '' ? '5432' : port}, database "${decodeURIComponent(pathname.slice(1))}"`;
}

/** Throws an OperatorError that names the host and the next step when Postgres does not answer. */
export async function assertReachable(sql: Sql, url: string): Promise<void> {
  try {
    await sql`select 1`;
  } catch (error) {
    throw new OperatorError(
      `Postgres at ${describeDatabase(url)} cannot be used: ${messageOf(error)}. Check that it is running and that DATABASE_URL is right.`,
      1,
      { cause: error },
    );
  }
}

/** Why a daemon is not ready as far as Postgres goes; undefined while it answers. */
export async function postgresSilence(sql: Sql): Promise<string | undefined> {
  try {
    await sql`select 1`;
    return undefined;
  } catch (error) {
    return `Postgres does not answer: ${messageOf(error)}`;
  }
}
