// Runs a command or daemon: reads the configuration, opens the log and Postgres before the run, and
// closes Postgres afterwards.
import { setTimeout as delay } from 'node:timers/promises';
import type { Registry } from 'prom-client';
import { loadConfig, required, type Config } from '../config/config.ts';
import { describeDatabase } from '../config/postgres-url.ts';
import { supervision } from '../config/supervision.ts';
import type { ConfigRole } from '../config/variables.ts';
import { connect, type ConnectOptions, type Sql } from '../db/postgres/connect.ts';
import { assertSchema } from '../db/postgres/migrate.ts';
import { outageOf } from '../db/postgres/outage.ts';
import { assertDirect, assertUsable, type UsabilityChecks } from '../db/postgres/readiness.ts';
import { commandLimits, daemonLimits, ROLE_SETTINGS } from '../db/postgres/settings.ts';
import { assertInstallation } from '../domain/accounts/installation.ts';
import { ENDING_SIGNALS, type EndingSignal, Interrupted, OperatorError } from '../errors.ts';
import { createLog, type Log, type LogOptions } from '../log.ts';
import { observeLoops, type Loop } from '../loop.ts';
import { createHealth, type Health } from './health.ts';
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
  /** Aborts at the first SIGINT, SIGTERM or SIGHUP. */
  signal: AbortSignal;
}

export interface DaemonResources extends Resources {
  registry: Registry;
  /**
   * Describes the current problem of Postgres or of a loop in this process. Returns undefined when
   * there is no problem.
   */
  trouble: () => string | undefined;
  /** Tells whether the process is stopping after a signal. A stopping process is not ready. */
  isStopping: () => boolean;
}

/** A running daemon: `serve`, `keeper` or `dispatch`. */
export interface Daemon {
  ready: Readiness;
  /**
   * Describes the work that the daemon skips on purpose, for example because of a hold on
   * collection. Returns undefined when the daemon skips no work.
   */
  note?: () => string | undefined;
  /**
   * Returns the chain's time in Unix milliseconds as last read, or null while that time is unknown.
   * Makes no RPC request.
   */
  chainTime?: () => number | null;
  /** Takes no new work, and resolves when all work in flight is done. */
  stop(): Promise<void>;
}

/** Milliseconds that work in flight has to finish after the first signal. */
const GRACE_MS = 10_000;

/**
 * Runs a daemon until SIGTERM, SIGINT or SIGHUP arrives. The API (`serve`) then still answers
 * requests for the time in SHUTDOWN_DELAY. After that, the daemon has 10 s to stop. A second signal
 * ends the process at once. `load` imports the start function. Returns the exit code. Throws an
 * OperatorError for a wrong configuration, an unusable Postgres or a schema of another version.
 */
export async function runDaemon(
  role: Exclude<ConfigRole, 'admin' | 'reconcile' | 'developer'>,
  envFile: string | undefined,
  load: () => Promise<(resources: DaemonResources) => Promise<Daemon>>,
): Promise<number> {
  const loading = load();
  // If the configuration or Postgres fails first, `loading` is never awaited. Without this handler,
  // a rejection of `loading` would then be unhandled.
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
  takeRejections(health);
  return withResources(role, envFile, { stream: 'stdout', isReported }, async (resources) => {
    const { config, sql } = resources;
    log = resources.log;
    let isStopping = false;
    const signalled = firstSignal(log);
    observeLoops(health);
    const start = await loading;
    const states = { trouble: () => health.trouble(), isStopping: () => isStopping };
    const daemon = await endingHealth(health, start({ ...resources, registry, ...states }));
    const secrets = watchSecrets(resources, registry);
    const works = async () =>
      health.trouble() ??
      (role === 'dispatch' ? secrets.trouble() : undefined) ??
      (await daemon.ready());
    const ready = async () => (isStopping ? 'the process is stopping' : works());
    // The heartbeat gets `works` instead of `ready`. While the process is stopping, `ready` returns
    // a reason although nothing is wrong, and `billing status` would show this reason as a problem.
    const beating = startHeartbeat(role, sql, {
      health,
      ready: works,
      registry,
      chainTime: () => daemon.chainTime?.() ?? null,
    });
    heartbeat = beating.loop;
    const listening = serveMetrics(registry, ready, {
      host: config.metricsHost,
      port: config.metricsPort,
      note: () => daemon.note?.(),
    }).catch(async (error: unknown) => {
      await Promise.all([within(GRACE_MS, daemon.stop()), beating.stop(), secrets.stop()]);
      throw error;
    });
    const metrics = await endingHealth(health, listening);
    const supervisor = supervision();
    const systemdNotifier =
      supervisor &&
      startNotifying(supervisor, ready, (reason) =>
        resources.log.error({ reason }, 'systemd not notified'),
      );
    log.info({ metrics: metrics.url }, `${role} is running`);
    const signal = await signalled;
    isStopping = true;
    await untilClientsLeave(role, signal, resources);
    log.info({ signal }, 'stopping; no new work is taken');
    const [stopped] = await Promise.all([within(GRACE_MS, daemon.stop()), systemdNotifier?.stop()]);
    await Promise.all([metrics.close(), beating.stop(), secrets.stop()]);
    observeLoops(undefined);
    logStopped(log, stopped);
    return 0;
  });
}

/**
 * Awaits a step of the start. If it fails, the daemon's loops find their connections closed, which
 * is not logged.
 */
async function endingHealth<T>(health: Health, step: Promise<T>): Promise<T> {
  try {
    return await step;
  } catch (error) {
    health.ended();
    throw error;
  }
}

/**
 * During an outage of Postgres, promises that no code awaits may reject. These rejections do not
 * end the process. Any other unhandled rejection is thrown and ends the process.
 */
