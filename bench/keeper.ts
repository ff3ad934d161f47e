// Compares the keeper with the limit of the local chain for the same payments. Other parts measure
// payers without money, a provider with low rate limits, and claims and sweeps in tables of three
// sizes. Chain, keeper and a durable Postgres are separate processes. Rounds alternate, and figures
// are medians.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { median, startServer } from './dispatch/harness.ts';
import { prepareClaims, type Costs } from './keeper/claim-cost.ts';
import { type Round, startCollecting } from './keeper/collect.ts';
import { setBalances, startDrain } from './keeper/drain.ts';
import { batchLimit, LIMIT_BLOCK_MS, singleLimit } from './keeper/limit.ts';
import { collectThroughProvider } from './keeper/provider.ts';
import { AMOUNT, openPlan, startChain } from './keeper/scene.ts';
import type { Result } from './run.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
// Rounds are long, so that their start and their end (0.8 s until the last payment is finalized)
// have little weight. SUBSCRIBERS in the environment makes rounds shorter.
const SUBSCRIBERS = Number(process.env['SUBSCRIBERS'] ?? 16_000);
const ROUNDS = 3;
/** One in this many payers cannot pay. */
const STOPPED_ONE_OF = 10;
const PROVIDER_SUBSCRIBERS = Number(process.env['SUBSCRIBERS'] ?? 10_000);
const SIZES = [10_000, 1_000_000, 10_000_000] as const;
const CLAIM_ROUNDS = 35;
const WARM_UP = 5;

const medianOf = (rounds: readonly Round[], figure: keyof Round) =>
  median(rounds.map((round) => round[figure]));

/** Measures payments per second, and RPC requests and lamports per payment. */
async function throughput(): Promise<Result> {
  const server = await startServer();
  // The limit is measured on a separate chain, which has no WebSocket subscriptions.
  const [chain, alone] = [await startChain(), await startChain(LIMIT_BLOCK_MS)];
  const database = await server.database('payments');
  const [plan, due] = await Promise.all([
    openPlan(alone, SUBSCRIBERS, 2 * ROUNDS + 1),
    openPlan(chain, SUBSCRIBERS, ROUNDS + 1),
  ]);
  const collecting = await startCollecting(chain, due, database);
  const single = [await singleLimit(alone, plan, 0)];
  const batch: number[] = [];
  const rounds: Round[] = [];
  const ratio: number[] = [];
  for (let number = 1; number <= ROUNDS; number += 1) {
    const round = await collecting.round();
    const limit = await singleLimit(alone, plan, 2 * number);
    // The limit is measured before and after each round, because the speed of the machine varies.
    ratio.push((2 * round.perSecond) / ((single.at(-1) ?? limit) + limit));
    single.push(limit);
    rounds.push(round);
    batch.push(await batchLimit(alone, plan, 2 * number + 1));
  }
  await collecting.stop();
  for (const one of [chain, alone]) one.stop();
  await database.drop();
  await server.stop();
  const paymentsPerSecond = medianOf(rounds, 'perSecond');
  return {
    figures: {
      paymentsPerSecond,
      chainLimitPerSecond: median(single),
      chainLimitInBatchesPerSecond: median(batch),
      lamportsPerPayment: medianOf(rounds, 'lamports'),
    },
    ratios: {
      paymentsToChainLimit: median(ratio),
      paymentsToChainLimitInBatches: paymentsPerSecond / median(batch),
      rpcPerPayment: medianOf(rounds, 'requests'),
    },
  };
}

/**
 * Measures payments per second when one payer in ten spends its money just after its balance is
 * read, compared with rounds in which all payers can pay.
 */
async function payerStopped(): Promise<Result> {
  const server = await startServer();
  const chain = await startChain();
  const database = await server.database('payers');
  const plan = await openPlan(chain, SUBSCRIBERS, 2 * ROUNDS + 1);
  const drain = await startDrain(chain);
  const collecting = await startCollecting(chain, plan, database, { SOLANA_RPC_URL: drain.url });
  const wallets = plan.subscribers.map(({ wallet }) => wallet);
  const enough = Number(AMOUNT) * (2 * ROUNDS + 1);
  const [without, stopped]: [Round[], Round[]] = [[], []];
  for (let number = 0; number < ROUNDS; number += 1) {
    const chosen = wallets.filter((_, index) => index % STOPPED_ONE_OF === number);
    // Both rounds write the same number of balances, so that the chain has the same load.
    drain.arm(chosen, enough);
    without.push(await collecting.round());
    drain.arm(chosen, 0);
    stopped.push(await collecting.round(wallets.length - chosen.length));
    if (drain.armed() > 0) throw new Error(`${drain.armed()} balances were not read`);
    await setBalances(chain, chosen, enough);
    // The keeper reads at commitment confirmed, and two blocks confirm the balances.
    await chain.call('localnet_mineBlocks', 2);
    await collecting.recovered();
  }
  await collecting.stop();
  drain.close();
  chain.stop();
  await database.drop();
  await server.stop();
  return {
    figures: {
      payerStoppedPerSecond: medianOf(stopped, 'perSecond'),
      payerNotStoppedPerSecond: medianOf(without, 'perSecond'),
      payerStoppedLamportsPerPayment: medianOf(stopped, 'lamports'),
    },
    ratios: {
      payerStopped: median(
        stopped.map(({ perSecond }, index) => perSecond / (without[index]?.perSecond ?? NaN)),
      ),
      payerStoppedRpcPerPayment: medianOf(stopped, 'requests'),
    },
  };
}

/**
 * Measures one period of 10,000 subscriptions through a provider that allows 5 sends and 10
 * requests per second.
 */
async function provider(): Promise<Result> {
  const server = await startServer();
  const database = await server.database('provider');
  try {
    return await collectThroughProvider(database, PROVIDER_SUBSCRIBERS);
  } finally {
    await database.drop();
    await server.stop();
  }
}

/**
 * Measures claims and sweeps in tables of three sizes. The ratios compare the slowest size with the
 * fastest.
 */
async function claims(): Promise<Result> {
  // With this setting the big tables are filled without WAL. The measured statements write WAL as
  // usual.
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
    for (const [index, cost] of costs.entries()) {
      const pair = [await cost.claim(), await cost.sweep()] as const;
      if (round < WARM_UP) continue;
      claim[index]?.push(pair[0]);
      sweep[index]?.push(pair[1]);
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

const PARTS: Readonly<Record<string, () => Promise<Result>>> = {
  throughput,
  payerStopped,
  provider,
  claims,
};

/** Runs all parts of the benchmark, or only the part `only`. */
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
