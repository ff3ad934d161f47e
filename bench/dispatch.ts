// Compares the dispatcher with plain undici (the limit), graphile-worker and pg-boss, with the same
// job, Postgres and receiver process. Rounds alternate, and the limit is measured before and after
// each round. Ratios compare figures of one round, and results are medians.
import { claimCost } from './dispatch/claim-cost.ts';
import { healthyRate } from './dispatch/fairness.ts';
import { deliverGraphile, prepareGraphile } from './dispatch/graphile.ts';
import {
  fillQueue,
  median,
  seedApps,
  startReceivers,
  startServer,
  type Receivers,
  type Server,
} from './dispatch/harness.ts';
import { healthyMs } from './dispatch/head-of-line.ts';
import { latencyGraphile, latencyOurs, type Latency } from './dispatch/latency.ts';
import { sendLimit } from './dispatch/limit.ts';
import { deliverOurs } from './dispatch/ours.ts';
import { deliverPgBoss, preparePgBoss } from './dispatch/pgboss.ts';
import type { Result } from './run.ts';

const ROUNDS = 3;
// A round takes about 8 s. The one-time work of a dispatcher (start, learn that its endpoints
// respond, write the last outcomes) takes only 0.1 s of it.
const DELIVERIES = 100_000;
const PEER_DELIVERIES = 15_000;
const LIMIT_CONCURRENCY = 100;
const LATENCY_EVENTS = 500;
const CLAIM_ROUNDS = 105;
// The dispatcher sends as many concurrent requests as the limit. A single endpoint may use all of
// them. For fifty endpoints the default maximum per endpoint applies.
const throughput = {
  one: {
    WEBHOOK_CONCURRENCY: String(LIMIT_CONCURRENCY),
    WEBHOOK_ENDPOINT_CONCURRENCY: String(LIMIT_CONCURRENCY),
  },
  fifty: {
    WEBHOOK_CONCURRENCY: String(LIMIT_CONCURRENCY),
    WEBHOOK_HOST_CONCURRENCY: String(LIMIT_CONCURRENCY),
  },
};

interface Rates {
  limit: number[];
  ours: number[];
  toLimit: number[];
}

/** Runs one round of the dispatcher between two measurements of the limit. */
async function besideLimit(
  rates: Rates,
  receivers: Receivers,
  ours: () => Promise<number>,
): Promise<number> {
  const before = await sendLimit(receivers, DELIVERIES, LIMIT_CONCURRENCY);
  const rate = await ours();
  const after = await sendLimit(receivers, DELIVERIES, LIMIT_CONCURRENCY);
  rates.limit.push((before + after) / 2);
  rates.ours.push(rate);
  rates.toLimit.push(rate / ((before + after) / 2));
  return rate;
}

async function throughputs(server: Server): Promise<Result> {
  const [one, fifty] = [await startReceivers(1), await startReceivers(50)];
  const ours = {
    one: await server.database('ours_one'),
    fifty: await server.database('ours_fifty'),
  };
  const apps = {
    one: await seedApps(ours.one.sql, one.urls),
    fifty: await seedApps(ours.fifty.sql, fifty.urls),
  };
  const graphile = await server.database('graphile', true);
  await prepareGraphile(graphile);
  const pgBoss = await server.database('pgboss', true);
  const boss = await preparePgBoss(pgBoss);
  const rates = {
    one: { limit: [], ours: [], toLimit: [] } as Rates,
    fifty: { limit: [], ours: [], toLimit: [] } as Rates,
  };
  const peers = {
    graphile: [] as number[],
    pgBoss: [] as number[],
    toGraphile: [] as number[],
    toPgBoss: [] as number[],
  };
  // The first round is not counted, because it warms up the processes.
  for (let round = 0; round <= ROUNDS; round += 1) {
    const fresh = {
      one: { limit: [], ours: [], toLimit: [] } as Rates,
      fifty: { limit: [], ours: [], toLimit: [] } as Rates,
    };
    for (const name of ['one', 'fifty'] as const) {
      const { sql } = ours[name];
      await fillQueue(sql, apps[name], DELIVERIES);
      await sql`vacuum analyze`;
      await server.checkpoint();
      const receivers = name === 'one' ? one : fifty;
      await besideLimit(fresh[name], receivers, () =>
        deliverOurs(ours[name], receivers, DELIVERIES, throughput[name]),
      );
    }
    await server.checkpoint();
    const byGraphile = await deliverGraphile(graphile, one, PEER_DELIVERIES);
    await server.checkpoint();
    const byPgBoss = await deliverPgBoss(boss, pgBoss, one, PEER_DELIVERIES);
    if (round === 0) continue;
    for (const name of ['one', 'fifty'] as const) {
      for (const key of ['limit', 'ours', 'toLimit'] as const)
        rates[name][key].push(...fresh[name][key]);
    }
    const [rate = NaN] = fresh.one.ours;
    peers.graphile.push(byGraphile);
    peers.pgBoss.push(byPgBoss);
    peers.toGraphile.push(rate / byGraphile);
    peers.toPgBoss.push(rate / byPgBoss);
  }
  await boss.stop({ graceful: false });
  one.stop();
  fifty.stop();
  for (const database of [ours.one, ours.fifty, graphile, pgBoss]) await database.drop();
  return {
    figures: {
      deliveriesPerSecond: Math.round(median(rates.one.ours)),
      sendLimitPerSecond: Math.round(median(rates.one.limit)),
      deliveriesPerSecond50: Math.round(median(rates.fifty.ours)),
      sendLimitPerSecond50: Math.round(median(rates.fifty.limit)),
      graphileWorkerPerSecond: Math.round(median(peers.graphile)),
      pgBossPerSecond: Math.round(median(peers.pgBoss)),
    },
    ratios: {
      toSendLimit: median(rates.one.toLimit),
      toSendLimit50: median(rates.fifty.toLimit),
      toGraphileWorker: median(peers.toGraphile),
      toPgBoss: median(peers.toPgBoss),
    },
  };
}

