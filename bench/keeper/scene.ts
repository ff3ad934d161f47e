// A local chain in its own process, with subscribed wallets.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Pool } from 'undici';
import { SUBSCRIPTIONS_PROGRAM } from '../../src/chain/clusters.ts';
import { generateKeypair, type Keypair } from '../../src/chain/keypair.ts';
import { planIn } from '../../src/chain/program/accounts.ts';
import {
  planAddress,
  subscriptionAddress,
  tokenAccountAddress,
} from '../../src/chain/program/addresses.ts';
import {
  type Instruction,
  initAuthority,
  subscribe,
  UNKNOWN_INIT_ID,
} from '../../src/chain/program/instructions.ts';
import { createPlan } from '../../src/chain/program/plan-instructions.ts';
import {
  signPayments as signTogether,
  transfersOf,
} from '../../src/chain/transactions/collection.ts';
import { signTransaction } from '../../src/chain/transactions/subscriptions.ts';
import { createTokenAccount } from '../../src/chain/transactions/system-instructions.ts';
import { LOCALNET_MINT } from '../../src/local/chain/genesis.ts';
import { walletFromSeed } from '../../src/local/sandbox/wallet.ts';

const BILLING = fileURLToPath(new URL('../../bin/billing.js', import.meta.url));
const CONNECTIONS = 64;
/** Blocks are fast, so that the wait for finality (32 blocks) is only a small part of a round. */
const BLOCK_MS = 25;

export const PLAN_ID = 1n;
export const AMOUNT = 1_000_000n;
export const PERIOD_HOURS = 24;
const FEE = AMOUNT / 100n;

export interface Subscriber {
  wallet: string;
  subscription: string;
}

export interface Plan {
  pda: string;
  createdAt: bigint;
  subscribers: Subscriber[];
}

export interface Chain {
  rpcUrl: string;
  wsUrl: string;
  keeper: Keypair & { secret: string };
  merchant: Keypair;
  treasury: string;
  call: <T>(method: string, ...params: unknown[]) => Promise<T>;
  post: (body: string) => Promise<string>;
  /** Returns the time of the newest sealed block in Unix seconds. */
  now(): Promise<number>;
  /** Moves the clock by a period and makes 40 blocks. */
  pass(): Promise<void>;
  /** Returns the number of payments whose fee the treasury has received. */
  collected(): Promise<number>;
  stop(): void;
}

