// Runs serve and a keeper that sponsors, and subscribes wallets without SOL through the API.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Pool } from 'undici';
import { generateKeypair, type Keypair } from '../../src/chain/keypair.ts';
import { timeOf } from '../../src/chain/time.ts';
import { signTransaction } from '../../src/chain/transactions/subscriptions.ts';
import { transferLamports } from '../../src/chain/transactions/system-instructions.ts';
import { LOCALNET_MINT } from '../../src/local/chain/genesis.ts';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import type { Database } from '../dispatch/harness.ts';
import { register } from '../keeper/collect.ts';
import { rpcRequests, startKeeper } from '../keeper/keeper-process.ts';
import { AMOUNT, type Chain, openPlan } from '../keeper/scene.ts';

const BILLING = fileURLToPath(new URL('../../bin/billing.js', import.meta.url));
const CONNECTIONS = 64;
const POLL_MS = 25;
const PATIENCE_MS = 60_000;
/** A budget (lamports) that this benchmark does not use up. */
const PLENTY = String(1_000_000_000_000);

export interface Wallet {
  readonly keypair: Keypair;
  /** The IP address of the wallet's page. Each address has its own budgets and rate limits. */
  readonly address: string;
}

export interface Offer {
  readonly transaction: string;
  readonly offerId: string;
  readonly secret: string;
}

/** A request's status and body. */
export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

interface Sent {
  readonly secret?: string;
  readonly body?: unknown;
}

export interface Checkouts {
  readonly url: string;
  readonly planId: string;
  readonly serveMetricsPort: number;
  /** Creates wallets with the USDC of one payment and without SOL. */
  fund(count: number): Promise<Wallet[]>;
  offer(wallet: Wallet, planId?: string): Promise<Offer>;
  /** Sends a request from a network address, whatever its answer. */
  request(from: string, method: 'GET' | 'POST', path: string, sent?: Sent): Promise<Answer>;
  /**
   * Posts a signed transaction and reads its progress until it is final. `onTaken` is called once
   * the service has taken it.
   */
  post(
    wallet: Wallet,
    offer: Offer,
    transaction: string,
    onTaken?: () => Promise<void>,
  ): Promise<{ confirmedAt: number; confirmedMs: number; finalMs: number }>;
  /**
   * Returns the milliseconds until the chain confirms a plain transfer, which is sent to it
   * directly.
   */
  transfer(): Promise<number>;
  /** Returns the number of RPC requests of serve and the keeper. */
  requests(): Promise<number>;
  stop(): Promise<void>;
}

/**
 * Publishes a plan and starts serve and a keeper. `more` is added to their environment. The plan
 * has `renewals` subscriptions, whose next payment is due in a day.
 */
