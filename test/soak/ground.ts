// The environment of the soak: a durable Postgres, the local chain with a second node that can lag,
// and keepers, each a process that is restarted when it dies.
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createRpc } from '../../src/chain/rpc/client.ts';
import type { Rpc } from '../../src/chain/rpc/rpc.ts';
import { connect, type Sql } from '../../src/db/postgres/connect.ts';
import { migrate } from '../../src/db/postgres/migrate.ts';
import { LOCALNET_MINT } from '../../src/local/chain/genesis.ts';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import { keepPostgres } from '../../src/local/sandbox/processes.ts';
import type { Random } from '../../src/local/sandbox/random.ts';
import { supervise, type Supervised } from '../../src/local/sandbox/supervise.ts';
import { bytesOf, walletFromSeed, type Wallet } from '../../src/local/sandbox/wallet.ts';
import { createLog } from '../../src/log.ts';
import type { Asked } from '../fixtures/ends.ts';
import { startPgBouncer } from '../fixtures/pgbouncer.ts';
import { type PostgresPair, startPostgresPair } from '../fixtures/postgres-pair.ts';
import { asRole, makeTestRoles } from '../fixtures/postgres.ts';
import type { PublishedPlan } from './cast.ts';
import { type BadNodes, startBadNodes } from './stranger.ts';
import type { Refunded } from './terms.ts';

const BLOCK_MS = 25;
/**
 * With a standby: a blockhash lives longer than the keepers' loops take that wait after a failover.
 */
const SLOW_BLOCK_MS = 80;
const RPC_TIMEOUT_MS = 5000;
const KEEPER_LAMPORTS = 10_000_000_000_000;

export interface SoakKeeper extends Supervised {
  /** kill -9; resolves when it has come up again, or everything is stopped. */
  fall(): Promise<void>;
}

export interface Ground {
  sql: Sql;
  /** The chain's good node. */
  rpc: Rpc;
  mint: string;
  keeper: Wallet;
  treasury: string;
  keepers: SoakKeeper[];
  /** The keepers' endpoints. */
  badNodes: BadNodes;
  logDirectory: string;
  /**
   * Calls a method that only the local chain has, unaffected by faults. Throws an Error with its
   * refusal.
   */
  cheat: <T>(method: string, ...params: unknown[]) => Promise<T>;
  /** Resolves when it is up again, or at once. */
  killPostgres(): Promise<void> | void;
  /** The pair of servers, if Postgres has a standby. */
  pair: PostgresPair | undefined;
  /** Merchants grant credit, take it back and forgive invoices. */
  hasCredits: boolean;
  /** Every plan that was ever published. */
  published: PublishedPlan[];
  /** Every refund of which the transfer landed. */
  refunded: Refunded[];
  /** Every request of a wallet that may register its account. */
  asked: Asked[];
  /** Ends everything; `keep` leaves Postgres's data and the logs in place. */
  stop(keep: boolean): Promise<void>;
}

const isReady = (url: string) =>
  fetch(url).then(
    async (response) => {
      await response.body?.cancel();
      return response.ok;
    },
    () => false,
  );

