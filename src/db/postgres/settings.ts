// Settings of sessions. The driver sends them when it connects, so they override the settings of
// the server, the database and the role. Behind a pooler in transaction mode a session has no
// settings of its own, so the roles of the daemons have the same settings.
import type { DaemonRole } from './daemon-roles.ts';

/**
 * The format of values and the isolation of transactions. With another DateStyle, IntervalStyle or
 * bytea_output the driver misreads values. With another isolation level a claim fails with 40001.
 */
export const SESSION_SETTINGS: Readonly<Record<string, string>> = {
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
};

/** The encoding of the database, and of the connection (the driver sets client_encoding). */
export const ENCODING = 'UTF8';

/**
 * Values of synchronous_commit with which a commit waits for the primary's disk and for the disks
 * of all synchronous standbys.
 */
export const DURABLE_SETTINGS: readonly string[] = ['on', 'remote_apply'];

/** Timeouts of a connection, ms. */
export interface ConnectionLimits {
  /** The server cancels a statement after this time. */
  statementMs: number;
  /** The server stops waiting for a lock after this time. */
  lockMs: number;
  /** The server closes a connection whose open transaction is idle for this time. */
  idleInTransactionMs: number;
  /**
   * The client drops a connection that received nothing for this time. The value exceeds
   * statementMs, so that the server cancels a slow statement first.
   */
  silentMs: number;
}

/** Limits of all daemons. */
export const daemonLimits: ConnectionLimits = {
  statementMs: 8000,
  lockMs: 5000,
  idleInTransactionMs: 15_000,
  silentMs: 10_000,
};

/**
 * Limits of the report pool. Analytics, exports and replay counts read more rows, so they have
 * their own pool with longer limits.
 */
export const reportLimits: ConnectionLimits = {
  ...daemonLimits,
  statementMs: 25_000,
  silentMs: 30_000,
};

/**
 * Limits for work that must end within `ms`. The server's limits are shorter than the client's, so
 * a responsive server cancels the statement and the connection stays open.
 */
export function limitsWithin(ms: number): ConnectionLimits {
  const serverMs = Math.ceil(ms * 0.8);
  return { statementMs: serverMs, lockMs: serverMs, idleInTransactionMs: ms, silentMs: ms };
}

/**
 * Planner settings of a pool's sessions. `daemon` disables sequential scans, because a session
 * keeps plans that were made while tables were small. `queue` (for the dispatcher) plans every
 * execution, because a plan made for an empty queue takes 200 ms on a full queue. `report` reverts
 * the settings of a daemon's role.
 */
export type Planning = 'daemon' | 'queue' | 'report';

const PLANNER_SETTINGS: Record<Planning, Record<string, string>> = {
  // Foreign key checks and PL/pgSQL cache a plan per session. A plan made while `events` was small
  // scans the whole table for each new delivery until the next ANALYZE. jit is off because before
  // Postgres 18 the high cost of a disabled sequential scan would trigger JIT compilation.
  daemon: { enable_seqscan: 'off', jit: 'off' },
  // Before the first ANALYZE the planner assumes a short queue. With sorts enabled, each claim
  // would read and sort the whole backlog.
  queue: { enable_seqscan: 'off', jit: 'off', enable_sort: 'off', enable_bitmapscan: 'off' },
  report: { enable_seqscan: 'on', jit: 'off' },
};

/** Returns the settings for these options. Postgres reads times without a unit as milliseconds. */
export function sessionSettings({
  planning,
  limits,
}: {
  planning?: Planning | undefined;
  limits?: ConnectionLimits | undefined;
}): Record<string, string> {
  return {
    ...(planning !== undefined && PLANNER_SETTINGS[planning]),
    ...(limits !== undefined && {
      statement_timeout: String(limits.statementMs),
      lock_timeout: String(limits.lockMs),
      idle_in_transaction_session_timeout: String(limits.idleInTransactionMs),
    }),
  };
}

/**
 * Settings that "billing migrate --roles" gives the role of each daemon in this database, for
 * sessions behind a pooler. The dispatcher's role gets the planner settings `queue`, because its
 * claims need them. The dispatcher's other statements work with these settings too.
 */
export const ROLE_SETTINGS: Readonly<
  Record<Exclude<DaemonRole, 'reconcile'>, Readonly<Record<string, string>>>
> = {
  serve: { ...SESSION_SETTINGS, ...sessionSettings({ planning: 'daemon', limits: daemonLimits }) },
  keeper: { ...SESSION_SETTINGS, ...sessionSettings({ planning: 'daemon', limits: daemonLimits }) },
  dispatch: {
    ...SESSION_SETTINGS,
    ...sessionSettings({ planning: 'queue', limits: daemonLimits }),
  },
};

/**
 * Marks a session that the service opened without a pooler. A pooler refuses or drops unknown
 * settings, so a session without the mark goes through a pooler.
 */
export const DIRECT_MARK = 'billing.direct';

/** Settings that the driver sends at the start of every session without a pooler. */
export const DIRECT_SETTINGS: Readonly<Record<string, string>> = {
  ...SESSION_SETTINGS,
  [DIRECT_MARK]: 'on',
};
