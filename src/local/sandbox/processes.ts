// Runs the processes of the sandbox: Postgres, the local chain, and the daemons serve, keeper and
// dispatch. A process that was killed is started again.
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pRetry from 'p-retry';
import { makeDatabaseRoles } from '../../daemon/database-roles.ts';
import { UnreleasedSchema } from '../../db/postgres/applied-migrations.ts';
import { connect, type Sql } from '../../db/postgres/connect.ts';
import { migrate } from '../../db/postgres/migrate.ts';
import { OperatorError } from '../../errors.ts';
import { makeDataDir } from '../chain/disk/data-dir.ts';
import { cheat } from './chain.ts';
import { freePorts } from './ports.ts';
import { startEmbeddedPostgres, type EmbeddedPostgres } from './postgres.ts';
import { supervise, type Supervised } from './supervise.ts';
import { bytesOf, type Wallet, walletFromSeed } from './wallet.ts';

/** The secrets of a sandbox, stored in the sandbox's data directory. */
interface Identity {
  keeperSeed: string;
  treasurySeed: string;
  jwtSecret: string;
  encryptionKey: string;
  /**
   * Number of times that the scenario was played on this data. Each run of the scenario uses other
   * wallets.
   */
  plays: number;
}

export interface Processes {
  apiUrl: string;
  rpcUrl: string;
  wsUrl: string;
  databaseUrl: string;
  encryptionKey: string;
  metricsUrls: Record<'keeper' | 'dispatch' | 'serve', string>;
  keeper: string;
  treasury: string;
  mint: string;
  /** Number of times that the scenario was played on this data before this start. */
  plays: number;
  sql: Sql;
  daemons: Record<'serve' | 'keeper' | 'dispatch', Supervised>;
  /** Kills Postgres with kill -9. The sandbox then starts Postgres again on the same data. */
  killPostgres(): void;
  logDirectory: string;
  stop(): Promise<void>;
}

interface ProcessOptions {
  /**
   * When this signal aborts, startProcesses stops all processes that it started and throws the
   * signal's reason.
   */
  signal: AbortSignal;
  dataDir?: string | undefined;
  blockMs: number;
  mint: string;
  /** Number of hours by which a new chain's clock starts behind the current time. */
  hoursAgo: number;
}

/**
 * Starts all processes. Resolves when Postgres and the chain respond. The directory `dataDir`
 * stores the sandbox's secrets, Postgres's data and the chain. If `dataDir` is missing, the secrets
 * and Postgres's data are stored in a temporary directory, which stop() removes, and the chain is
 * only in memory.
 */