/** Starts everything; the keepers are up and idle, because there are no subscriptions yet. */
export async function startGround({
  keepers,
  random,
  hasStandby = false,
  hasPooler = false,
  hasCredits = false,
}: {
  keepers: number;
  random: Random;
  hasStandby?: boolean;
  /** The keepers reach Postgres through PgBouncer in transaction mode. */
  hasPooler?: boolean;
  /** Merchants grant credit, take it back and forgive invoices. */
  hasCredits?: boolean;
}): Promise<Ground> {
  const directory = await mkdtemp(join(tmpdir(), 'billing-soak-'));
  // Postgres may run as another user, which needs access to the directory.
  await chmod(directory, 0o711);
  const logDirectory = join(directory, 'logs');
  await mkdir(logDirectory);
  const closers: (() => Promise<unknown>)[] = [];
  let isClosed = false;
  const close = async () => {
    isClosed = true;
    for (const one of closers.splice(0).reverse()) await one();
  };
  const start = (name: string, args: string[], env: Record<string, string>, readyUrl: string) => {
    const started = supervise({
      name,
      args,
      env,
      logFile: join(logDirectory, `${name}.log`),
      readyUrl,
    });
    closers.push(() => started.stop());
    // Without supervise()'s limit, which a slow machine may exceed.
    const ready = async () => {
      while (!isClosed && !(await isReady(readyUrl))) await pause(50);
    };
    return {
      ...started,
      ready,
      async fall() {
        const before = started.restarts();
        started.kill();
        while (!isClosed && started.restarts() === before) await pause(50);
        await ready();
      },
    };
  };
  try {
    const [rpcPort = 0, wsPort = 0, lagPort = 0, ...metricsPorts] = await freePorts(3 + keepers);
    const [rpcUrl, lagUrl] = [`http://127.0.0.1:${rpcPort}`, `http://127.0.0.1:${lagPort}`];
    const ports = ['--port', rpcPort, '--ws-port', wsPort, '--lag-port', lagPort].map(String);
    const chain = start(
      'localnet',
      ['localnet', ...ports, '--block-ms', String(hasStandby ? SLOW_BLOCK_MS : BLOCK_MS), '--json'],
      {},
      `${rpcUrl}/health`,
    );
    const pair = hasStandby ? await startPostgresPair(join(directory, 'postgres')) : undefined;
    const postgres = pair ?? (await keepPostgres(join(directory, 'postgres')));
    closers.push(postgres.stop);
    const sql = connect(postgres.url, { max: 8, name: 'billing soak' });
    closers.push(() => sql.end({ timeout: 1 }));
    await migrate(sql);
    await chain.ready();
    const log = createLog('soak', { level: 'silent', pretty: false, stream: 'stderr' });
    const rpc = createRpc({ urls: [rpcUrl], timeoutMs: RPC_TIMEOUT_MS, log });
    closers.push(() => rpc.close());

    const cheat = async <T>(method: string, ...params: unknown[]): Promise<T> => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      const response = await fetch(rpcUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      });
      const { result, error } = (await response.json()) as {
        result: T;
        error?: { message: string };
      };
      if (error !== undefined) throw new Error(`${method}: ${error.message}`);
      return result;
    };
    const keeper = walletFromSeed(random.seed32());
    const treasury = walletFromSeed(random.seed32()).address;
    await cheat('requestAirdrop', keeper.address, KEEPER_LAMPORTS);
    await cheat('surfnet_setTokenAccount', treasury, LOCALNET_MINT, { amount: 0 });
    // Its token account is where played wallets get rid of their USDC.
    await cheat('localnet_faucet', keeper.address, 1);
    const keypairFile = join(directory, 'keeper.json');
    await writeFile(keypairFile, JSON.stringify([...bytesOf(keeper)]), { mode: 0o600 });
    const database = hasPooler
      ? await startPooler(sql, postgres.url, (close) => closers.push(async () => close()))
      : { DATABASE_URL: postgres.url };
    const env = {
      ...database,
      // Both nodes stream from one socket: each URL has one beside it.
      SOLANA_WS_URL: `ws://127.0.0.1:${wsPort},ws://127.0.0.1:${wsPort}`,
      SOLANA_CLUSTER: 'localnet',
      USDC_MINT: LOCALNET_MINT,
      KEEPER_KEYPAIR: keypairFile,
      COLLECTION_WINDOW_SECONDS: '0',
      PLATFORM_TREASURY: treasury,
    };
    const badNodes = await startBadNodes(rpcUrl, lagUrl);
    closers.push(async () => {
      badNodes.close();
    });
    const running = metricsPorts.map((port, index) => {
      // Every other keeper prefers the node that lags.
      const urls = index % 2 === 0 ? badNodes.urls : badNodes.urls.toReversed();
      const own = { ...env, SOLANA_RPC_URL: urls.join(','), METRICS_PORT: String(port) };
      return start(`keeper-${index + 1}`, ['keeper'], own, `http://127.0.0.1:${port}/readyz`);
    });
    await Promise.all(running.map((one) => one.ready()));
    return {
      sql,
      rpc,
      mint: LOCALNET_MINT,
      keeper,
      treasury,
      keepers: running,
      badNodes,
      logDirectory,
      cheat,
      killPostgres: postgres.kill,
      pair,
      hasCredits,
      published: [],
      refunded: [],
      asked: [],
      async stop(keep) {
        await close();
        if (!keep) await rm(directory, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Starts PgBouncer; returns the keepers' URLs. Their role has the settings that it drops. */
async function startPooler(
  sql: Sql,
  url: string,
  onStop: (close: () => unknown) => void,
): Promise<Record<string, string>> {
  await makeTestRoles(sql);
  // Gives the roles their rights.
  await migrate(sql);
  const pooler = await startPgBouncer({ teardown: onStop }, url);
  return {
    DATABASE_URL: asRole(pooler.url, 'keeper'),
    DATABASE_DIRECT_URL: asRole(url, 'keeper'),
  };
}
