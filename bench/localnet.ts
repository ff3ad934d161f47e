// Transactions per second through the local chain's JSON-RPC, compared with direct calls of
// LiteSVM's native layer for the same kind of signed pulls. The load is eight concurrent batches of
// 44 sendTransaction requests with preflight. Short rounds alternate, and the ratio is the median
// of the rounds' ratios. Needs a quiet machine, because load and chain use a core each.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { FailedTransactionMetadata, LiteSvm } from 'litesvm/dist/internal.js';
import { Pool } from 'undici';
import { generateKeypair } from '../src/chain/keypair.ts';
import { accountAt, head } from '../src/local/chain/accounts.ts';
import { execute } from '../src/local/chain/execute.ts';
import { airdrop, mintUsdc } from '../src/local/chain/faucet.ts';
import { addressKey, base58 } from '../src/local/chain/keys.ts';
import { openChain } from '../src/local/chain/open.ts';
import { SLOT_MS } from '../src/local/chain/state.ts';
import { decodeTransaction } from '../src/local/chain/wire/decode.ts';
import { prepare, type Scene, signPulls, type Target } from './localnet/pulls.ts';
import type { Result } from './run.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const BILLING = fileURLToPath(new URL('../bin/billing.js', import.meta.url));
const WALLETS = 256;
const ROUNDS = 15;
const PULLS = 2_000;
const ONE_BY_ONE = 1_000;
const BATCH = 44;
const BATCHES_UNDER_WAY = 8;
/**
 * Numbers of transactions after which the memory is read. The history is full at 20,000
 * transactions. The caches of the allocators are full at about 150,000.
 */
const MEMORY_MILESTONES = [100_000, 200_000, 300_000];
const TRAVELS = 1_000;
const SLOTS_TRAVELLED = 1_000_000;

interface Answer {
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;

interface Server {
  readonly child: ChildProcess;
  readonly pool: Pool;
  readonly startMs: number;
}

/** Starts the built `billing localnet` in its own process. */
async function startServer(...options: string[]): Promise<Server> {
  const started = performance.now();
  const child = spawn(
    process.execPath,
    [BILLING, 'localnet', '--port', '0', '--json', ...options],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const { rpcUrl } = JSON.parse(line) as { rpcUrl: string };
  const pool = new Pool(rpcUrl, { connections: BATCHES_UNDER_WAY });
  await call(pool, 'getHealth');
  return { child, pool, startMs: performance.now() - started };
}

async function stopServer({ pool, child }: Server): Promise<void> {
  await pool.close();
  const exited = once(child, 'exit');
  child.kill();
  await exited;
}

/**
 * Returns the milliseconds from the start to the first response, for an empty chain and for a chain
 * with 100 wallets in 1,000 blocks on disk.
 */
async function starts(): Promise<{ empty: number; withHistory: number }> {
  const directory = await mkdtemp(join(tmpdir(), 'billing-bench-'));
  const options = ['--block-ms', '0', '--data-dir', directory];
  try {
    const first = await startServer(...options);
    for (let wallet = 0; wallet < 100; wallet += 1) {
      await call(first.pool, 'requestAirdrop', generateKeypair().address, 1_000_000_000);
      await call(first.pool, 'localnet_mineBlocks', 10);
    }
    await stopServer(first);
    const empty = await startServer('--block-ms', '0');
    await stopServer(empty);
    const second = await startServer(...options);
    await stopServer(second);
    return { empty: empty.startMs, withHistory: second.startMs };
  } finally {
    await rm(directory, { recursive: true });
  }
}

async function postText(pool: Pool, body: string): Promise<string> {
  const response = await pool.request({
    path: '/',
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  return response.body.text();
}

async function call<T>(pool: Pool, method: string, ...params: unknown[]): Promise<T> {
  const { result, error } = JSON.parse(
    await postText(pool, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })),
  ) as Answer;
  if (error !== undefined) throw new Error(`${method}: ${error.message}`);
  return result as T;
}

const remote = (pool: Pool): Target => ({
  fund: async (owner, lamports, usdc) => {
    await call(pool, 'requestAirdrop', owner, Number(lamports));
    if (usdc > 0n) await call(pool, 'localnet_faucet', owner, Number(usdc));
  },
  blockhash: async () => {
    const { value } = await call<{ value: { blockhash: string } }>(pool, 'getLatestBlockhash', {
      commitment: 'processed',
    });
    return value.blockhash;
  },
  send: async (transaction) => {
    await call(pool, 'sendTransaction', transaction.toString('base64'), {
      encoding: 'base64',
      preflightCommitment: 'processed',
    });
  },
  account: async (address) => {
    const { value } = await call<{ value: { data: [string] } }>(pool, 'getAccountInfo', address, {
      encoding: 'base64',
      commitment: 'processed',
    });
    return Buffer.from(value.data[0], 'base64');
  },
});

/**
 * Prepares a chain in this process in the same way, and copies its state into a LiteSVM for direct
 * calls.
 */
async function prepareDirect(): Promise<{ svm: LiteSvm; scene: Scene }> {
  const chain = openChain(0, undefined);
  const latest = () => base58(chain.blocks.at(-2)!.hash);
  const scene = await prepare(
    {
      fund: async (owner, lamports, usdc) => {
        airdrop(chain, owner, lamports);
        if (usdc > 0n) mintUsdc(chain, owner, usdc);
      },
      blockhash: async () => latest(),
      send: async (transaction) => {
        const outcome = execute(chain, decodeTransaction(transaction), true);
        if ('refused' in outcome) throw new Error(JSON.stringify(outcome.refused));
      },
      account: async (address) => accountAt(chain, addressKey(address), head(chain).height)!.data,
    },
    WALLETS,
  );
  const svm = LiteSvm.fromBytes(chain.vm.snapshot());
  svm.setTransactionHistory(0n);
  svm.setBlockhashCheck(false);
  svm.setSigverify(true);
  return { svm, scene };
}

function directRound(svm: LiteSvm, pulls: readonly Buffer[]): number {
  const started = performance.now();
  for (const pull of pulls) {
    const result = svm.sendVersionedTransaction(pull);
    if (result instanceof FailedTransactionMetadata) throw new Error(result.toString());
  }
  return (pulls.length * 1000) / (performance.now() - started);
}

/**
 * Returns request bodies of BATCH pulls each. They are made before the clock starts, so that only
 * the chain is measured.
 */
function bodiesOf(pulls: readonly Buffer[]): string[] {
  const bodies: string[] = [];
  for (let start = 0; start < pulls.length; start += BATCH) {
    const requests = pulls.slice(start, start + BATCH).map((pull, id) => ({
      jsonrpc: '2.0',
      id,
      method: 'sendTransaction',
      params: [pull.toString('base64'), { encoding: 'base64', preflightCommitment: 'processed' }],
    }));
    bodies.push(JSON.stringify(requests));
  }
  return bodies;
}

async function rpcRound(pool: Pool, scene: Scene, count: number): Promise<number> {
  const bodies = bodiesOf(signPulls(scene, await remote(pool).blockhash(), count));
  const texts: string[] = [];
  const worker = async () => {
    for (let body = bodies.pop(); body !== undefined; body = bodies.pop())
      texts.push(await postText(pool, body));
  };
  const started = performance.now();
  await Promise.all(Array.from({ length: BATCHES_UNDER_WAY }, worker));
  const seconds = (performance.now() - started) / 1000;
  for (const text of texts) {
    const refused = (JSON.parse(text) as Answer[]).find(({ error }) => error !== undefined);
    if (refused !== undefined) throw new Error(`a pull was refused: ${refused.error!.message}`);
  }
  return count / seconds;
}

async function oneByOne(pool: Pool, scene: Scene, count: number): Promise<number> {
  const pulls = signPulls(scene, await remote(pool).blockhash(), count);
  const started = performance.now();
  for (const pull of pulls) await remote(pool).send(pull);
  return (count * 1000) / (performance.now() - started);
}

/** Returns the resident memory (MB) of the chain's process. */
function rssMb({ child }: Server): number {
  return (
    Number(execFileSync('ps', ['-o', 'rss=', '-p', String(child.pid)], { encoding: 'utf8' })) / 1024
  );
}

export async function run(): Promise<Result> {
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio: ['ignore', 2, 2] });
  const server = await startServer();
  const { pool } = server;
  const direct = await prepareDirect();
  const scene = await prepare(remote(pool), WALLETS);
  const inProcess: number[] = [];
  const overRpc: number[] = [];
  directRound(direct.svm, signPulls(direct.scene, await remote(pool).blockhash(), PULLS));
  await rpcRound(pool, scene, PULLS);
  for (let round = 0; round < ROUNDS; round += 1) {
    inProcess.push(
      directRound(direct.svm, signPulls(direct.scene, await remote(pool).blockhash(), PULLS)),
    );
    overRpc.push(await rpcRound(pool, scene, PULLS));
  }
  const single = await oneByOne(pool, scene, ONE_BY_ONE);

