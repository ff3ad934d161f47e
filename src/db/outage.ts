// Errors of Postgres that are no bug of billing: it went away, or it refuses. https://www.postgresql.org/docs/current/errcodes-appendix.html
import postgres from 'postgres';

/** postgres.js's own codes, and Node's, for a connection that is not there or went away. */
const lost = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  // admin_shutdown, crash_shutdown, cannot_connect_now, database_dropped
  '57P01',
  '57P02',
  '57P03',
  '57P04',
  // idle_session_timeout, idle_in_transaction_session_timeout
  '57P05',
  '25P03',
]);

/** What it refused, and what to do. */
const refused: Record<string, string> = {
  '25006': 'is read-only: point DATABASE_URL at the primary.',
  '42501': 'does not let this user do that: check the rights of the user in DATABASE_URL.',
  '53100': 'has no room left on its disk.',
  '53200': 'is out of memory.',
  '53300': 'has no connection left: raise max_connections, or lower DATABASE_POOL of the daemons.',
  '40P01': 'ended one of two transactions that waited for each other: try again.',
  '55P03': 'did not get a lock in time: try again.',
  '57014': 'did not answer in time: the statement was cancelled.',
};

/** read_only_sql_transaction, disk_full, out_of_memory, too_many_connections, io_error */
const outages = new Set(['25006', '53100', '53200', '53300', '58030']);
/** deadlock_detected, lock_not_available */
const locks = new Set(['40P01', '55P03']);
/** query_canceled */
const tooSlow = '57014';

/** Whether the connection that was asked is gone. */
export function isLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as NodeJS.ErrnoException;
  return (
    code !== undefined &&
    (lost.has(code) || (error instanceof postgres.PostgresError && code.startsWith('08')))
  );
}

/** What to tell the operator after "Postgres at <host> ", when this error is an outage or a refusal of Postgres; undefined for any other error. */
export function outageOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code } = error as NodeJS.ErrnoException;
  if (code === undefined) return undefined;
  if (isLost(error)) {
    return `was lost on the way (${code}). What was not reported as done may not have been: run the command again when it is back.`;
  }
  return error instanceof postgres.PostgresError && Object.hasOwn(refused, code)
    ? refused[code]
    : undefined;
}

/** Whether the user may not do that: insufficient_privilege. */
export function isForbidden(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === '42501';
}

/** Whether another session's lock was in the way: for longer than lock_timeout, or since the two waited for each other. */
export function isLocked(error: unknown): boolean {
  return error instanceof postgres.PostgresError && locks.has(error.code);
}

/** Whether this error is part of an outage of Postgres: it is gone, silent, read-only, full, or out of memory or connections. */
export function isOutage(error: unknown): boolean {
  if (isLost(error) || !(error instanceof Error)) return isLost(error);
  const { code = '' } = error as NodeJS.ErrnoException;
  // postgres.js rejects what waited too long for a connection with the code of the server, but not as a PostgresError.
  return error instanceof postgres.PostgresError ? outages.has(code) : code === tooSlow;
}

/** Whether the server cancelled the statement since it took longer than statement_timeout. */
export function isTooSlow(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === tooSlow;
}

/** Whether Postgres may do the same later: an outage, or a statement or a lock that took too long. */
export function isUnavailable(error: unknown): boolean {
  return isOutage(error) || isLocked(error) || isTooSlow(error);
}