/** Starts `billing localnet`, which must be built before. `blockMs` is the time between blocks. */
export async function startChain(blockMs = BLOCK_MS): Promise<Chain> {
  const args = ['localnet', '--port', '0', '--block-ms', String(blockMs), '--json'];
  const child: ChildProcess = spawn(process.execPath, [BILLING, ...args], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  if (child.stdout === null) throw new Error('no output');
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const { rpcUrl, wsUrl } = JSON.parse(line) as { rpcUrl: string; wsUrl: string };
  const pool = new Pool(rpcUrl, { connections: CONNECTIONS });
  const post = async (body: string) => {
    const response = await pool.request({
      path: '/',
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    return response.body.text();
  };
  const call = async <T>(method: string, ...params: unknown[]) => {
    const { result, error } = JSON.parse(
      await post(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })),
    ) as {
      result: T;
      error?: { message: string };
    };
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result;
  };
  const seed = walletFromSeed(Buffer.alloc(32, 7));
  const keeper = { ...seed.keypair, secret: seed.secretKey };
  const [merchant, treasury] = [generateKeypair(), generateKeypair().address];
  await call('requestAirdrop', keeper.address, 1_000_000_000_000_000);
  await call('requestAirdrop', merchant.address, 10_000_000_000);
  const now = async () => {
    const { value } = await call<{ value: { data: [string] } }>(
      'getAccountInfo',
      'SysvarC1ock11111111111111111111111111111111',
      {
        encoding: 'base64',
        commitment: 'confirmed',
      },
    );
    return Number(Buffer.from(value.data[0], 'base64').readBigInt64LE(32));
  };
  const chain: Chain = {
    rpcUrl,
    wsUrl,
    keeper,
    merchant,
    treasury,
    call,
    post,
    now,
    async pass() {
      await call('surfnet_timeTravel', {
        absoluteTimestamp: ((await now()) + PERIOD_HOURS * 3600 + 1) * 1000,
      });
      await call('localnet_mineBlocks', 40);
    },
    async collected() {
      const { address } = tokenAccountAddress(treasury, LOCALNET_MINT);
      const { value } = await call<{ value: { amount: string } }>(
        'getTokenAccountBalance',
        address,
        { commitment: 'processed' },
      );
      return Number(BigInt(value.amount) / FEE);
    },
    stop: () => child.kill(),
  };
  await send(chain, keeper, [
    createTokenAccount({ payer: keeper.address, owner: merchant.address, mint: LOCALNET_MINT }),
    createTokenAccount({ payer: keeper.address, owner: treasury, mint: LOCALNET_MINT }),
  ]);
  return chain;
}

/** Signs and sends a transaction. Resolves when the chain has executed it. */
export async function send(
  { call }: Chain,
  signer: Keypair,
  instructions: Instruction[],
): Promise<void> {
  const { value } = await call<{ value: { blockhash: string } }>('getLatestBlockhash', {
    commitment: 'processed',
  });
  const { bytes } = signTransaction(signer, instructions, value.blockhash);
  await call('sendTransaction', bytes.toString('base64'), {
    encoding: 'base64',
    preflightCommitment: 'processed',
  });
}

/**
 * Publishes a plan and subscribes `count` wallets with the USDC for `payments` payments. A function
 * `payments` gets the wallet's number.
 */
export async function openPlan(
  chain: Chain,
  count: number,
  payments: number | ((number: number) => number),
  periodHours = PERIOD_HOURS,
  { planId = PLAN_ID, amount = AMOUNT } = {},
): Promise<Plan> {
  const paymentsOf = typeof payments === 'number' ? () => payments : payments;
  const { call, merchant, keeper, treasury } = chain;
  const { address: pda, bump } = planAddress(SUBSCRIPTIONS_PROGRAM, merchant.address, planId);
  const terms = {
    planId,
    mint: LOCALNET_MINT,
    amount,
    periodHours: BigInt(periodHours),
    endTs: 0n,
    destinations: [merchant.address, treasury],
    pullers: [keeper.address],
    metadataUri: '',
  };
  await send(chain, merchant, [
    createPlan(SUBSCRIPTIONS_PROGRAM, { merchant: merchant.address, plan: pda, terms }),
  ]);
  const { value } = await call<{ value: { data: [string]; owner: string } }>(
    'getAccountInfo',
    pda,
    {
      encoding: 'base64',
      commitment: 'processed',
    },
  );
  const account = planIn(
    { owner: value.owner, lamports: 1n, data: Buffer.from(value.data[0], 'base64') },
    SUBSCRIPTIONS_PROGRAM,
  );
  if (account === null) throw new Error('the plan is not there');
  const subscribers: Subscriber[] = [];
  await atOnce(count, async (number) => {
    const wallet = generateKeypair();
    const subscription = subscriptionAddress(SUBSCRIPTIONS_PROGRAM, pda, wallet.address).address;
    await call('requestAirdrop', wallet.address, 1_000_000_000);
    await call('localnet_faucet', wallet.address, (amount * BigInt(paymentsOf(number))).toString());
    const agreed = {
      planId,
      planBump: bump,
      mint: LOCALNET_MINT,
      amount,
      periodHours: BigInt(periodHours),
    };
    await send(chain, wallet, [
      initAuthority(SUBSCRIPTIONS_PROGRAM, { user: wallet.address, mint: LOCALNET_MINT }),
      subscribe(SUBSCRIPTIONS_PROGRAM, {
        subscriber: wallet.address,
        merchant: merchant.address,
        plan: pda,
        subscription,
        terms: { ...agreed, createdAt: account.createdAt, initId: UNKNOWN_INIT_ID },
      }),
    ]);
    subscribers[number] = { wallet: wallet.address, subscription };
  });
  return { pda, createdAt: account.createdAt, subscribers };
}

/**
 * Signs one payment of each subscriber for the current period. Each transaction has exactly the
 * length of a keeper's transaction.
 */
export async function signPayments(
  { call, keeper, merchant, treasury }: Chain,
  { pda }: Plan,
  subscribers: readonly Subscriber[],
  round: number,
): Promise<Buffer[]> {
  const { value } = await call<{ value: { blockhash: string } }>('getLatestBlockhash', {
    commitment: 'processed',
  });
  return subscribers.map(({ wallet, subscription }) => {
    const transfers = transfersOf({
      programId: SUBSCRIPTIONS_PROGRAM,
      mint: LOCALNET_MINT,
      keeper: keeper.address,
      merchant: merchant.address,
      treasury,
      plan: pda,
      subscription,
      subscriber: wallet,
      net: AMOUNT - FEE,
      fee: FEE,
    });
    return signTogether(keeper, transfers, {
      version: 'legacy',
      blockhash: value.blockhash,
      reference: `billing 01900000-0000-7000-8000-000000000000 ${1_900_000_000 + round} 0`,
      budget: { computeUnits: 200_000, loadedDataBytes: 10_000_000, priorityFee: 0n },
    }).bytes;
  });
}

/** Runs `work` `count` times, with at most CONNECTIONS concurrent runs. */
export async function atOnce(
  count: number,
  work: (number: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      while (next < count) await work((next += 1) - 1);
    }),
  );
}
