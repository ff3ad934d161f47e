// The one way to Postgres: postgres.js, snake_case columns as camelCase fields, int8 as bigint.
import { setImmediate as nextTurn } from 'node:timers/promises';
import postgres from 'postgres';
import { backoff } from '../backoff.ts';
import { messageOf, OperatorError } from '../errors.ts';
import { createSilence, type Silence } from './silence.ts';

/** The longest wait before the next try to reach a Postgres that was lost. */
const reconnectMs = 1000;

const types = { bigint: postgres.BigInt };

/** A pool. Every statement of src/db takes it, or a transaction of it, as `sql`. */
export type Sql = postgres.Sql<{ bigint: bigint }>;
export type Transaction = postgres.TransactionSql<{ bigint: bigint }>;
export type Queryable = Sql | Transaction;

/** Milliseconds that a connection may spend on one thing. */
export interface Limits {
  /** The server cancels a statement after this. */
  statementMs: number;
  /** The server gives up waiting for a lock after this. */
  lockMs: number;
  /** The server ends a connection whose open transaction does nothing for this long. */
  idleInTransactionMs: number;
  /** The client drops connections on which it hears nothing for this long; longer than statementMs, since a server that answers keeps its connection. */
  silentMs: number;
}

/** The limits of every daemon. */
export const daemonLimits: Limits = {
  statementMs: 8000,
  lockMs: 5000,
  idleInTransactionMs: 15_000,
  silentMs: 10_000,
};

/** The limits of analytics, exports and the counts of replays, which read more and have a pool of their own. */
export const reportLimits: Limits = { ...daemonLimits, statementMs: 25_000, silentMs: 30_000 };

export interface ConnectOptions {
  /** Connections at the most. */
  max: number;
  /** Shown in pg_stat_activity. */
  name: string;
  /** Reads by indexes wherever there is one: for daemons, whose sessions outlive what their plans were made for. */
  byIndexes?: boolean;
  /** None when absent: commands and migrations may take as long as they need. */
  limits?: Limits | undefined;
}

// The checks of foreign keys and PL/pgSQL keep a plan for as long as their session. One that was planned among few events read all of them for each
// new delivery, until an ANALYZE came. Before Postgres 18 a scan without an index then counts as so expensive that it would be compiled (jit).
const indexed = { enable_seqscan: 'off', jit: 'off' };

const silences = new WeakMap<object, Silence>();

/** A lazy pool: no connection is made before the first query. */
export function connect(
  url: string,
  { max, name, byIndexes = false, limits }: ConnectOptions,
): Sql {
  const options = {
    max,
    types,
    transform: postgres.camel,
    connect_timeout: 5,
    // Seconds. The default of postgres.js goes up to 20 s, and each daemon would wait that long after Postgres is back.
    backoff: (attempt: number) => backoff(attempt, { base: 20, cap: reconnectMs }) / 1000,
    idle_timeout: 60,
    onnotice: () => undefined,
    connection: {
      application_name: name,
      TimeZone: 'UTC',
      ...(byIndexes ? indexed : {}),
      ...(limits === undefined
        ? {}
        : {
            statement_timeout: limits.statementMs,
            lock_timeout: limits.lockMs,
            idle_in_transaction_session_timeout: limits.idleInTransactionMs,
          }),
    },
  };
  return openPool((own) => postgres(url, { ...options, ...own }), limits?.silentMs);
}

/** A pool that `open` makes with the given options. With `silentMs` it drops connections on which nothing arrives for that long. */
export function openPool(open: (own: object) => Sql, silentMs?: number): Sql {
  const silence = silentMs === undefined ? undefined : createSilence(silentMs);
  const watched = answered(open(silence === undefined ? {} : { socket: silence.open }), silence);
  if (silence !== undefined) silences.set(watched, silence);
  return watched;
}

/** What the client knows of the silence of its own connections; undefined for a pool without limits. */
export function silenceOf(sql: Sql): Silence | undefined {
  return silences.get(sql);
}