async function latencies(server: Server): Promise<Result> {
  const receivers = await startReceivers(1);
  const taken = { ours: [] as Latency[], graphile: [] as Latency[] };
  for (let round = 0; round < 3; round += 1) {
    const ours = await server.database(`latency_ours_${round}`);
    taken.ours.push(await latencyOurs(ours, receivers, LATENCY_EVENTS));
    await ours.drop();
    const graphile = await server.database(`latency_graphile_${round}`, true);
    await prepareGraphile(graphile);
    taken.graphile.push(await latencyGraphile(graphile, receivers, LATENCY_EVENTS));
    await graphile.drop();
  }
  receivers.stop();
  const of = (list: Latency[], key: keyof Latency) => median(list.map((each) => each[key]));
  return {
    figures: {
      enqueueToReceiptP50Ms: of(taken.ours, 'p50'),
      enqueueToReceiptP99Ms: of(taken.ours, 'p99'),
      graphileWorkerP50Ms: of(taken.graphile, 'p50'),
      graphileWorkerP99Ms: of(taken.graphile, 'p99'),
    },
    ratios: { latencyP99ToGraphileWorker: of(taken.ours, 'p99') / of(taken.graphile, 'p99') },
  };
}

async function claims(server: Server): Promise<Result> {
  const [empty, full] = [await server.database('claim_empty'), await server.database('claim_full')];
  const { emptyMs, fullMs } = await claimCost(empty, full, CLAIM_ROUNDS);
  await empty.drop();
  await full.drop();
  return {
    figures: { claimEmptyMs: emptyMs, claimFullMs: fullMs },
    ratios: { claimCost: fullMs / emptyMs },
  };
}

async function headOfLine(server: Server): Promise<Result> {
  const taken = { alone: [] as number[], oneHangs: [] as number[], manyHang: [] as number[] };
  const alone = await startReceivers(1);
  const pair = await startReceivers(1, 1);
  const many = await startReceivers(1800, 200);
  const watch = async (name: keyof typeof taken, receivers: Receivers, backlog: number) => {
    const database = await server.database(`head_${name.toLowerCase()}`);
    taken[name].push(await healthyMs(database, receivers, backlog));
    await database.drop();
  };
  for (let round = 0; round < 3; round += 1) {
    await watch('alone', alone, 0);
    await watch('oneHangs', pair, 1000);
    await watch('manyHang', many, 10);
  }
  for (const receivers of [alone, pair, many]) receivers.stop();
  const [base, one, hundreds] = [
    median(taken.alone),
    median(taken.oneHangs),
    median(taken.manyHang),
  ];
  return {
    figures: {
      healthyAloneMs: base,
      healthyBesideOneHungMs: one,
      healthyBeside200HungMs: hundreds,
    },
    ratios: { headOfLine: one / base, headOfLine2000: hundreds / base },
  };
}

/**
 * Measures the deliveries per second of a healthy endpoint next to slow endpoints with a backlog.
 */
async function fairness(server: Server): Promise<Result> {
  const scenes = {
    alone: await startReceivers(1),
    besideHalf: await startReceivers(21, 0, 500),
    besideFive: await startReceivers(101, 0, 4900),
  };
  const rates = { alone: [] as number[], besideHalf: [] as number[], besideFive: [] as number[] };
  for (let round = 0; round < 3; round += 1) {
    for (const name of ['alone', 'besideHalf', 'besideFive'] as const) {
      const database = await server.database(`fairness_${name.toLowerCase()}`);
      rates[name].push(await healthyRate(database, scenes[name]));
      await database.drop();
    }
  }
  for (const receivers of Object.values(scenes)) receivers.stop();
  const alone = median(rates.alone);
  const slowest = Math.min(median(rates.besideHalf), median(rates.besideFive));
  return {
    figures: {
      healthyAlonePerSecond: Math.round(alone),
      healthyBeside20HalfSecondPerSecond: Math.round(median(rates.besideHalf)),
      healthyBeside100FiveSecondPerSecond: Math.round(median(rates.besideFive)),
    },
    ratios: { besideSlow: slowest / alone },
  };
}

const parts = {
  throughput: throughputs,
  latency: latencies,
  headOfLine,
  claimCost: claims,
  fairness,
};

/** Runs all parts on one server, or only the given part. */
export async function run(only?: string): Promise<Result> {
  const chosen = Object.entries(parts).filter(([name]) => only === undefined || name === only);
  if (chosen.length === 0)
    throw new Error(
      `there is no part "${only ?? ''}": give one of ${Object.keys(parts).join(', ')}`,
    );
  const server = await startServer();
  const results: Result[] = [];
  for (const [, part] of chosen) results.push(await part(server));
  await server.stop();
  return {
    figures: Object.assign({}, ...results.map(({ figures }) => figures)) as Result['figures'],
    ratios: Object.assign({}, ...results.map(({ ratios }) => ratios)) as Result['ratios'],
  };
}
