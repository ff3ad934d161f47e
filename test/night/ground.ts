// The environment of the night: Postgres and a local chain behind proxies that can cut connections,
// the three daemons, merchants and subscribers.
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../src/chain/clusters.ts';
import { makeDatabaseRoles } from '../../src/daemon/database-roles.ts';
import { migrate } from '../../src/db/postgres/migrate.ts';
import { LOCALNET_MINT } from '../../src/local/chain/genesis.ts';
import { cheat, createSandboxChain, type SandboxChain } from '../../src/local/sandbox/chain.ts';
import { signIn } from '../../src/local/sandbox/client.ts';
import {
  startMerchantServer,
  type MerchantServer,
} from '../../src/local/sandbox/merchant-server.ts';
import { createMerchants, type Merchant } from '../../src/local/sandbox/merchants.ts';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import { seeded } from '../../src/local/sandbox/random.ts';
import { subscribe } from '../../src/local/sandbox/subscribers.ts';
import { supervise, type Supervised } from '../../src/local/sandbox/supervise.ts';
import { bytesOf, walletFromSeed } from '../../src/local/sandbox/wallet.ts';
import { createLog } from '../../src/log.ts';
import { type Proxy, startProxy } from '../fixtures/proxy.ts';
import type { Database, OpenDatabase } from './postgres.ts';

const run = promisify(execFile);
const program = new URL('../../bin/billing.js', import.meta.url).pathname;
const random = seeded(20);
const blockMs = 50;

export const names = ['serve', 'keeper', 'dispatch'] as const;
export type Daemon = (typeof names)[number];

export interface Ground extends Database {
  /** The proxy between the daemons and Postgres. */
  postgresWire: Proxy;
  chain: SandboxChain;
  /** Between the daemons and their first RPC endpoint, their second, and the streams. */
  rpcWires: [Proxy, Proxy, Proxy];
  cheat: (method: string, ...params: unknown[]) => Promise<void>;
  keeper: string;
  daemons: Record<Daemon, Supervised>;
  /** The variables that all daemons have. */
  env: Readonly<Record<string, string>>;
  /** Address at which each daemon serves /readyz and /metrics. */
  metricsUrls: Record<Daemon, string>;
  /**
   * Stops daemons and starts them again, with these variables besides from then on; `meanwhile`
   * while they are stopped.
   */
  restart: (
    names: readonly Daemon[],
    change?: { env?: Record<string, string>; meanwhile?: () => Promise<unknown> },
  ) => Promise<void>;
  /** Starts another keeper with the same wallet, at the Postgres of this port. */
  startSecondKeeper: (postgresPort: number) => Promise<Supervised>;
  /** Runs a command as an operator does, straight to Postgres. */
  command: (...args: string[]) => Promise<{ code: number; stdout: string }>;
  /** The same over the daemons' wires. */
  commandOverWires: (...args: string[]) => Promise<{ code: number; stdout: string }>;
  merchants: Merchant[];
  server: MerchantServer;
  subscriptions: number;
  stop(): Promise<void>;
}

/**
 * Starts all of it on the Postgres that `openDatabase` opens; resolves when `subscribers` have
 * subscribed and paid once.
 */