function takeRejections(health: Health): void {
  process.on('unhandledRejection', (error) => {
    if (!health.takes(error)) throw error;
  });
}

/**
 * If the daemon is the API (`serve`), waits for SHUTDOWN_DELAY. In this time the API is not ready
 * but answers requests, so that clients and proxies can change to another process. Other daemons
 * have no clients.
 */
async function untilClientsLeave(
  role: ConfigRole,
  signal: NodeJS.Signals,
  { config: { shutdownDelay }, log }: Resources,
): Promise<void> {
  if (role !== 'serve' || shutdownDelay === 0) return;
  log.info({ signal, shutdownDelay }, 'stopping soon; requests are still answered');
  await delay(shutdownDelay * 1000);
}

function logStopped(log: Log, inTime: boolean): void {
  if (inTime) log.info('stopped');
  else
    log.warn(
      { graceMs: GRACE_MS },
      'stopped with unfinished work; its leases expire and another process takes it over',
    );
}

/**
 * Runs one admin command with Postgres and a log on stderr, and returns its exit code. The first
 * signal ends the command with Interrupted (exit code 129, 130 or 143). With `drains`, the first
 * signal only aborts `signal`, so that the command can stop by itself. The second signal then ends
 * the command. Throws an OperatorError for an unusable configuration, Postgres or schema.
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
 * Runs a command that needs no Postgres. The first signal ends the command with Interrupted. With
 * `drains`, the first signal only aborts the AbortSignal that `work` gets, and the second signal
 * ends the command.
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
  const stop = onEndingSignals((name) => {
    const reason = new Interrupted('Interrupted.', name);
    if (!drains || interrupt.signal.aborted) cut(reason);
    interrupt.abort(reason);
  });
  try {
    return await Promise.race([work(interrupt.signal), interrupted]);
  } finally {
    stop();
  }
}

/**
 * Calls `act` for each SIGINT, SIGTERM and SIGHUP, but not for a SIGHUP after another signal: a
 * terminal that closes and its shell send one each. Returns a function that ends this.
 */
function onEndingSignals(act: (signal: EndingSignal) => void): () => void {
  let isFirst = true;
  const onSignal = (signal: EndingSignal) => {
    if (signal === 'SIGHUP' && !isFirst) return;
    isFirst = false;
    act(signal);
  };
  const signals = Object.keys(ENDING_SIGNALS) as EndingSignal[];
  for (const name of signals) process.on(name, onSignal);
  return () => {
    for (const name of signals) process.off(name, onSignal);
  };
}

/**
 * Awaits `work`, but throws Interrupted with the message `words` as soon as `signal` aborts. A
 * command with `drains` uses this function for steps that a signal may cut short.
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
  // The dispatcher uses neither plans nor payments, so it skips the checks of their configuration.
  const handlesPayments = role === 'serve' || role === 'keeper';
  const name = isCommand ? 'admin' : role;
  const pretty = process[logging.stream].isTTY;
  const log = createLog(name, { level: config.logLevel, pretty, ...logging });
  const { databaseUrl } = required(config, 'databaseUrl');
  return withPostgres(
    databaseUrl,
    {
      max: config.databasePool,
      name: `billing ${name}`,
      ...(!isCommand && {
        planning: role === 'serve' ? 'serve' : 'daemon',
        limits: daemonLimits,
      }),
      durable: handlesPayments,
      ...(isDaemon(role) &&
        config.databaseDirectUrl !== undefined && {
          directUrl: config.databaseDirectUrl,
          pooled: ROLE_SETTINGS[role],
        }),
    },
    async (sql) => {
      const newer = await assertSchema(sql);
      if (newer !== undefined && isDaemon(role))
        log.info({ schema: newer }, 'the schema is that of a newer release, which allows this one');
      if (handlesPayments) await assertInstallation(sql, config);
      return use({ config, log, sql });
    },
  );
}

function isDaemon(role: ConfigRole): role is 'serve' | 'keeper' | 'dispatch' {
  return role === 'serve' || role === 'keeper' || role === 'dispatch';
}

/**
 * Connects to Postgres, checks the database with assertUsable(), runs `use` and disconnects.
 * Without `limits`, the limits of commands apply. Throws an OperatorError when Postgres is
 * unusable, refuses a statement, or is lost while `use` runs.
 */
export async function withPostgres<T>(
  databaseUrl: string,
  { durable, pooled, ...options }: ConnectOptions & UsabilityChecks,
  use: (sql: Sql) => Promise<T>,
): Promise<T> {
  const sql = connect(databaseUrl, { limits: commandLimits, ...options });
  try {
    await assertUsable(sql, databaseUrl, { durable, pooled });
    if (options.directUrl !== undefined) await checkDirect(sql, databaseUrl, options.directUrl);
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

async function checkDirect(sql: Sql, url: string, directUrl: string): Promise<void> {
  const direct = connect(directUrl, { max: 1, name: 'billing start', limits: daemonLimits });
  try {
    await assertDirect({ sql, url }, { sql: direct, url: directUrl });
  } finally {
    await direct.end({ timeout: 1 });
  }
}

/** Milliseconds within which a process must stop after its supervisor, the sandbox, has exited. */
const ORPHANED_MS = 5000;

function firstSignal(log: Log): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false;
    const onSignal = (signal: NodeJS.Signals) => {
      if (isStopping) {
        log.warn({ signal }, 'second signal: exiting at once');
        process.exit(1);
      }
      isStopping = true;
      resolve(signal);
    };
    onEndingSignals(onSignal);
    // The sandbox starts its child processes with an IPC channel. The channel closes when the
    // sandbox exits, and the child process then stops.
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
