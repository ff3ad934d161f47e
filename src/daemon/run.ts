// Opens config, log and Postgres for a command, runs it, and closes everything last in, first out.
import type { Registry } from 'prom-client';
import { loadConfig, required, type Config } from '../config/config.ts';
import { supervision } from '../config/supervision.ts';
import type { ConfigRole } from '../config/variables.ts';
import {
  connect,
  type ConnectOptions,
  daemonLimits,
  describeDatabase,
  type Sql,
} from '../db/postgres/connect.ts';
import { assertSchema } from '../db/postgres/migrate.ts';
import { outageOf } from '../db/postgres/outage.ts';
import { assertUsable } from '../db/postgres/readiness.ts';
import { assertInstallation } from '../domain/accounts/installation.ts';
import { ENDING_SIGNALS, type EndingSignal, Interrupted, OperatorError } from '../errors.ts';
import { createLog, type Log, type LogOptions } from '../log.ts';
import { observeLoops, type Loop } from '../loop.ts';
import { createHealth } from './health.ts';
import { startHeartbeat } from './heartbeat.ts';
import { createRegistry, serveMetrics, type Readiness } from './metrics.ts';
import { watchSecrets } from './secrets-watch.ts';
import { startNotifying } from './systemd.ts';

export interface Resources {
  config: Config;
  log: Log;
  sql: Sql;
}

export interface CommandResources extends Resources {
  /** Aborted by the first SIGINT, SIGTERM or SIGHUP. */
  signal: AbortSignal;
}

export interface DaemonResources extends Resources {
  registry: Registry;
  /** The current problem of Postgres or a loop of this process, as text; undefined without one. */
  trouble: () => string | undefined;
}

/** A running daemon. */
export interface Daemon {
  ready: Readiness;
  /** What the daemon deliberately does not do while it is ready, as text; undefined for nothing. */
  note?: () => string | undefined;
  /** The chain's time in Unix milliseconds, if the daemon knows it; asks nothing. */
  chainTime?: () => number | null;
  /** Stops taking new work and resolves when the current work is done. */
  stop(): Promise<void>;
}

/** Grace period for the current work after the first signal, in milliseconds. */
const GRACE_MS = 10_000;

/**
 * Runs a daemon until SIGTERM, SIGINT or SIGHUP, then stops it within 10 s; a second signal ends
 * the process at once. Returns the exit code. `load` imports the daemon's start function while
 * Postgres is being connected. Throws an OperatorError for a wrong configuration, an unreachable
 * Postgres or a schema other than this build's.
 */
export async function runDaemon(
  role: Exclude<ConfigRole, 'admin' | 'reconcile' | 'developer'>,
  envFile: string | undefined,
  load: () => Promise<(resources: DaemonResources) => Promise<Daemon>>,
): Promise<number> {
  const loading = load();
  // Awaited below, unless the configuration or Postgres fails first; then a rejection must not be
  // unhandled.
  loading.catch(() => undefined);
  const registry = createRegistry(role);
  let log: Log | undefined;
  let heartbeat: Loop | undefined;
  const health = createHealth(
    registry,
    () => log ?? createLog(role, { level: 'info', pretty: false, stream: 'stdout' }),
    () => heartbeat?.wake(),
  );
  const isReported = (error: unknown) => health.takes(error);
  // postgres.js does not handle a rejection of its own query for array types: a connection lost
  // while it opens must not end the process.
  process.on('unhandledRejection', (error) => {
    if (!health.takes(error)) throw error;
  });
  return withResources(role, envFile, { stream: 'stdout', isReported }, async (resources) => {
    const { config, sql } = resources;
    log = resources.log;
    const signalled = firstSignal(log);
    observeLoops(health);
    const start = await loading;
    const daemon = await start({ ...resources, registry, trouble: () => health.trouble() });
    const secrets = watchSecrets(resources, registry);
    const ready = async () =>
      health.trouble() ??
      (role === 'dispatch' ? secrets.trouble() : undefined) ??
      (await daemon.ready());
    const beating = startHeartbeat(role, sql, {
      health,
      ready,
      registry,
      chainTime: () => daemon.chainTime?.() ?? null,
    });
    heartbeat = beating.loop;
    const metrics = await serveMetrics(registry, ready, {
      host: config.metricsHost,
      port: config.metricsPort,
      note: () => daemon.note?.(),
    });
    const supervisor = supervision();
    const notifying =
      supervisor &&
      startNotifying(supervisor, ready, (reason) =>
        resources.log.error({ reason }, 'systemd not notified'),
      );
    log.info({ metrics: metrics.url }, `${role} is running`);
    const signal = await signalled;
    log.info({ signal }, 'stopping; no new work is taken');
    const [stopped] = await Promise.all([within(GRACE_MS, daemon.stop()), notifying?.stop()]);
    await Promise.all([metrics.close(), beating.stop(), secrets.stop()]);
    observeLoops(undefined);
    if (stopped) log.info('stopped');
    else
      log.warn(
        { graceMs: GRACE_MS },
        'stopped with unfinished work; its leases expire and another process takes it over',
      );
    return 0;
  });
}

