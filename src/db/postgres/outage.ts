// Classifies Postgres errors that are outages or refusals, not bugs.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
import postgres from 'postgres';

/**
 * Error codes of postgres.js, Node and Postgres for a connection that failed to open or was lost.
 */
const lost = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  // No host of the URL can be used or has the wanted role (socket.ts).
  'NO_HOST',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  // Codes: admin_shutdown, crash_shutdown, cannot_connect_now, database_dropped.
  '57P01',
  '57P02',
  '57P03',
  '57P04',
  // Codes: idle_session_timeout, idle_in_transaction_session_timeout.
  '57P05',
  '25P03',
]);

/** Messages for refusals, by error code. Each message follows the words "Postgres at <host>". */
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

/** Codes: read_only_sql_transaction, disk_full, out_of_memory, too_many_connections, io_error. */
const outages = new Set(['25006', '53100', '53200', '53300', '58030']);
/** Codes: deadlock_detected, lock_not_available. */
const locks = new Set(['40P01', '55P03']);
/**
 * Code serialization_failure: a standby cancelled a statement, because WAL replay was about to
 * change the data that the statement reads.
 */
const REPLAYED = '40001';
/** Code query_canceled: the server cancelled the statement. */
const TOO_SLOW = '57014';

/** Tells whether the error means that the connection was lost. */
export function isLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as NodeJS.ErrnoException;
  return (
    code !== undefined &&
    (lost.has(code) || (error instanceof postgres.PostgresError && code.startsWith('08')))
  );
}

/**
 * Returns the message for the operator about an outage or a refusal. The message follows the words
 * "Postgres at <host>". Returns undefined for all other errors.
 */
export function outageOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code } = error as NodeJS.ErrnoException;
  if (code === undefined) return undefined;
  if (isLost(error)) {
    return `was lost during the command (${code}). Steps that were not reported may not have been done: run the command again when Postgres is back.`;
  }
  return error instanceof postgres.PostgresError && Object.hasOwn(refused, code)
    ? refused[code]
    : undefined;
}

/** Tells whether the role lacks a right: insufficient_privilege. */
export function isForbidden(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === '42501';
}

/** Tells whether another session's lock blocked the statement: a lock timeout or a deadlock. */
export function isLocked(error: unknown): boolean {
  return error instanceof postgres.PostgresError && locks.has(error.code);
}

/**
 * Tells whether Postgres is unreachable, silent, read-only, out of disk, out of memory or out of
 * connections.
 */
export function isOutage(error: unknown): boolean {
  if (isLost(error) || !(error instanceof Error)) return isLost(error);
  const { code = '' } = error as NodeJS.ErrnoException;
  // If this client cancels a statement that still waits for a connection, postgres.js throws an
  // error with the code query_canceled that is not a PostgresError.
  return error instanceof postgres.PostgresError ? outages.has(code) : code === TOO_SLOW;
}

/** Tells whether the server cancelled the statement because of statement_timeout. */
export function isTooSlow(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === TOO_SLOW;
}

/** Tells whether a standby cancelled the statement because of WAL replay. */
function isReplayed(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === REPLAYED;
}

/**
 * Tells whether a retry may succeed: the error is an outage, a statement timeout, a lock conflict
 * or a conflict with WAL replay on a standby.
 */
export function isUnavailable(error: unknown): boolean {
  return isOutage(error) || isLocked(error) || isTooSlow(error) || isReplayed(error);
}
// Error code unique_violation: https://www.postgresql.org/docs/current/errcodes-appendix.html
const UNIQUE_VIOLATION = '23505';

/** Tells whether a statement violated the unique index `constraint`. */
export function isDuplicate(error: unknown, constraint: string): boolean {
  return (
    error instanceof postgres.PostgresError &&
    error.code === UNIQUE_VIOLATION &&
    error.constraint_name === constraint
  );
}
