// Settings of database sessions. The driver sends these settings when it connects, and they
// override those of the server, the database and the role. A pooler in transaction mode drops the
// driver's settings. Behind a pooler, the settings of the daemons' roles apply (ROLE_SETTINGS).
import type { DaemonRole } from './daemon-roles.ts';

/** The schema that has the tables. Statements name the tables without this schema. */
export const SCHEMA = 'public';

/**
 * Settings that change the meaning of statements or values. With another search_path, statements
 * find no tables or other tables. With another DateStyle, IntervalStyle or bytea_output, the driver
 * misreads values. With another isolation level, concurrent updates can fail with error 40001.
 */
export const SESSION_SETTINGS: Readonly<Record<string, string>> = {
  search_path: SCHEMA,
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  transform_null_equals: 'off',
  exit_on_error: 'off',
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
};

/**
 * Settings that the service checks and does not set, because only a superuser may set them. With
 * another session_replication_role, triggers and foreign keys are off.
 */
export const CHECKED_SETTINGS: Readonly<Record<string, string>> = {
  session_replication_role: 'origin',
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
 * Limits of commands and of migrations: no timeouts. They are sent, because otherwise a timeout of
 * the database or the role would end a statement that runs for minutes.
 */
export const commandLimits: ConnectionLimits = {
  statementMs: 0,
  lockMs: 0,
  idleInTransactionMs: 0,
  silentMs: Infinity,
};

/**
 * Limits for work that must end within `ms`. The server's timeout for statements is shorter than
 * the client's. A responsive server therefore cancels the statement first, and the connection stays
 * open.
 */
export function limitsWithin(ms: number): ConnectionLimits {
  const serverMs = Math.ceil(ms * 0.8);
  return { statementMs: serverMs, lockMs: serverMs, idleInTransactionMs: ms, silentMs: ms };
}

/**
 * Kinds of pools, which differ in their planner settings. `serve` and `report` plan each statement
 * with its values, because those decide which index serves a list (docs/postgres-notes.md, "Cached
 * plans"). The keeper's and the dispatcher's statements keep their cached plans. `queue` is for the
 * dispatcher's pool. That pool prepares no statements, because a plan that was cached for an empty
 * queue takes 200 ms on a full queue. Only `report` allows sequential scans.
 */
export type Planning = 'daemon' | 'serve' | 'queue' | 'report';

const PLANNER_SETTINGS: Record<Planning, Record<string, string>> = {
  // enable_seqscan is off, because foreign key checks and PL/pgSQL cache a plan per session. A plan
  // that was cached while `events` was small could use a sequential scan. Each new delivery would
  // then scan the whole table until the next ANALYZE. jit is off, because before Postgres 18 a
  // disabled sequential scan has a high cost, which would start JIT compilation.
  daemon: { enable_seqscan: 'off', jit: 'off' },
  serve: { enable_seqscan: 'off', jit: 'off', plan_cache_mode: 'force_custom_plan' },
  // Before the first ANALYZE the planner assumes a short queue. With sorts enabled, each claim
  // would read and sort the whole backlog.
  queue: { enable_seqscan: 'off', jit: 'off', enable_sort: 'off', enable_bitmapscan: 'off' },
  report: { enable_seqscan: 'on', jit: 'off', plan_cache_mode: 'force_custom_plan' },
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
 * Settings that "billing migrate --roles" gives each daemon's role in this database, for sessions
 * behind a pooler. The dispatcher's role gets the planner settings `queue`, because statements that
 * claim deliveries need them. The dispatcher's other statements work with them too.
 */
export const ROLE_SETTINGS: Readonly<
  Record<Exclude<DaemonRole, 'reconcile'>, Readonly<Record<string, string>>>
> = {
  serve: { ...SESSION_SETTINGS, ...sessionSettings({ planning: 'serve', limits: daemonLimits }) },
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
