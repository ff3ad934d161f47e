// The local chain, two machines with serve, keeper and dispatch each, merchants and subscribers.
import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SUBSCRIPTIONS_PROGRAM } from '../../src/chain/clusters.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { each } from '../../src/each.ts';
import { LOCALNET_MINT } from '../../src/local/chain/genesis.ts';
import { cheat, createSandboxChain, type SandboxChain } from '../../src/local/sandbox/chain.ts';
import { signIn } from '../../src/local/sandbox/client.ts';
import {
  type MerchantServer,
  startMerchantServer,
} from '../../src/local/sandbox/merchant-server.ts';
import { createMerchants, type Merchant, PERIOD_HOURS } from '../../src/local/sandbox/merchants.ts';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import { seeded } from '../../src/local/sandbox/random.ts';
import { subscribe } from '../../src/local/sandbox/subscribers.ts';
import { supervise, type Supervised } from '../../src/local/sandbox/supervise.ts';
import { bytesOf, walletFromSeed } from '../../src/local/sandbox/wallet.ts';
import { createLog } from '../../src/log.ts';
import type { Database, OnStop } from './cluster.ts';
import { makeReleases, type Releases, type ReleaseSettings } from './releases.ts';

const run = promisify(execFile);
const AT_ONCE = 24;
const MAX_GROUPS = 20;
const MACHINES = ['a', 'b'] as const;

export const KINDS = ['serve', 'keeper', 'dispatch'] as const;
export type Kind = (typeof KINDS)[number];

/** A machine with one daemon of each kind. */
export interface Machine {
  apiUrl: string;
  metricsUrls: Record<Kind, string>;
  /** Stops a daemon and starts it again, of this release and with these variables from then on. */
  restart(kind: Kind, change?: { program?: string; databaseUrl?: string }): Promise<void>;
  stop(kind: Kind): Promise<void>;
}

export interface Ground<C extends Database> {
  cluster: C;
  chain: SandboxChain;
  keeper: string;
  treasury: string;
  machines: [Machine, Machine];
  releases: Releases;
  merchants: Merchant[];
  subscribers: number;
  /** Groups of subscriptions that fall due together. */
  groups: number;
  server: MerchantServer;
  /** Runs `billing` as an operator does. Throws an Error with what it printed when it fails. */
  command: (args: string[], program?: string) => Promise<string>;
}

/** Seconds from a group's due time to the due time of the next group. */
export const stepSeconds = (groups: number): bigint =>
  BigInt(Math.ceil((PERIOD_HOURS * 3600) / groups));

export interface Settings extends ReleaseSettings {
  subscribers: number;
  blockMs: number;
  /** Adds rows before the daemons start. */
  fill?: (sql: Sql) => Promise<void>;
}

export type OpenCluster<C extends Database> = (directory: string, onStop: OnStop) => Promise<C>;

