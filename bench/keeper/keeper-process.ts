// `billing keeper` in its own process, with the Node options of the systemd unit.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import bs58 from 'bs58';
import { LOCALNET_MINT } from '../../src/local/chain/genesis.ts';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import type { Chain } from './scene.ts';

const BILLING = fileURLToPath(new URL('../../bin/billing.js', import.meta.url));
const UNIT = new URL('../../deploy/systemd/billing-keeper.service', import.meta.url);

export interface KeeperProcess {
  /** Returns the number of the keeper's requests to RPC endpoints. */
  requests(): Promise<number>;
  /** Returns the number of requests that an endpoint refused because of its rate limit. */
  limited(): Promise<number>;
  /** Returns the number of token accounts that the keeper follows. */
  followed(): Promise<number>;
  stop(): Promise<void>;
}

/** Starts a keeper on this chain and database. `settings` are added to its environment. */
export async function startKeeper(
  { keeper, rpcUrl, wsUrl, treasury }: Chain,
  databaseUrl: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<KeeperProcess> {
  const directory = await mkdtemp(join(tmpdir(), 'billing-bench-'));
  const keypairFile = join(directory, 'keeper.json');
  await writeFile(keypairFile, JSON.stringify([...bs58.decode(keeper.secret)]), { mode: 0o600 });
  const [metricsPort = 0] = await freePorts(1);
  const child: ChildProcess = spawn(
    process.execPath,
    [...(await nodeArguments()), BILLING, 'keeper'],
    {
      env: {
        DATABASE_URL: databaseUrl,
        SOLANA_RPC_URL: rpcUrl,
        SOLANA_WS_URL: wsUrl,
        SOLANA_CLUSTER: 'localnet',
        USDC_MINT: LOCALNET_MINT,
        KEEPER_KEYPAIR: keypairFile,
        COLLECTION_WINDOW_SECONDS: '0',
        PLATFORM_TREASURY: treasury,
        METRICS_PORT: String(metricsPort),
        LOG_LEVEL: 'warn',
        ...settings,
      },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    },
  );
  return {
    requests: () => rpcRequests(metricsPort),
    limited: () => rpcRequests(metricsPort, 'rate_limited'),
    followed: () => followed(metricsPort),
    async stop() {
      child.kill('SIGTERM');
      await once(child, 'exit');
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Returns the Node options in the systemd unit of the keeper. */
async function nodeArguments(): Promise<string[]> {
  const [, given] =
    /^ExecStart=\/usr\/bin\/node (.*)\/\S*billing\.js keeper$/m.exec(
      await readFile(UNIT, 'utf8'),
    ) ?? [];
  if (given === undefined) throw new Error('the unit does not start a keeper');
  return given.split(' ').filter((argument) => argument.startsWith('--'));
}

/**
 * Returns the number of RPC requests with this outcome, or of all RPC requests, from the metrics of
 * a process.
 */
export async function rpcRequests(port: number, outcome = ''): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const counts = [...text.matchAll(/^billing_rpc_calls_total\{(.*)\} (\d+)$/gm)];
  if (counts.length === 0) throw new Error('the process does not count its RPC requests');
  return counts.reduce(
    (sum, [, labels = '', value]) => (labels.includes(outcome) ? sum + Number(value) : sum),
    0,
  );
}

async function followed(port: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return Number(/^billing_keeper_accounts_followed(?:\{.*\})? (\d+)$/m.exec(text)?.[1] ?? 0);
}
