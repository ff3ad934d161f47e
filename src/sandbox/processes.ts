// Everything that runs: Postgres, the local chain, serve, keeper and dispatch, each a process of its own that can be killed and comes back.
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pRetry from 'p-retry';
import { connect, type Sql } from '../db/connect.ts';
import { migrate } from '../db/migrate.ts';
import { makeDataDir } from '../localnet/dataDir.ts';
import { freePorts } from './ports.ts';
import { bytesOf, walletFromSeed } from './wallet.ts';
import { startEmbeddedPostgres, type EmbeddedPostgres } from './postgres.ts';
import { supervise, type Supervised } from './supervise.ts';

/** Made once and kept with the data. */
interface Identity {
  keeperSeed: string;
  treasurySeed: string;
  jwtSecret: string;
  encryptionKey: string;
  /** Scenarios played on this data, so that each has wallets of its own. */
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
  /** How many scenarios this data had seen before. */
  plays: number;
  sql: Sql;
  daemons: Record<'serve' | 'keeper' | 'dispatch', Supervised>;
  /** kill -9 of Postgres; it is started again on the same data. */
  killPostgres(): void;
  logDirectory: string;
  stop(): Promise<void>;
}

interface ProcessOptions {
  /** Aborted: what has been started is stopped, and startProcesses throws the signal's reason. */
  signal: AbortSignal;
  dataDir?: string | undefined;
  blockMs: number;
  mint: string;
}

/** Starts all of it and resolves when Postgres and the chain answer. `dataDir` keeps Postgres, the chain and the keys; a temporary one is removed by stop(). */
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
  { dataDir, blockMs, mint, signal }: ProcessOptions,
  onStop: (close: () => Promise<unknown>) => void,
): Promise<Omit<Processes, 'stop'>> {
  const directory = dataDir ?? (await mkdtemp(join(tmpdir(), 'billing-sandbox-')));
  if (dataDir === undefined) onStop(() => rm(directory, { recursive: true, force: true }));
  makeDataDir(directory);
  // Postgres may run as another user, who must be able to pass through.
  await chmod(directory, 0o711);
  const logDirectory = join(directory, 'logs');
  await mkdir(logDirectory, { recursive: true });
  const identity = await loadIdentity(join(directory, 'identity.json'));
  const keeper = walletFromSeed(Buffer.from(identity.keeperSeed, 'hex'));
  const treasury = walletFromSeed(Buffer.from(identity.treasurySeed, 'hex'));
  const keypairFile = join(directory, 'keeper.json');
  await writeFile(keypairFile, JSON.stringify([...bytesOf(keeper)]), { mode: 0o600 });

  const [apiPort = 0, rpcPort = 0, wsPort = 0, serveMetrics = 0, keeperMetrics = 0, dispatchMetrics = 0] = await freePorts(6);
  const [rpcUrl, wsUrl] = [`http://127.0.0.1:${rpcPort}`, `ws://127.0.0.1:${wsPort}`];
  const daemon = (name: string, args: string[], env: Record<string, string>, readyUrl: string) => {
    // What this Node was started with holds for all that it starts, as with fork().
    return supervise({ name, args, nodeArgs: process.execArgv, env, logFile: join(logDirectory, `${name}.log`), readyUrl });
  };

  const chainArgs = ['--port', rpcPort, '--ws-port', wsPort, '--block-ms', blockMs, '--json'];
  // Writing every block down is work that a chain nobody keeps can do without.
  if (dataDir !== undefined) chainArgs.push('--data-dir', join(directory, 'chain'));
  const chain = daemon('localnet', ['localnet', ...chainArgs.map(String)], {}, `${rpcUrl}/health`);
  onStop(() => chain.stop());
  const postgres = await keepPostgres(join(directory, 'postgres'));
  onStop(postgres.stop);
  signal.throwIfAborted();
  const sql = connect(postgres.url, { max: 4, name: 'billing sandbox' });
  onStop(() => sql.end({ timeout: 1 }));
  await migrate(sql);
  await chain.ready(signal);

  const apiUrl = at(apiPort);
  const metricsUrls = { serve: at(serveMetrics), keeper: at(keeperMetrics), dispatch: at(dispatchMetrics) };
  const common = {
    DATABASE_URL: postgres.url,
    SOLANA_RPC_URL: rpcUrl,
    SOLANA_WS_URL: wsUrl,
    SOLANA_CLUSTER: 'localnet',
    USDC_MINT: mint,
    KEEPER_KEYPAIR: keypairFile,
    KEEPER_ADDRESS: keeper.address,
    PLATFORM_TREASURY: treasury.address,
    JWT_SECRET: identity.jwtSecret,
    ENCRYPTION_KEY: identity.encryptionKey,
    PORT: String(apiPort),
    // The sandbox stands in for the proxy in front of many clients.
    TRUST_PROXY: '127.0.0.1',
  };
  const daemons = {
    serve: daemon('serve', ['serve'], { ...common, METRICS_PORT: String(serveMetrics) }, `${apiUrl}/readyz`),
    keeper: daemon('keeper', ['keeper'], { ...common, METRICS_PORT: String(keeperMetrics) }, `${metricsUrls.keeper}/readyz`),
    dispatch: daemon('dispatch', ['dispatch'], { ...common, METRICS_PORT: String(dispatchMetrics) }, `${metricsUrls.dispatch}/readyz`),
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

/** Resolves when serve, keeper and dispatch can do their work. */
export async function allReady({ daemons }: Pick<Processes, 'daemons'>, signal?: AbortSignal): Promise<void> {
  await Promise.all(Object.values(daemons).map((daemon) => daemon.ready(signal)));
}

/** Postgres that comes back after a kill, on the same port and data, as systemd would bring it back. */
export async function keepPostgres(dataDir: string): Promise<{ url: string; kill: () => void; stop: () => Promise<void> }> {
  let server: EmbeddedPostgres = await startEmbeddedPostgres({ dataDir });
  let stopping = false;
  const port = Number(new URL(server.url).port);
  let guarding: Promise<void> = Promise.resolve();
  const guard = () => {
    guarding = server.exited.then(async () => {
      // The killed server's children may hold its shared memory for a moment: the next start then fails, and the one after does not.
      if (isStopping()) return;
      const restart = () => startEmbeddedPostgres({ dataDir, port });
      try {
        server = await pRetry(restart, { retries: 20, minTimeout: 50, maxTimeout: 1000, shouldRetry: () => !isStopping() });
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
  const kept = await readFile(path, 'utf8').then(
    (text) => JSON.parse(text) as Identity,
    () => undefined,
  );
  const identity = kept ?? {
    keeperSeed: randomBytes(32).toString('hex'),
    treasurySeed: randomBytes(32).toString('hex'),
    jwtSecret: randomBytes(32).toString('base64'),
    encryptionKey: randomBytes(32).toString('base64'),
    plays: 0,
  };
  await writeFile(path, JSON.stringify({ ...identity, plays: identity.plays + 1 }), { mode: 0o600 });
  return identity;
}

const at = (port: number) => `http://127.0.0.1:${port}`;