/** Starts all of it; resolves when everybody has subscribed. */
export async function startGround<C extends Database>(
  openCluster: OpenCluster<C>,
  { subscribers, blockMs, fill, ...release }: Settings,
  onStop: OnStop,
): Promise<Ground<C>> {
  const directory = await mkdtemp(join(tmpdir(), 'billing-failover-'));
  onStop(async () => {
    if (process.env.KEEP_DATA === undefined) await rm(directory, { recursive: true, force: true });
    else console.error(`the logs are in ${directory}`);
  });
  await chmod(directory, 0o711);
  const [rpcPort = 0, wsPort = 0] = await freePorts(2);
  const rpcUrl = `http://127.0.0.1:${rpcPort}`;
  const ports = ['--port', String(rpcPort), '--ws-port', String(wsPort)];
  const localnet = supervise({
    name: 'localnet',
    args: ['localnet', ...ports, '--block-ms', String(blockMs), '--json'],
    env: {},
    logFile: join(directory, 'localnet.log'),
    readyUrl: `${rpcUrl}/health`,
  });
  onStop(() => localnet.stop());
  const cluster = await openCluster(join(directory, 'postgres'), onStop);
  const releases = await makeReleases(join(directory, 'releases'), release);
  const random = seeded(34);
  const keeper = walletFromSeed(random.seed32());
  const treasury = walletFromSeed(random.seed32()).address;
  const keypair = join(directory, 'keeper.json');
  await writeFile(keypair, JSON.stringify([...bytesOf(keeper)]), { mode: 0o600 });
  const env = {
    SOLANA_RPC_URL: rpcUrl,
    SOLANA_WS_URL: `ws://127.0.0.1:${wsPort}`,
    SOLANA_CLUSTER: 'localnet',
    USDC_MINT: LOCALNET_MINT,
    KEEPER_KEYPAIR: keypair,
    KEEPER_ADDRESS: keeper.address,
    COLLECTION_WINDOW_SECONDS: '0',
    PLATFORM_TREASURY: treasury,
    PLAN_MINIMUM_AMOUNT: '1',
    JWT_SECRET: random.seed32().toString('base64'),
    ENCRYPTION_KEY: random.seed32().toString('base64'),
    // The local chain is no provider with limits.
    SOLANA_RPC_RATE: '1000',
    SOLANA_SEND_RATE: '1000',
    SOLANA_SERVE_RATE: '1000',
    TRUST_PROXY: '127.0.0.1',
    DATABASE_POOL: '6',
  };
  const command = async (args: string[], program = releases.old) => {
    const ran = run(process.execPath, [program, ...args], {
      env: { ...env, DATABASE_URL: cluster.url },
    });
    return await ran.then(
      ({ stdout }) => stdout,
      (error: unknown) => {
        const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
        throw new Error(`billing ${args.join(' ')}: ${stdout}${stderr}`, { cause: error });
      },
    );
  };
  await command(['migrate', '--roles', directory]);
  await fill?.(cluster.sql());
  await localnet.ready();
  await cheat(rpcUrl, 'requestAirdrop', [keeper.address, 1_000_000_000_000]);
  await cheat(rpcUrl, 'surfnet_setTokenAccount', [treasury, LOCALNET_MINT, { amount: 0 }]);
  const machines = await startMachines(directory, releases.old, env, onStop);

  const log = createLog('failover', { level: 'silent', pretty: false, stream: 'stderr' });
  const chain = createSandboxChain(rpcUrl, LOCALNET_MINT, log);
  onStop(() => chain.close());
  const server = await startMerchantServer();
  onStop(() => server.close());
  const { apiUrl } = machines[0];
  const merchants = await createMerchants(apiUrl, chain, server, random);
  await cluster.sql()`update merchants set tier = 'pro'`;
  const stage = { apiUrl, chain, programId: SUBSCRIPTIONS_PROGRAM, mint: LOCALNET_MINT };
  const wallets = Array.from({ length: subscribers }, () => walletFromSeed(random.seed32()));
  const tokens = new Map<string, string>();
  await each(wallets, AT_ONCE, async (wallet) => {
    await chain.fund(wallet.address, { lamports: 1_000_000_000n, usdc: 1_000_000_000_000n });
    tokens.set(wallet.address, await signIn(apiUrl, wallet, 'subscriber'));
  });
  // A group after the other, so that later they fall due one after the other.
  const groups = Math.min(MAX_GROUPS, subscribers);
  for (let group = 0; group < groups; group += 1) {
    const [from, to] = [group, group + 1].map((n) => Math.floor((subscribers * n) / groups));
    if (group > 0) await chain.travelTo((await chain.now()) + stepSeconds(groups));
    await each([...wallets.entries()].slice(from, to), AT_ONCE, async ([n, wallet]) => {
      const merchant = merchants[n % merchants.length] as Merchant;
      const token = tokens.get(wallet.address) ?? '';
      const unknown = { subscriptionId: '', subscriptionPda: '' };
      await subscribe(stage, { wallet, token, merchant, role: 'steady', at: 0, ...unknown });
    });
  }
  return {
    cluster,
    chain,
    keeper: keeper.address,
    treasury,
    machines,
    releases,
    merchants,
    subscribers,
    groups,
    server,
    command,
  };
}

async function startMachines(
  directory: string,
  program: string,
  common: Record<string, string>,
  onStop: OnStop,
): Promise<[Machine, Machine]> {
  await mkdir(join(directory, 'logs'));
  const ports = await freePorts(8);
  const started = MACHINES.map(async (name, index) => {
    const [apiPort, ...metricsPorts] = ports.slice(index * 4) as [number, ...number[]];
    const metricsUrls = Object.fromEntries(
      KINDS.map((kind, n) => [kind, `http://127.0.0.1:${metricsPorts[n] ?? 0}`]),
    ) as Machine['metricsUrls'];
    const running: Partial<Record<Kind, Supervised>> = {};
    const start = async (kind: Kind, change: Parameters<Machine['restart']>[1] = {}) => {
      const url =
        change.databaseUrl ?? (await readFile(join(directory, `${kind}_database_url`), 'utf8'));
      running[kind] = supervise({
        name: `${kind}-${name}`,
        args: [kind],
        program: change.program ?? program,
        env: {
          ...common,
          DATABASE_URL: url,
          PORT: String(apiPort),
          METRICS_PORT: new URL(metricsUrls[kind]).port,
        },
        logFile: join(directory, 'logs', `${kind}-${name}.log`),
        readyUrl: `${metricsUrls[kind]}/readyz`,
      });
    };
    for (const kind of KINDS) await start(kind);
    onStop(() => Promise.all(Object.values(running).map((daemon) => daemon.stop())));
    await Promise.all(Object.values(running).map((daemon) => daemon.ready()));
    return {
      apiUrl: `http://127.0.0.1:${apiPort}`,
      metricsUrls,
      async restart(kind, change) {
        await running[kind]?.stop();
        await start(kind, change);
        await running[kind]?.ready();
      },
      async stop(kind) {
        await running[kind]?.stop();
      },
    } satisfies Machine;
  });
  return (await Promise.all(started)) as [Machine, Machine];
}
