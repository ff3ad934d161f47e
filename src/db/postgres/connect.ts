// Opens all Postgres pools. postgres.js maps snake_case columns to camelCase fields and int8 to
// bigint.
import { setImmediate as nextTurn } from 'node:timers/promises';
import postgres from 'postgres';
import { parse } from 'postgres-array';
import { backoff } from '../../backoff.ts';
import { parsePostgresUrl, type PostgresUrl } from '../../config/postgres-url.ts';
import {
  type ConnectionLimits,
  DIRECT_SETTINGS,
  type Planning,
  sessionSettings,
} from './settings.ts';
import { createSilence, type Silence } from './silence.ts';
import { createSocketOpener, type Servers } from './socket.ts';
import { tlsOptions } from './tls.ts';

/** Seconds until the first TCP keepalive. */
const KEEP_ALIVE_SECONDS = 60;
/** Maximum reconnect delay, ms. */
const RECONNECT_MS = 1000;

function arrayOf<T extends string | number>(oid: number, read: (value: string) => T) {
  return {
    to: oid,
    from: [oid],
    serialize: (values: readonly T[] | string) =>
      typeof values === 'string'
        ? values
        : `{${values.map((value) => `"${String(value).replaceAll(/["\\]/g, '\\$&')}"`).join()}}`,
    parse: (literal: string) => parse(literal, read),
  } satisfies postgres.PostgresType<T[]>;
}

/**
 * The array types that the schema uses, with their ids in pg_type. An array parameter must not
 * contain NULL. Without this list, postgres.js reads the types on each new connection, and losing
 * the connection during that read ends the process.
 */
const arrayTypes = {
  names: arrayOf(1003, String),
  int4s: arrayOf(1007, Number),
  texts: arrayOf(1009, String),
  uuids: arrayOf(2951, String),
};

/**
 * If a prepared statement fails with "cached plan must not change result type" (a migration has
 * added a column), postgres.js prepares it again and serializes its already serialized parameters
 * again. These serializers therefore return serialized text unchanged. The driver's own would send
 * false for true, and the hex text of bytes as bytes.
 */
const repeatableTypes = {
  boolean: {
    to: 16,
    from: [16],
    serialize: (value: boolean | string) => (value === true || value === 't' ? 't' : 'f'),
    parse: (text: string) => text === 't',
  },
  bytea: {
    to: 17,
    from: [17],
    serialize: (bytes: Uint8Array | string) =>
      typeof bytes === 'string' ? bytes : `\\x${Buffer.from(bytes).toString('hex')}`,
    parse: (text: string) => Buffer.from(text.slice(2), 'hex'),
  },
  json: {
    to: 114,
    from: [114, 3802],
    serialize: (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value)),
    parse: (text: string): unknown => JSON.parse(text),
  },
};

const types = { bigint: postgres.BigInt, ...repeatableTypes, ...arrayTypes };

/** A pool. Every function in src/db takes a pool or a transaction as `sql`. */
export type Sql = postgres.Sql<{ bigint: bigint }>;
export type Transaction = postgres.TransactionSql<{ bigint: bigint }>;
export type Queryable = Sql | Transaction;

export interface ConnectOptions {
  /** Maximum number of connections. */
  max: number;
  /** application_name in pg_stat_activity. */
  name: string;
  /** Planner settings of the sessions. If undefined, Postgres's own settings apply. */
  planning?: Planning | undefined;
  /** Timeouts. If undefined, those of the database and the role apply. */
  limits?: ConnectionLimits | undefined;
  /**
   * If `url` leads to a pooler in transaction mode: the URL of the same database without the
   * pooler, for `listen`. The pool then prepares no statements and sends no session settings. The
   * settings of the role apply (ROLE_SETTINGS in settings.ts).
   */
  directUrl?: string | undefined;
}

type PoolOptions = postgres.Options<{ bigint: postgres.PostgresType<bigint> }>;

const silences = new WeakMap<object, Silence>();

/**
 * Creates a pool that connects on the first query. If the first argument is a pool, the new pool
 * connects to the same database, and inherits that pool's value of each option that is not given.
 * The caller ends the new pool.
 */
export function connect(url: string, options: ConnectOptions): Sql;
export function connect(sql: Sql, options: Omit<ConnectOptions, 'name' | 'directUrl'>): Sql;
export function connect(
  to: string | Sql,
  { max, name, planning, limits, directUrl }: Omit<ConnectOptions, 'name'> & { name?: string },
): Sql {
  const settings = sessionSettings({ planning, limits });
  const options =
    typeof to === 'string'
      ? optionsOf(to, max, { name, settings, isPooled: directUrl !== undefined })
      : optionsLike(to, max, settings);
  const direct =
    directUrl === undefined
      ? options.direct
      : optionsOf(directUrl, 1, { name, settings, isPooled: false });
  const isPrepared = direct === undefined && planning !== 'queue';
  return openPool({ ...options, direct, ...(!isPrepared && { prepare: false }) }, limits?.silentMs);
}