/**
 * Runs one admin command against Postgres, with its log on stderr, and returns its exit code.
 * SIGINT, SIGTERM and SIGHUP end it with Interrupted (exit code 130, 143 or 129); with `drains` the
 * command watches `signal` and ends in order, and only a second signal cuts it short. Throws an
 * OperatorError for a wrong configuration, and when Postgres is unreachable, has another schema or
 * is lost during the command.
 */
export async function runCommand(
  envFile: string | undefined,
  command: (resources: CommandResources) => Promise<number>,
  { drains = false, role = 'admin' }: { drains?: boolean; role?: 'admin' | 'reconcile' } = {},
): Promise<number> {
  return interruptible(drains, (signal) =>
    withResources(role, envFile, { stream: 'stderr' }, (resources) =>
      command({ ...resources, signal }),
    ),
  );
}

/**
 * Runs `work` until it ends or a signal interrupts it, as runCommand does; for commands without
 * Postgres.
 */
export async function interruptible<T>(
  drains: boolean,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const interrupt = new AbortController();
  let cut: (reason: Interrupted) => void = () => undefined;
  const interrupted = new Promise<never>((_resolve, reject) => {
    cut = reject;
  });
  const onSignal = (name: EndingSignal) => {
    const reason = new Interrupted('Interrupted.', name);
    if (!drains || interrupt.signal.aborted) cut(reason);
    interrupt.abort(reason);
  };
  const signals = Object.keys(ENDING_SIGNALS) as EndingSignal[];
  for (const name of signals) process.on(name, onSignal);
  try {
    return await Promise.race([work(interrupt.signal), interrupted]);
  } finally {
    for (const name of signals) process.off(name, onSignal);
  }
}

/**
 * Awaits `work`, but throws Interrupted with this message as soon as `signal` aborts; for parts of
 * a draining command that need no orderly end.
 */
export async function unlessInterrupted<T>(
  signal: AbortSignal,
  words: string,
  work: Promise<T>,
): Promise<T> {
  let interrupted: () => void = () => undefined;
  const cut = new Promise<never>((_resolve, reject) => {
    interrupted = () => reject(Interrupted.by(signal, words));
    if (signal.aborted) interrupted();
    signal.addEventListener('abort', interrupted, { once: true });
  });
  try {
    return await Promise.race([work, cut]);
  } finally {
    signal.removeEventListener('abort', interrupted);
  }
}

async function withResources(
  role: ConfigRole,
  envFile: string | undefined,
  logging: Pick<LogOptions, 'stream' | 'isReported'>,
  use: (resources: Resources) => Promise<number>,
): Promise<number> {
  const config = loadConfig(role, { envFile });
  const isCommand = role === 'admin' || role === 'reconcile';
  const durable = role === 'serve' || role === 'keeper';
  const name = isCommand ? 'admin' : role;
  const pretty = process[logging.stream].isTTY;
  const log = createLog(name, { level: config.logLevel, pretty, ...logging });
  const { databaseUrl } = required(config, 'databaseUrl');
  return withPostgres(
    databaseUrl,
    {
      max: config.databasePool,
      name: `billing ${name}`,
      planning: isCommand ? undefined : 'daemon',
      limits: isCommand ? undefined : daemonLimits,
      durable,
    },
    async (sql) => {
      await assertSchema(sql);
      // The dispatcher does not use plans.
      if (durable) await assertInstallation(sql, config);
      return use({ config, log, sql });
    },
  );
}

/**
 * Connects, runs `use` and disconnects. Throws an OperatorError when Postgres is unreachable,
 * refuses, is lost meanwhile, or is not as the service relies on (`durable`: nor are its commits).
 */
export async function withPostgres<T>(
  databaseUrl: string,
  { durable = false, ...options }: ConnectOptions & { durable?: boolean },
  use: (sql: Sql) => Promise<T>,
): Promise<T> {
  const sql = connect(databaseUrl, options);
  try {
    await assertUsable(sql, databaseUrl, { durable });
    return await use(sql);
  } catch (error) {
    const outage = outageOf(error);
    if (outage === undefined) throw error;
    throw new OperatorError(`Postgres at ${describeDatabase(databaseUrl)} ${outage}`, 1, {
      cause: error,
    });
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Time that a process has to stop after its supervisor has exited, in milliseconds. */
const ORPHANED_MS = 5000;

function firstSignal(log: Log): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let signals = 0;
    const onSignal = (signal: NodeJS.Signals) => {
      signals += 1;
      if (signals === 1) {
        resolve(signal);
        return;
      }
      log.warn({ signal }, 'second signal: exiting at once');
      process.exit(1);
    };
    for (const name of Object.keys(ENDING_SIGNALS)) process.on(name, onSignal);
    // A process started with an IPC channel (by the sandbox) stops when its supervisor exits.
    const onOrphaned = () => {
      setTimeout(() => process.exit(1), ORPHANED_MS).unref();
      onSignal('SIGTERM');
    };
    if (process.connected) process.once('disconnect', onOrphaned);
    else if (process.send !== undefined) onOrphaned();
  });
}

async function within(ms: number, work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
