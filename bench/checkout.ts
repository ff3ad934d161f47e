// Times sponsored checkouts, from the POST of the signed transaction until a page sees it confirmed
// and final. Blocks take 400 ms. Plain transfers in the same run show the time that the chain
// itself needs. Chain, serve, one keeper and Postgres are separate processes.
import { execFileSync } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { addSignature } from '../src/chain/transactions/message.ts';
import { type Checkouts, startCheckouts, type Wallet } from './checkout/checkouts.ts';
import { median, quantile, startServer } from './dispatch/harness.ts';
import { startChain } from './keeper/scene.ts';
import type { Result } from './run.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Milliseconds between blocks, as on a public cluster. */
const BLOCK_MS = 400;
/**
 * Number of checkouts at random times, on average PER_SECOND per second. A plain transfer is sent
 * with each of them.
 */
const ALONE = 60;
const PER_SECOND = 1;
/** Number of checkouts whose transactions are posted at the same time. */
const TOGETHER = 200;

/** Runs `one` for each wallet at random times. Resolves when all runs have ended. */
async function atRandom<T>(
  wallets: readonly Wallet[],
  one: (wallet: Wallet) => Promise<T>,
): Promise<T[]> {
  const running: Promise<T>[] = [];
  for (const wallet of wallets) {
    running.push(one(wallet));
    await pause((-Math.log(1 - Math.random()) * 1000) / PER_SECOND);
  }
  return Promise.all(running);
}

async function alone(checkouts: Checkouts) {
  const checkout = async (wallet: Wallet) => {
    const offer = await checkouts.offer(wallet);
    const transaction = addSignature(wallet.keypair, offer.transaction);
    const [posted, directMs] = [checkouts.post(wallet, offer, transaction), checkouts.transfer()];
    return { ...(await posted), directMs: await directMs };
  };
  const [first, ...wallets] = await checkouts.fund(1 + ALONE);
  // The first checkout is not measured, because the processes then load modules on demand.
  if (first !== undefined) await checkout(first);
  const requests = await checkouts.requests();
  const took = await atRandom(wallets, checkout);
  return { took, requests: ((await checkouts.requests()) - requests) / ALONE };
}

/** Posts many signed transactions at the same time, and waits until all of them are confirmed. */
async function together(checkouts: Checkouts) {
  const wallets = await checkouts.fund(TOGETHER);
  const signed = await Promise.all(
    wallets.map(async (wallet) => {
      const offer = await checkouts.offer(wallet);
      return { wallet, offer, transaction: addSignature(wallet.keypair, offer.transaction) };
    }),
  );
  const requests = await checkouts.requests();
  const startedAt = performance.now();
  const took = await Promise.all(
    signed.map(async ({ wallet, offer, transaction }) => {
      const { confirmedAt } = await checkouts.post(wallet, offer, transaction);
      return confirmedAt - startedAt;
    }),
  );
  return {
    perSecond: (1000 * TOGETHER) / Math.max(...took),
    requests: ((await checkouts.requests()) - requests) / TOGETHER,
  };
}

export async function run(): Promise<Result> {
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio: ['ignore', 2, 2] });
  const server = await startServer();
  const chain = await startChain(BLOCK_MS);
  const database = await server.database('checkout');
  const checkouts = await startCheckouts(chain, database);
  const one = await alone(checkouts);
  const many = await together(checkouts);
  await checkouts.stop();
  chain.stop();
  await database.drop();
  await server.stop();
  const confirmed = one.took.map(({ confirmedMs }) => confirmedMs);
  const final = one.took.map(({ finalMs }) => finalMs);
  const directMs = median(one.took.map(({ directMs: ms }) => ms));
  return {
    figures: {
      confirmedBlocksP95: (quantile(confirmed, 0.95) - directMs) / BLOCK_MS,
      confirmedP50Ms: median(confirmed),
      confirmedP95Ms: quantile(confirmed, 0.95),
      finalP50Ms: median(final),
      finalP95Ms: quantile(final, 0.95),
      transferConfirmedP50Ms: directMs,
      requestsPerCheckout: one.requests,
      requestsPerCheckoutTogether: many.requests,
      checkoutsPerSecond: many.perSecond,
    },
    ratios: {},
  };
}