type Settings = Record<string, string>;

function optionsOf(
  url: string,
  max: number,
  { name, settings, isPooled }: { name: string | undefined; settings: Settings; isPooled: boolean },
): ReadOptions {
  const parsed = parsePostgresUrl(url);
  const { user, password, database, applicationName = name, options: commandLine } = parsed;
  const driverOptions = {
    host: [parsed.hosts[0].name],
    port: [parsed.hosts[0].port],
    database,
    username: user,
    ...(password !== undefined && { password }),
    max,
    types,
    fetch_types: false,
    transform: postgres.camel,
    // 0 disables the driver's own timeout. The socket limits the time for each host.
    connect_timeout: 0,
    keep_alive: KEEP_ALIVE_SECONDS,
    // Seconds. The default delay of postgres.js grows to 20 s, which would delay every daemon after
    // Postgres recovers.
    backoff: (attempt: number) => backoff(attempt, { base: 20, cap: RECONNECT_MS }) / 1000,
    idle_timeout: 60,
    onnotice: () => undefined,
    connection: {
      ...(!isPooled && { ...DIRECT_SETTINGS, ...settings }),
      ...(applicationName !== undefined && { application_name: applicationName }),
      ...(commandLine !== undefined && { options: commandLine }),
    },
  };
  // The published type of postgres.js does not allow lists of hosts and ports.
  const { options } = postgres(driverOptions as unknown as PoolOptions);
  return { ...options, servers: serversOf(parsed), direct: undefined };
}

function serversOf({ hosts, target, tls, connectMs }: PostgresUrl): Servers {
  return { hosts, target, tls, tlsOptions: tlsOptions(tls), connectMs };
}

function optionsLike(sql: Sql, max: number, settings: Settings): ReadOptions {
  const options = sql.options as unknown as ReadOptions & { connection: Settings };
  return {
    ...options,
    max,
    connection: { ...options.connection, ...(options.direct === undefined && settings) },
    // postgres.js stores its reconnect state in this object, so each pool needs a separate object.
    shared: { retries: 0, typeArrayMap: {} },
  } as ReadOptions;
}

/** The parsed options of a pool. postgres.js accepts them in place of a URL. */
interface ReadOptions {
  servers: Servers;
  /** Options for the direct connection of `listen`; undefined for a pool without a pooler. */
  direct: ReadOptions | undefined;
}

/**
 * Opens a pool. When a statement has waited for `silentMs`, the statement is cancelled and silent
 * connections are dropped (silence.ts). The connect timeout of each host is at most an equal part
 * of `silentMs`, so that the last host is tried before the statement is cancelled.
 */
function openPool(options: ReadOptions, silentMs = Infinity): Sql {
  const { hosts, connectMs } = options.servers;
  const perHostMs = Math.min(connectMs, silentMs / hosts.length);
  const openSocket = createSocketOpener({ ...options.servers, connectMs: perHostMs });
  const silence = silentMs === Infinity ? undefined : createSilence(silentMs, openSocket);
  const socket = () => (silence?.open ?? openSocket)();
  // These options are turned off in the driver, because the socket selects the host and starts TLS.
  const driverOptions = {
    ...options,
    ssl: false,
    sslnegotiation: null,
    target_session_attrs: null,
    socket,
  };
  const watched = withSilence(postgres(driverOptions as unknown as PoolOptions), silence);
  if (options.direct !== undefined) listenOn(watched, options.direct, silentMs);
  if (silence !== undefined) silences.set(watched, silence);
  return watched;
}

/**
 * Makes `listen` use a separate connection with the options `direct`. The connection opens on the
 * first `listen`.
 */
function listenOn(sql: Sql, direct: ReadOptions, silentMs: number): void {
  const listening = openPool(
    { ...direct, shared: { retries: 0, typeArrayMap: {} } } as ReadOptions,
    silentMs,
  );
  const end = sql.end.bind(sql);
  Object.assign(sql, {
    listen: listening.listen.bind(listening),
    end: async (options?: { timeout?: number }) => {
      await Promise.all([end(options), listening.end(options)]);
    },
  });
}

/** Returns the silence detector of a pool; undefined for a pool without limits. */
export function silenceOf(sql: Sql): Silence | undefined {
  return silences.get(sql);
}

/**
 * Wraps a pool so that `silence` watches every statement and transaction. If the server ended a
 * connection with an error, postgres.js rejects the first statement of the next connection with
 * this stale error, without sending the statement. The wrapper runs the rejected statement again.
 */
