// The one way to Postgres: postgres.js, snake_case columns as camelCase fields, int8 as bigint.
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
}

/** A lazy pool: no connection is made before the first query. */
export function connect(url: string, { max, name }: ConnectOptions): Sql {
  return postgres(url, {
    max,
    types,
    transform: postgres.camel,
    connect_timeout: 5,
    // Seconds. postgres.js's own goes up to 20 s, and each daemon would stand still so long after Postgres is back.
    backoff: (attempt) => backoff(attempt, { base: 20, cap: reconnectMs }) / 1000,
    idle_timeout: 60,
    onnotice: () => undefined,
    connection: { application_name: name, TimeZone: 'UTC' },
  });
}

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