  const sent = PULLS + ROUNDS * PULLS + ONE_BY_ONE;
  let total = sent;
  const before = rssMb(server);
  const rss: number[] = [];
  for (const milestone of MEMORY_MILESTONES) {
    for (; total < milestone; total += PULLS) await rpcRound(pool, scene, PULLS);
    rss.push(rssMb(server));
  }
  let now = Date.now() + 1000;
  for (let travel = 0; travel < TRAVELS; travel += 1) {
    now += (SLOTS_TRAVELLED / TRAVELS) * SLOT_MS;
    await call(pool, 'surfnet_timeTravel', { absoluteTimestamp: now });
  }
  const afterTravel = rssMb(server);
  const moved = Number(
    (
      await call<{ value: { amount: string } }>(
        pool,
        'getTokenAccountBalance',
        await treasuryAccount(scene),
        { commitment: 'processed' },
      )
    ).value.amount,
  );
  if (moved !== total)
    throw new Error(`${total} pulls were sent, but the treasury has ${moved} base units`);
  await stopServer(server);
  const { empty, withHistory } = await starts();

  return {
    figures: {
      rpcTransactionsPerSecond: median(overRpc),
      inProcessTransactionsPerSecond: median(inProcess),
      rpcOneByOneTransactionsPerSecond: single,
      startToFirstAnswerMs: server.startMs,
      startWithHistoryMs: withHistory,
      rssMbBefore: before,
      ...Object.fromEntries(
        rss.map((mb, index) => [`rssMbAfter${MEMORY_MILESTONES[index]}Transactions`, mb]),
      ),
      rssMbAfterTravel: afterTravel,
      slotsTravelled: SLOTS_TRAVELLED,
    },
    ratios: {
      rpcToInProcess: median(overRpc.map((rate, round) => rate / inProcess[round]!)),
      startWithHistory: withHistory / empty,
    },
  };
}

async function treasuryAccount({ treasury }: Scene): Promise<string> {
  const { tokenAccountAddress } = await import('../src/chain/program/addresses.ts');
  const { LOCALNET_MINT } = await import('../src/local/chain/genesis.ts');
  return tokenAccountAddress(treasury, LOCALNET_MINT).address;
}