function withSilence(sql: Sql, silence: Silence | undefined): Sql {
  const reserve = sql.reserve.bind(sql);
  const survivor = Object.assign(sql, {
    begin: survivingLoss(sql, silence),
    // With `fetch_types: false`, the driver's `reserve` may never resolve if no connection is open.
    // `select 1` opens a connection first.
    reserve: async () => {
      await sql`select 1`;
      return reserve();
    },
  });
  return counted(survivor, silence);
}

/** A postgres.js statement, with fields that are missing in its published type. */
type Statement = Promise<unknown> & {
  state: unknown;
  options: object;
  isRaw?: unknown;
  cancel(): void;
};

/** The connection of one transaction. The transaction and its statements share this object. */
interface Connection {
  isClosed: boolean;
}

function counted<T extends Queryable>(
  sql: T,
  silence: Silence | undefined,
  connection?: Connection,
): T {
  return new Proxy(sql, {
    apply(target, self, args) {
      const make = () => Reflect.apply(target as (...given: unknown[]) => unknown, self, args);
      const result = make();
      // `result` may also be an SQL fragment, which is a promise too. `count` replaces the methods
      // `then`, `catch` and `finally`. No code calls these methods of a fragment, so `count` does
      // no harm.
      if (result instanceof Promise)
        count(result as Statement, make as () => Statement, silence, connection);
      return result;
    },
  });
}

/**
 * Lets `silence`, which drops connections that no longer answer, count a statement while it runs.
 * Runs the statement once more if its connection turned out to be stale (isStale). postgres.js
 * sends a statement at the first call of its `then`, `catch` or `finally`, so this function
 * replaces the three methods.
 */
function count(
  made: Statement,
  again: () => Statement,
  silence: Silence | undefined,
  connection: Connection | undefined,
): void {
  const sendFirst = made.then.bind(made);
  const run = async () => {
    // On a closed connection, postgres.js would send the statement over the next connection,
    // outside the transaction.
    if (connection?.isClosed === true) throw transactionClosed();
    // If the statement waits too long, `silence` drops the silent connections and calls this
    // callback. A statement that was sent fails when its connection is dropped. The callback
    // cancels a statement that was not sent yet.
    const end = silence?.begin(() => made.state === null && made.cancel());
    try {
      return await new Promise((resolve, reject) => void sendFirst(resolve, reject));
    } catch (error) {
      if (connection !== undefined && isConnectionClosed(error)) connection.isClosed = true;
      if (!isStale(error)) throw error;
      const { options, isRaw } = made;
      return await Object.assign(again(), { options, isRaw });
    } finally {
      end?.();
    }
  };
  let running: Promise<unknown> | undefined;
  const ran = () => (running ??= run());
  made.then = (...handlers) => ran().then(...handlers);
  made.catch = (handler) => ran().catch(handler);
  made.finally = (handler) => ran().finally(handler);
}

/**
 * Tells whether this is an error with which the server ends a connection. In postgres.js, such an
 * error rejects only a statement that was not sent, so a retry is safe. A statement that was sent
 * before the connection ended fails with CONNECTION_CLOSED instead.
 */
function isStale(error: unknown): boolean {
  return (
    error instanceof postgres.PostgresError &&
    ['57P01', '57P02', '57P04', '57P05', '25P03'].includes(error.code)
  );
}

function transactionClosed(): Error {
  return Object.assign(new Error('the connection of the transaction was closed'), {
    code: 'CONNECTION_CLOSED',
  });
}

function isConnectionClosed(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === 'CONNECTION_CLOSED';
}

type Work = (tx: Transaction) => unknown;

/**
 * A `sql.begin` that survives a lost connection. After `work` has ended, postgres.js 3.4 writes the
 * rollback or commit. On a lost connection, this write crashes the process
 * (github.com/porsager/postgres/issues/1154 and 1208). To prevent the write, the callback given to
 * `begin` never settles in this case. The transaction itself is still rejected.
 */
function survivingLoss(sql: Sql, silence: Silence | undefined): Sql['begin'] {
  const begin = sql.begin.bind(sql) as (
    options: string,
    work: (tx: Transaction) => Promise<unknown>,
  ) => Promise<unknown>;
  const once = async (options: string, work: Work, onBegun: () => void) => {
    const connection: Connection = { isClosed: false };
    let end = silence?.begin(() => undefined);
    const transaction = begin(options, async (tx) => {
      onBegun();
      end?.();
      try {
        const result = work(counted(tx, silence, connection));
        return await (Array.isArray(result) ? Promise.all(result) : result);
      } catch (error) {
        // If the connection was closed, `isClosed` is set within one turn of the event loop.
        await nextTurn();
        throw error;
      } finally {
        // postgres.js rejects the transaction of a closed connection by itself. This callback waits
        // for ever, so that the caller gets that rejection.
        if (connection.isClosed) await new Promise(() => undefined);
        end = silence?.begin(() => undefined);
      }
    });
    try {
      return await transaction;
    } finally {
      connection.isClosed = true;
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
