// One period of many subscriptions through a provider with low rate limits for requests and for
// sends.
import { setTimeout as pause } from 'node:timers/promises';
import { timeOf } from '../../src/chain/time.ts';
import type { Database } from '../dispatch/harness.ts';
import type { Result } from '../run.ts';
import { countPaid, register } from './collect.ts';
import { startKeeper } from './keeper-process.ts';
import { openPlan, startChain } from './scene.ts';

/**
 * Milliseconds between blocks, as on mainnet, because the poll interval of a status depends on it.
 */
const BLOCK_MS = 400;
const [SENDS, REQUESTS] = [5, 10];
const POLL_MS = 500;
const PATIENCE_MS = 900_000;

/**
 * Collects one period of `subscribers` subscriptions. Measures the seconds from the keeper's start
 * until all payments are recorded.
 */
export async function collectThroughProvider(
  { sql, url }: Database,
  subscribers: number,
): Promise<Result> {
  const chain = await startChain(BLOCK_MS);
  const plan = await openPlan(chain, subscribers, 2);
  await register(sql, chain, plan, timeOf(BigInt(await chain.now())));
  await chain.call('localnet_setFault', { kind: 'rate', sends: SENDS, requests: REQUESTS });
  const started = performance.now();
  const keeper = await startKeeper(chain, url, {
    SOLANA_SEND_RATE: String(SENDS),
    SOLANA_RPC_RATE: String(REQUESTS - SENDS),
  });
  while ((await countPaid(sql)) < subscribers) {
    if (performance.now() - started > PATIENCE_MS)
      throw new Error(`${await countPaid(sql)} of ${subscribers} payments were collected`);
    await pause(POLL_MS);
  }
  const seconds = (performance.now() - started) / 1000;
  const [requests, limited] = [await keeper.requests(), await keeper.limited()];
  await keeper.stop();
  chain.stop();
  return {
    figures: {
      providerPayments: subscribers,
      providerSeconds: seconds,
      providerRpcPerPayment: requests / subscribers,
      providerRequestsRefused: limited,
    },
    ratios: {},
  };
}