export async function startGround<D extends Database>(
  subscribers: number,
  openDatabase: OpenDatabase<D>,
): Promise<Ground & D> {
  const closers: (() => unknown)[] = [];
  const stop = async () => {
    for (const close of closers.splice(0).reverse()) await close();
  };
  try {
    const onStop = (close: () => unknown) => closers.push(close);
    return { ...(await open(subscribers, openDatabase, onStop)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function open<D extends Database>(
  count: number,
  openDatabase: OpenDatabase<D>,
  onStop: (close: () => unknown) => void,
): Promise<Omit<Ground, 'stop'> & D> {
  const directory = await mkdtemp(join(tmpdir(), 'billing-night-'));
  onStop(() => rm(directory, { recursive: true, force: true }));
  await chmod(directory, 0o711);
  await mkdir(join(directory, 'logs'));
  const t = { teardown: onStop } as unknown as Pick<Test, 'teardown'>;
  const [rpcPort = 0, wsPort = 0, lagPort = 0, apiPort = 0, ...ports] = await freePorts(8);
  const rpcUrl = `http://127.0.0.1:${rpcPort}`;
  const chainArgs = ['--port', rpcPort, '--ws-port', wsPort, '--lag-port', lagPort];
  const chainProcess = supervise({
    name: 'localnet',
    args: ['localnet', ...chainArgs, '--block-ms', blockMs, '--json'].map(String),
    env: {},
    logFile: join(directory, 'logs/localnet.log'),
    readyUrl: `${rpcUrl}/health`,
  });
  onStop(() => chainProcess.stop());
  const database = await openDatabase(join(directory, 'postgres'), onStop);
  const { url: databaseUrl, sql } = database;
  const { files } = await makeDatabaseRoles(sql(), { databaseUrl }, directory);
  await migrate(sql());
  await chainProcess.ready();

  const postgresWire = await startProxy(t, Number(new URL(databaseUrl).port));
  const rpcWires: Ground['rpcWires'] = [
    await startProxy(t, rpcPort),
    await startProxy(t, lagPort),
    await startProxy(t, wsPort),
  ];
  const at = (url: string, port: number) => {
    const moved = new URL(url);
    moved.port = String(port);
    return moved.href;
  };
  const urlOf = async (name: Daemon, port: number) => at(await readFile(files[name], 'utf8'), port);
  const keeper = walletFromSeed(random.seed32());
  const keypair = join(directory, 'keeper.json');
  await writeFile(keypair, JSON.stringify([...bytesOf(keeper)]), { mode: 0o600 });
  const common = {
    SOLANA_RPC_URL: rpcWires
      .slice(0, 2)
      .map(({ port }) => `http://127.0.0.1:${port}`)
      .join(','),
    SOLANA_WS_URL: `ws://127.0.0.1:${rpcWires[2].port},ws://127.0.0.1:${rpcWires[2].port}`,
    SOLANA_CLUSTER: 'localnet',
    USDC_MINT: LOCALNET_MINT,
    KEEPER_KEYPAIR: keypair,
    COLLECTION_WINDOW_SECONDS: '0',
    KEEPER_ADDRESS: keeper.address,
    PLATFORM_TREASURY: walletFromSeed(random.seed32()).address,
    PLAN_MINIMUM_AMOUNT: '1',
    JWT_SECRET: random.seed32().toString('base64'),
    ENCRYPTION_KEY: random.seed32().toString('base64'),
    PORT: String(apiPort),
    TRUST_PROXY: '127.0.0.1',
    DATABASE_POOL: '6',
  };
  await cheat(rpcUrl, 'requestAirdrop', [keeper.address, 100_000_000_000]);
  await cheat(rpcUrl, 'surfnet_setTokenAccount', [
    common.PLATFORM_TREASURY,
    LOCALNET_MINT,
    { amount: 0 },
  ]);
  const metricsUrls = Object.fromEntries(
    names.map((name, index) => [name, `http://127.0.0.1:${ports[index] ?? 0}`]),
  ) as Ground['metricsUrls'];
  const databaseUrls = Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await urlOf(name, postgresWire.port)])),
  ) as Record<Daemon, string>;
  const start = (name: Daemon, logName: string, metricsUrl: string, url: string) =>
    supervise({
      name: logName,
      args: [name],
      env: { ...common, DATABASE_URL: url, METRICS_PORT: new URL(metricsUrl).port },
      logFile: join(directory, 'logs', `${logName}.log`),
      readyUrl: `${metricsUrl}/readyz`,
    });
  const startDaemon = (name: Daemon) => start(name, name, metricsUrls[name], databaseUrls[name]);
  const daemons = Object.fromEntries(
    names.map((name) => [name, startDaemon(name)]),
  ) as Ground['daemons'];
  onStop(() => Promise.all(names.map((name) => daemons[name].stop())));
  await Promise.all(names.map((name) => daemons[name].ready()));

  const log = createLog('night', { level: 'silent', pretty: false, stream: 'stderr' });
  const chain = createSandboxChain(rpcUrl, LOCALNET_MINT, log);
  onStop(() => chain.close());
  const server = await startMerchantServer();
  onStop(() => server.close());
  const apiUrl = `http://127.0.0.1:${apiPort}`;
  const merchants = await createMerchants(apiUrl, chain, server, random);
  const stage = { apiUrl, chain, programId: SUBSCRIPTIONS_PROGRAM, mint: LOCALNET_MINT };
  await Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const wallet = walletFromSeed(random.seed32());
      await chain.fund(wallet.address, { lamports: 1_000_000_000n, usdc: 1_000_000_000_000n });
      const token = await signIn(apiUrl, wallet, 'subscriber');
      const merchant = merchants[n % merchants.length] as Merchant;
      const role = 'steady' as const;
      const unknown = { subscriptionId: '', subscriptionPda: '' };
      await subscribe(stage, { wallet, token, merchant, role, at: 0, ...unknown });
    }),
  );
  return {
    ...database,
    postgresWire,
    chain,
    rpcWires,
    cheat: (method, ...params) => cheat(rpcUrl, method, params),
    keeper: keeper.address,
    daemons,
    env: common,
    metricsUrls,
    async restart(chosen, { env = {}, meanwhile } = {}) {
      await Promise.all(chosen.map((name) => daemons[name].stop()));
      Object.assign(common, env);
      await meanwhile?.();
      for (const name of chosen) daemons[name] = startDaemon(name);
    },
    async startSecondKeeper(postgresPort) {
      const metricsUrl = `http://127.0.0.1:${ports[names.length] ?? 0}`;
      const url = await urlOf('keeper', postgresPort);
      const second = start('keeper', 'second keeper', metricsUrl, url);
      onStop(() => second.stop());
      await second.ready();
      return second;
    },
    command: (...args) => command(args, { ...common, DATABASE_URL: databaseUrl }),
    commandOverWires: (...args) =>
      command(args, { ...common, DATABASE_URL: at(databaseUrl, postgresWire.port) }),
    merchants,
    server,
    subscriptions: count,
  };
}

/** Runs it to its end, at most for two minutes: a repair waits for the leases of keepers. */
function command(
  args: string[],
  env: Record<string, string>,
): Promise<{ code: number; stdout: string }> {
  return run(process.execPath, [program, ...args], { env, timeout: 120_000 }).then(
    ({ stdout }) => ({ code: 0, stdout }),
    (error: unknown) => {
      const { code, stdout = '' } = error as { code?: unknown; stdout?: string };
      return { code: typeof code === 'number' ? code : 1, stdout };
    },
  );
}