export async function startProcesses(options: ProcessOptions): Promise<Processes> {
  const closers: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const close of closers.splice(0).reverse()) await close();
  };
  try {
    return { ...(await open(options, (close) => closers.push(close))), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function open(
  options: ProcessOptions,
  onStop: (close: () => Promise<unknown>) => void,
): Promise<Omit<Processes, 'stop'>> {
  const { signal, mint } = options;
  const home = await prepare(options.dataDir, onStop);
  const { directory, identity, keeper, treasury, logDirectory } = home;
  const [apiPort = 0, rpcPort = 0, wsPort = 0, ...metricsPorts] = await freePorts(6);
  const [rpcUrl, wsUrl] = [at(rpcPort), `ws://127.0.0.1:${wsPort}`];
  const chain = startChain(options, home, { rpcPort, wsPort });
  onStop(() => chain.stop());
  const postgres = await keepPostgres(join(directory, 'postgres'));
  onStop(postgres.stop);
  signal.throwIfAborted();
  const sql = connect(postgres.url, { max: 4, name: 'billing sandbox' });
  onStop(() => sql.end({ timeout: 1 }));
  // Each daemon connects with its own database role, as docs/operators.md describes.
  const { files } = await makeDatabaseRoles(sql, { databaseUrl: postgres.url }, directory);
  await migrateData(sql, directory);
  await chain.ready(signal);
  // The faucet creates the treasury's token account. The keeper refuses to start without this
  // account.
  await cheat(rpcUrl, 'localnet_faucet', [treasury.address, '1']);

  const apiUrl = at(apiPort);
  const [serve = 0, collecting = 0, dispatching = 0] = metricsPorts;
  const metricsUrls = { serve: at(serve), keeper: at(collecting), dispatch: at(dispatching) };
  const settings = {
    ...settingsOf(home, mint),
    SOLANA_RPC_URL: rpcUrl,
    SOLANA_WS_URL: wsUrl,
    // No rate limit (0), because the chain runs on this machine.
    SOLANA_SERVE_RATE: '0',
    PORT: String(apiPort),
  };
  const start = (name: keyof typeof metricsUrls, readyAt: string) => {
    const processSettings = {
      DATABASE_URL_FILE: files[name],
      METRICS_PORT: new URL(metricsUrls[name]).port,
    };
    return supervised(home, name, [name], { ...settings, ...processSettings }, `${readyAt}/readyz`);
  };
  const daemons = {
    serve: start('serve', apiUrl),
    keeper: start('keeper', metricsUrls.keeper),
    dispatch: start('dispatch', metricsUrls.dispatch),
  };
  onStop(() => Promise.all(Object.values(daemons).map((each) => each.stop())));
  return {
    apiUrl,
    rpcUrl,
    wsUrl,
    databaseUrl: postgres.url,
    encryptionKey: identity.encryptionKey,
    metricsUrls,
    keeper: keeper.address,
    treasury: treasury.address,
    mint,
    plays: identity.plays,
    sql,
    daemons,
    killPostgres: postgres.kill,
    logDirectory,
  };
}

/** The sandbox's data directory, its log directory, and the secrets in the data directory. */
interface Home {
  directory: string;
  logDirectory: string;
  identity: Identity;
  keeper: Wallet;
  treasury: Wallet;
  keypairFile: string;
}

async function prepare(
  dataDir: string | undefined,
  onStop: (close: () => Promise<unknown>) => void,
): Promise<Home> {
  const directory = dataDir ?? (await mkdtemp(join(tmpdir(), 'billing-sandbox-')));
  if (dataDir === undefined) onStop(() => rm(directory, { recursive: true, force: true }));
  makeDataDir(directory);
  // Postgres may run as another user than this process. That user must be able to enter the
  // directory.
  await chmod(directory, 0o711);
  const logDirectory = join(directory, 'logs');
  await mkdir(logDirectory, { recursive: true });
  const identity = await loadIdentity(join(directory, 'identity.json'));
  const keeper = walletFromSeed(Buffer.from(identity.keeperSeed, 'hex'));
  const treasury = walletFromSeed(Buffer.from(identity.treasurySeed, 'hex'));
  const keypairFile = join(directory, 'keeper.json');
  await writeFile(keypairFile, JSON.stringify([...bytesOf(keeper)]), { mode: 0o600 });
  return { directory, logDirectory, identity, keeper, treasury, keypairFile };
}

/** Migrates the database. An error about old data has the command that empties the directory. */
async function migrateData(sql: Sql, directory: string): Promise<void> {
  try {
    await migrate(sql);
  } catch (error) {
    if (!(error instanceof UnreleasedSchema)) throw error;
    const remedy = `"rm -r ${directory}" empties the sandbox.`;
    throw new OperatorError(`${error.message} ${remedy}`, error.exitCode, { cause: error });
  }
}

/** The environment variables that the daemons serve, keeper and dispatch share. */
function settingsOf({ identity, keeper, treasury, keypairFile }: Home, mint: string) {
  return {
    SOLANA_CLUSTER: 'localnet',
    USDC_MINT: mint,
    KEEPER_KEYPAIR: keypairFile,
    KEEPER_ADDRESS: keeper.address,
    PLATFORM_TREASURY: treasury.address,
    PLAN_MINIMUM_AMOUNT: '1',
    // With 0, the keeper collects a payment as soon as it is due, and does not wait for other
    // payments.
    COLLECTION_WINDOW_SECONDS: '0',
    SPONSOR_LAMPORTS_PER_DAY: '10000000000',
    JWT_SECRET: identity.jwtSecret,
    ENCRYPTION_KEY: identity.encryptionKey,
    // The sandbox's API client sends each wallet's IP address as X-Forwarded-For. The service uses
    // this header only from a trusted proxy.
    TRUST_PROXY: '127.0.0.1',
  };
}

function startChain(
  { dataDir, blockMs, hoursAgo }: ProcessOptions,
  home: Home,
  { rpcPort, wsPort }: { rpcPort: number; wsPort: number },
): Supervised {
  const args = ['--port', rpcPort, '--ws-port', wsPort, '--block-ms', blockMs, '--json'];
  args.push('--hours-ago', hoursAgo);
  // Without `dataDir` the local chain is only in memory.
  if (dataDir !== undefined) args.push('--data-dir', join(home.directory, 'chain'));
  return supervised(
    home,
    'localnet',
    ['localnet', ...args.map(String)],
    {},
    `${at(rpcPort)}/health`,
  );
}

function supervised(
  { logDirectory }: Home,
  name: string,
  args: string[],
  env: Record<string, string>,
  readyUrl: string,
): Supervised {
  const logFile = join(logDirectory, `${name}.log`);
  // The child process gets the same Node options as this process, as with fork().
  return supervise({ name, args, nodeArgs: process.execArgv, env, logFile, readyUrl });
}

/** Resolves when the daemons serve, keeper and dispatch are ready. */
export async function allReady(
  { daemons }: Pick<Processes, 'daemons'>,
  signal?: AbortSignal,
): Promise<void> {
  await Promise.all(Object.values(daemons).map((daemon) => daemon.ready(signal)));
}

/**
 * Starts Postgres. When Postgres was killed, starts it again on the same port and data, as systemd
 * does for an operator.
 */
export async function keepPostgres(
  dataDir: string,
): Promise<{ url: string; kill: () => void; stop: () => Promise<void> }> {
  let server: EmbeddedPostgres = await startEmbeddedPostgres({ dataDir });
  let stopping = false;
  const port = Number(new URL(server.url).port);
  let guarding: Promise<void> = Promise.resolve();
  const guard = () => {
    guarding = server.exited.then(async () => {
      if (isStopping()) return;
      // A new server cannot start while child processes of the killed server still hold its shared
      // memory. The start is therefore retried.
      const restart = () => startEmbeddedPostgres({ dataDir, port });
      try {
        server = await pRetry(restart, {
          retries: 20,
          minTimeout: 50,
          maxTimeout: 1000,
          shouldRetry: () => !isStopping(),
        });
      } catch (error) {
        if (isStopping()) return;
        throw error;
      }
      if (isStopping()) await server.stop();
      else guard();
    });
  };
  const isStopping = () => stopping;
  guard();
  return {
    url: server.url,
    kill() {
      server.kill();
    },
    async stop() {
      stopping = true;
      await server.stop();
      await guarding;
    },
  };
}

async function loadIdentity(path: string): Promise<Identity> {
  const stored = await readFile(path, 'utf8').then(
    (text) => JSON.parse(text) as Identity,
    () => undefined,
  );
  const identity = stored ?? {
    keeperSeed: randomBytes(32).toString('hex'),
    treasurySeed: randomBytes(32).toString('hex'),
    jwtSecret: randomBytes(32).toString('base64'),
    encryptionKey: randomBytes(32).toString('base64'),
    plays: 0,
  };
  await writeFile(path, JSON.stringify({ ...identity, plays: identity.plays + 1 }), {
    mode: 0o600,
  });
  return identity;
}

const at = (port: number) => `http://127.0.0.1:${port}`;
