// The keeper beside the local chain's own limit for the same pre-signed payments, and what claims and sweeps cost in tables of three sizes. The
// chain, the keeper and Postgres (durable) are processes of their own. Rounds alternate; the figures are medians.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { median, startServer } from './dispatch/harness.ts';
import { prepareClaims, type Costs } from './keeper/claim-cost.ts';
import { startCollecting } from './keeper/collect.ts';
import { batchLimit, singleLimit } from './keeper/limit.ts';
import { openPlan, startChain } from './keeper/scene.ts';
import type { Result } from './run.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
// A round's end (blocks until the last payment is final, 0.8 s here) and its beginning are no part of what a keeper can do in the long run: rounds are
// so long that they weigh little.
const SUBSCRIBERS = 16_000;
const ROUNDS = 3;
const SIZES = [10_000, 1_000_000, 10_000_000] as const;
const CLAIM_ROUNDS = 35;
const WARM_UP = 5;

/** Payments per second, and RPC requests for each. */
async function throughput(): Promise<Result> {
  const server = await startServer();
  // The limit is that of a chain that nobody else listens to.
  const [chain, alone] = [await startChain(), await startChain()];
  const database = await server.database('payments');
  const [plan, due] = await Promise.all([
    openPlan(alone, SUBSCRIBERS, 2 * ROUNDS + 1),
    openPlan(chain, SUBSCRIBERS, ROUNDS + 1),
  ]);
  const collecting = await startCollecting(chain, due, database);
  const taken = {
    single: [await singleLimit(alone, plan, 0)],
    batch: [] as number[],
    keeper: [] as number[],
    ratio: [] as number[],
    requests: [] as number[],
  };
  for (let round = 1; round <= ROUNDS; round += 1) {
    const { perSecond, requests } = await collecting.round();
    const limit = await singleLimit(alone, plan, 2 * round);
    // The limit before a round and the one after it: the machine is not equally fast all the time.
    taken.ratio.push((2 * perSecond) / ((taken.single.at(-1) ?? limit) + limit));
    taken.single.push(limit);
    taken.keeper.push(perSecond);
    taken.requests.push(requests);
    taken.batch.push(await batchLimit(alone, plan, 2 * round + 1));
  }
  await collecting.stop();
  for (const one of [chain, alone]) one.stop();
  await database.drop();
  await server.stop();
  return {
    figures: {
      paymentsPerSecond: median(taken.keeper),
      chainLimitPerSecond: median(taken.single),
      chainLimitInBatchesPerSecond: median(taken.batch),
      extraRpcPerPayment: median(taken.requests) - 1,
    },
    ratios: {
      paymentsToChainLimit: median(taken.ratio),
      paymentsToChainLimitInBatches: median(taken.keeper) / median(taken.batch),
    },
  };
}

/** The dearest of the three sizes to the cheapest. */
async function claims(): Promise<Result> {
  // Big tables are filled without going through the WAL as well; what is measured goes there as ever.
  const server = await startServer({ wal_level: 'minimal', max_wal_senders: '0' });
  const databases = [];
  const costs: Costs[] = [];
  const started = performance.now();
  for (const size of SIZES) {
    const database = await server.database(`claims_${size}`);
    databases.push(database);
    costs.push(await prepareClaims(database, size));
  }
  const builtSeconds = (performance.now() - started) / 1000;
  await server.checkpoint();
  const claim = SIZES.map((): number[] => []);
  const sweep = SIZES.map((): number[] => []);
  for (let round = 0; round < CLAIM_ROUNDS; round += 1) {
    for (const [place, cost] of costs.entries()) {
      const pair = [await cost.claim(), await cost.sweep()] as const;
      if (round < WARM_UP) continue;
      claim[place]?.push(pair[0]);
      sweep[place]?.push(pair[1]);
    }
  }
  for (const database of databases) await database.drop();
  await server.stop();
  const [claimed, swept] = [claim.map(median), sweep.map(median)];
  const spread = (values: number[]) => Math.max(...values) / Math.min(...values);
  return {
    figures: {
      claim1000Of10kMs: claimed[0] ?? NaN,
      claim1000Of1MMs: claimed[1] ?? NaN,
      claim1000Of10MMs: claimed[2] ?? NaN,
      sweepOf10kMs: swept[0] ?? NaN,
      sweepOf1MMs: swept[1] ?? NaN,
      sweepOf10MMs: swept[2] ?? NaN,
      tablesBuiltSeconds: builtSeconds,
    },
    ratios: {
      claimCost: Math.max(spread(claimed), spread(swept)),
      claimCostClaims: spread(claimed),
      claimCostSweeps: spread(swept),
    },
  };
}

const PARTS: Readonly<Record<string, () => Promise<Result>>> = { throughput, claims };

/** Runs the benchmark, or one part of it: throughput, claims. */
export async function run(only?: string): Promise<Result> {
  const parts = only === undefined ? Object.values(PARTS) : [PARTS[only]];
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio: ['ignore', 2, 2] });
  const results: Result[] = [];
  for (const part of parts) {
    if (part === undefined)
      throw new RangeError(`the parts are ${Object.keys(PARTS).join(' and ')}, not ${only ?? ''}`);
    results.push(await part());
  }
  return {
    figures: Object.assign({}, ...results.map(({ figures }) => figures)) as Result['figures'],
    ratios: Object.assign({}, ...results.map(({ ratios }) => ratios)) as Result['ratios'],
  };
}