/**
 * The pool, with every statement and transaction counted by `silence`, and run again where postgres.js rejects it with the error of another: the
 * server's last word on a connection that it ended is kept for the first statement of the next connection, minutes later, and that one is not sent.
 */
function answered(sql: Sql, silence: Silence | undefined): Sql {
  const survivor = Object.assign(sql, { begin: survivingLoss(sql, silence) });
  return counted(survivor, silence);
}

/** A statement of postgres.js, with the fields that its own type does not show. */
type Statement = Promise<unknown> & {
  state: unknown;
  options: object;
  isRaw?: unknown;
  cancel(): void;
};

function counted<T extends Queryable>(sql: T, silence: Silence | undefined): T {
  return new Proxy(sql, {
    apply(target, self, args) {
      const make = () => Reflect.apply(target as (...given: unknown[]) => unknown, self, args);
      const made = make();
      // A part of a statement is a promise as well, but nothing waits for it.
      if (made instanceof Promise) count(made as Statement, make as () => Statement, silence);
      return made;
    },
  });
}

/** Replaces `then`: a statement of postgres.js is sent when it is first waited for. */
function count(made: Statement, again: () => Statement, silence: Silence | undefined): void {
  const sendFirst = made.then.bind(made);
  const run = async () => {
    // Only what still waits for a connection can be cancelled without one.
    const end = silence?.begin(() => made.state === null && made.cancel());
    try {
      return await new Promise((resolve, reject) => void sendFirst(resolve, reject));
    } catch (error) {
      if (!isStale(error)) throw error;
      const { options, isRaw } = made;
      return await Object.assign(again(), { options, isRaw });
    } finally {
      end?.();
    }
  };
  let running: Promise<unknown> | undefined;
  made.then = (...handlers) => (running ??= run()).then(...handlers);
}

/** The errors by which a server ends a connection. A statement that was sent never gets them, but CONNECTION_CLOSED. */
function isStale(error: unknown): boolean {
  return (
    error instanceof postgres.PostgresError &&
    ['57P01', '57P02', '57P04', '57P05', '25P03'].includes(error.code)
  );
}

type Work = (tx: Transaction) => unknown;

/**
 * `sql.begin` that outlives its connection. postgres.js 3.4 writes its rollback (or commit) to a connection that is gone, where no socket is left, and
 * the process dies of it (github.com/porsager/postgres/issues/1154 and 1208). So the work of a lost transaction never ends once its promise is rejected.
 */
function survivingLoss(sql: Sql, silence: Silence | undefined): Sql['begin'] {
  const begin = sql.begin.bind(sql) as (
    options: string,
    work: (tx: Transaction) => Promise<unknown>,
  ) => Promise<unknown>;
  const once = async (options: string, work: Work, onBegun: () => void) => {
    let over = false;
    const isOver = () => over;
    let end = silence?.begin(() => undefined);
    const transaction = begin(options, async (tx) => {
      onBegun();
      end?.();
      try {
        const result = work(counted(tx, silence));
        return await (Array.isArray(result) ? Promise.all(result) : result);
      } catch (error) {
        // The end of a connection rejects its queries first and then the transaction.
        await nextTurn();
        throw error;
      } finally {
        if (isOver()) await new Promise(() => undefined);
        end = silence?.begin(() => undefined);
      }
    });
    try {
      return await transaction;
    } finally {
      over = true;
      end?.();
    }
  };
  const surviving = async (...args: [string, Work] | [Work]) => {
    const [options, work] = args.length === 1 ? ['', args[0]] : args;
    let begun = false;
    const isBegun = () => begun;
    try {
      return await once(options, work, () => (begun = true));
    } catch (error) {
      if (isBegun() || !isStale(error)) throw error;
      return once(options, work, () => undefined);
    }
  };
  return surviving as Sql['begin'];
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