export async function startCheckouts(
  chain: Chain,
  database: Database,
  { more = {}, renewals = 0 }: { more?: Record<string, string>; renewals?: number } = {},
): Promise<Checkouts> {
  const plan = await openPlan(chain, renewals, 1);
  await register(database.sql, chain, plan, timeOf(BigInt((await chain.now()) + 86_400)));
  const [{ id: planId }] = await database.sql<[{ id: string }]>`select id from plans`;
  const sponsoring = Object.fromEntries(
    ['', 'MERCHANT_', 'WALLET_', 'ADDRESS_'].map((of) => [`SPONSOR_${of}LAMPORTS_PER_DAY`, PLENTY]),
  );
  const settings = {
    ...sponsoring,
    SPONSOR_MERCHANT_LAMPORTS_OUT: PLENTY,
    SPONSOR_MERCHANT_LAMPORTS_START: PLENTY,
    ...more,
  };
  const keeper = await startKeeper(chain, database.url, settings);
  const serve = await startServe(chain, database.url, settings);
  const pool = new Pool(serve.url, { connections: CONNECTIONS });
  const others = new Pool(serve.url);
  const ask = async (
    by: Pool,
    from: string,
    method: 'GET' | 'POST',
    path: string,
    { secret, body }: Sent = {},
  ): Promise<Answer> => {
    const response = await by.request({
      method,
      path,
      headers: {
        'x-forwarded-for': from,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(secret !== undefined && { authorization: `Bearer ${secret}` }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: response.statusCode, body: await response.body.json() };
  };
  const call = async <T>(
    { address }: Wallet,
    method: 'GET' | 'POST',
    path: string,
    sent?: Sent,
  ): Promise<T> => {
    const answer = (await ask(pool, address, method, path, sent)).body as {
      success: boolean;
      data: T;
    };
    if (!answer.success) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer.data;
  };
  let funded = 0;
  return {
    url: serve.url,
    planId,
    serveMetricsPort: serve.metricsPort,
    request: (from, method, path, sent) => ask(others, from, method, path, sent),
    async fund(count) {
      const wallets = Array.from({ length: count }, (): Wallet => {
        funded += 1;
        return {
          keypair: generateKeypair(),
          address: `10.0.${Math.floor(funded / 250)}.${(funded % 250) + 1}`,
        };
      });
      for (const { keypair } of wallets)
        await chain.call('localnet_faucet', keypair.address, AMOUNT.toString());
      // Two blocks confirm the funds.
      await chain.call('localnet_mineBlocks', 2);
      return wallets;
    },
    async offer(wallet, of = planId) {
      const body = { wallet: wallet.keypair.address };
      const { offer, notSponsored } = await call<{ offer: Offer | null; notSponsored: unknown }>(
        wallet,
        'POST',
        `/checkout/plans/${of}/offers`,
        { body },
      );
      if (offer === null) throw new Error(`not sponsored: ${JSON.stringify(notSponsored)}`);
      return offer;
    },
    async post(wallet, { offerId, secret }, transaction, onTaken) {
      const startedAt = performance.now();
      const path = `/checkout/offers/${offerId}`;
      let { state } = await call<{ state: string }>(wallet, 'POST', `${path}/transaction`, {
        secret,
        body: { transaction },
      });
      await onTaken?.();
      let confirmedAt = 0;
      while (state !== 'final') {
        ({ state } = await call<{ state: string }>(wallet, 'GET', `${path}?wait=8&known=${state}`, {
          secret,
        }));
        if (['refused', 'failed', 'lapsed'].includes(state)) throw new Error(state);
        if (confirmedAt === 0 && ['confirmed', 'final'].includes(state)) {
          confirmedAt = performance.now();
        }
      }
      return {
        confirmedAt,
        confirmedMs: confirmedAt - startedAt,
        finalMs: performance.now() - startedAt,
      };
    },
    transfer: () => transfer(chain),
    requests: async () => (await keeper.requests()) + (await rpcRequests(serve.metricsPort)),
    async stop() {
      await Promise.all([pool.close(), others.destroy()]);
      await serve.stop();
      await keeper.stop();
    },
  };
}

/**
 * Sends 0.001 SOL to a new wallet, so that each transfer is a different transaction. Returns the
 * milliseconds until it is confirmed.
 */
async function transfer({ call, merchant }: Chain): Promise<number> {
  const { value } = await call<{ value: { blockhash: string } }>('getLatestBlockhash');
  const moving = transferLamports(merchant.address, generateKeypair().address, 1_000_000n);
  const { bytes, signature } = signTransaction(merchant, [moving], value.blockhash);
  const startedAt = performance.now();
  await call('sendTransaction', bytes.toString('base64'), { encoding: 'base64' });
  for (;;) {
    const statuses = await call<{ value: ({ confirmationStatus: string } | null)[] }>(
      'getSignatureStatuses',
      [signature],
    );
    const status = statuses.value[0]?.confirmationStatus;
    if (status === 'confirmed' || status === 'finalized') return performance.now() - startedAt;
    await pause(POLL_MS);
  }
}

async function startServe(
  { keeper, treasury, rpcUrl, wsUrl }: Chain,
  databaseUrl: string,
  settings: Readonly<Record<string, string>>,
) {
  const [port = 0, metricsPort = 0] = await freePorts(2);
  const url = `http://127.0.0.1:${port}`;
  const child = spawn(process.execPath, [BILLING, 'serve'], {
    env: {
      DATABASE_URL: databaseUrl,
      SOLANA_RPC_URL: rpcUrl,
      SOLANA_WS_URL: wsUrl,
      SOLANA_CLUSTER: 'localnet',
      USDC_MINT: LOCALNET_MINT,
      KEEPER_ADDRESS: keeper.address,
      COLLECTION_WINDOW_SECONDS: '0',
      PLATFORM_TREASURY: treasury,
      JWT_SECRET: 'j'.repeat(32),
      ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
      TRUST_PROXY: '127.0.0.1',
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      LOG_LEVEL: 'warn',
      ...settings,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = once(child, 'exit');
  const isReady = () =>
    fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await isReady())) {
    if (child.exitCode !== null || performance.now() > deadline)
      throw new Error('serve does not become ready');
    await pause(POLL_MS);
  }
  return {
    url,
    metricsPort,
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
