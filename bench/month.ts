// The cost of payments over a month. Monthly subscriptions become due at random times; one in
// twenty has no money and one in fifty is cancelled. The clock jumps from one due time to the next.
// The requests of an idle keeper are measured in real time and added for the skipped time.
import { execFileSync } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { decodeSubscription } from '../src/chain/program/layouts.ts';
import { SUBSCRIPTIONS_DUE } from '../src/db/postgres/notify.ts';
import { type Database, type Server, startServer } from './dispatch/harness.ts';
import { countPaid, register } from './keeper/collect.ts';
import { countingProxy } from './keeper/counting-proxy.ts';
import { startKeeper } from './keeper/keeper-process.ts';
import { atOnce, type Chain, openPlan, type Plan, startChain } from './keeper/scene.ts';
import type { Result } from './run.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PERIOD_HOURS = 720;
const PERIOD = PERIOD_HOURS * 3600;
const HOUR = 3600;
const DAY = 24 * HOUR;
/** Seconds between two sweeps, the default of SWEEP_MINUTES. */
const LAP_SECONDS = 12 * HOUR;
/** Longer than every read interval of an idle keeper. */
const REST_SECONDS = 330;
const BLOCK_MS = 400;
const SETTLING_MS = 20_000;
const PATIENCE_MS = 120_000;
const POLL_MS = 15;
/** Offsets in the data of a subscription account (src/chain/program/layouts.ts). */
const [PERIOD_START_AT, EXPIRES_AT] = [139, 147];

/**
 * One run. `window` is in seconds, `seconds` is the simulated chain time, and `blockMs` is the real
 * time between two blocks.
 */
interface Scenario {
  readonly subscriptions: number;
  readonly window: number;
  readonly seconds: number;
  readonly blockMs: number;
}

/** Default number of days. The run then spends about six minutes collecting. */
const daysOf = (subscriptions: number) => (subscriptions <= 10_000 ? 1 : 0.25);

/**
 * Parses a scenario: "10000x3600x7x40" is 10,000 subscriptions, a window of 3,600 s, seven days and
 * blocks of 40 ms.
 */
function scenarioOf(part: string): Scenario {
  const [subscriptions = 0, window = 900, days = daysOf(subscriptions), blockMs = BLOCK_MS] = part
    .split('x')
    .map(Number);
  return { subscriptions, window, seconds: days * DAY, blockMs };
}

/** Returns a pseudorandom number between 0 and 1 that depends only on the seed (mulberry32). */
function fraction(seed: number): number {
  let a = (seed + 0x6d2b79f5) | 0;
  a = Math.imul(a ^ (a >>> 15), a | 1);
  a ^= a + Math.imul(a ^ (a >>> 7), a | 61);
  return ((a ^ (a >>> 14)) >>> 0) / 2 ** 32;
}

const isPoor = (number: number) => number % 20 === 7;
const isCancelled = (number: number) => number % 50 === 3;

/**
 * Sets a different start of the period in each account on chain, within the last 30 days. Returns
 * the starts in Unix seconds.
 */
async function spread({ call }: Chain, { subscribers }: Plan, now: number): Promise<number[]> {
  const starts = subscribers.map((_, number) => now - Math.floor(fraction(number) * PERIOD));
  await atOnce(Math.ceil(subscribers.length / 100), async (batch) => {
    const some = subscribers.slice(batch * 100, batch * 100 + 100);
    const { value } = await call<{ value: { data: [string] }[] }>(
      'getMultipleAccounts',
      some.map(({ subscription }) => subscription),
      { encoding: 'base64', commitment: 'processed' },
    );
    for (const [index, { data }] of value.entries()) {
      const number = batch * 100 + index;
      const bytes = Buffer.from(data[0], 'base64');
      decodeSubscription(bytes);
      bytes.writeBigInt64LE(BigInt(starts[number] ?? now), PERIOD_START_AT);
      if (isCancelled(number))
        bytes.writeBigInt64LE(BigInt((starts[number] ?? now) + PERIOD), EXPIRES_AT);
      await call('surfnet_setAccount', some[index]?.subscription, { data: bytes.toString('hex') });
    }
  });
  return starts;
}

/** Registers the subscriptions as paid for the current period. */
async function registerSpread(
  { sql }: Database,
  chain: Chain,
  plan: Plan,
  starts: readonly number[],
): Promise<void> {
  await register(sql, chain, plan, new Date(), PERIOD_HOURS);
  const rows = plan.subscribers.map(({ subscription }, number) => ({
    pda: subscription,
    start: starts[number],
    cancelled: isCancelled(number),
  }));
  await sql`
    with v as (
      select pda, start + ${PERIOD}::int8 as ends, start, cancelled
      from json_to_recordset(${JSON.stringify(rows)}::text::json)
        as v (pda text, start int8, cancelled bool)
    ), paid as (
      update subscriptions s set period_anchor = to_timestamp(v.start),
        next_payment_due = case when not v.cancelled then to_timestamp(v.ends) end,
        cancel_requested_at = case when v.cancelled then now() end,
        cancel_requested_by = case when v.cancelled then 'subscriber' end
      from v where s.subscription_pda = v.pda
      returning s.id, v.ends, v.cancelled
    )
    update subscription_work set paid_through = to_timestamp(ends),
      due_at = to_timestamp(ends - case when cancelled then 0 else 259200 end)
    from paid where subscription_id = id`;
  await sql`vacuum analyze`;
}

/** Waits until nothing is due at the chain time `at` (Unix seconds) and no attempt is open. */
async function settled({ sql }: Database, at: number): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const [row] = await sql<[{ left: boolean }]>`
      select exists (select from subscription_work where due_at <= to_timestamp(${at}))
        or exists (select from payment_attempts where state = 'open') as left`;
    if (!row.left) return;
    if (performance.now() > deadline) throw new Error('the keeper does not come to its end');
    await pause(POLL_MS);
  }
}

/**
 * Simulates `seconds` of chain time. The clock jumps to each due time and to each start of a sweep.
 */
async function play(
  chain: Chain,
  database: Database,
  { from, seconds }: { from: number; seconds: number },
): Promise<void> {
  const { sql } = database;
  const end = from + seconds;
  let now = from;
  let lapAt = from + LAP_SECONDS;
  for (;;) {
    const [{ due }] = await sql<[{ due: number | null }]>`
      select extract(epoch from min(due_at))::float8 as due from subscription_work`;
    const next = Math.min(due === null ? end : Math.ceil(due), lapAt, end);
    // The clock advances during the request and cannot go back, so a few seconds are added.
    now = Math.max(next, (await chain.now()) + 5);
    await chain.call('surfnet_timeTravel', { absoluteTimestamp: now * 1000 });
    if (now >= end) return;
    if (now >= lapAt) {
      lapAt += LAP_SECONDS;
      await lapOver(sql);
    }
    await sql.notify(SUBSCRIPTIONS_DUE, '');
    await settled(database, now);
  }
}

/** Makes the keeper run a complete sweep now. */
async function lapOver(sql: Database['sql']): Promise<void> {
  const lap = async () => (await sql<[{ lap: bigint }]>`select lap from sweeps`)[0].lap;
  const before = await lap();
  // The start lies so far back that the keeper runs all steps of the sweep without a pause.
  await sql`update sweeps set starts_at = now() - interval '1 day'`;
  while ((await lap()) === before) await pause(POLL_MS);
  await sql`update sweeps set starts_at = now() + interval '1 day'`;
}

interface Counted {
  readonly payments: number;
  readonly requests: number;
  readonly lamports: number;
}

async function playScenario(
  server: Server,
  { subscriptions, window, seconds, blockMs }: Scenario,
): Promise<Counted> {
  const chain = await startChain(blockMs);
  const database = await server.database('month');
  const plan = await openPlan(
    chain,
    subscriptions,
    (number) => (isPoor(number) ? 0 : 3),
    PERIOD_HOURS,
  );
  const from = (await chain.now()) + HOUR;
  await registerSpread(database, chain, plan, await spread(chain, plan, from));
  const keeper = await startKeeper(chain, database.url, {
    COLLECTION_WINDOW_SECONDS: String(window),
  });
  const lap = async () => (await database.sql<[{ lap: bigint }]>`select lap from sweeps`)[0].lap;
  // The keeper sweeps once when its streams start. Payments that became due during the preparation
  // are not counted.
  while ((await lap()) === 0n) await pause(POLL_MS);
  await chain.call('surfnet_timeTravel', { absoluteTimestamp: from * 1000 });
  await settled(database, from);
  await pause(SETTLING_MS);
  await database.sql`update sweeps set starts_at = now() + interval '1 day'`;
  const balance = () => chain.call<{ value: number }>('getBalance', chain.keeper.address);
  const before = {
    requests: await keeper.requests(),
    balance: (await balance()).value,
    paid: await countPaid(database.sql),
  };
  await play(chain, database, { from, seconds });
  const counted = {
    payments: (await countPaid(database.sql)) - before.paid,
    requests: (await keeper.requests()) - before.requests,
    lamports: before.balance - (await balance()).value,
  };
  await keeper.stop();
  chain.stop();
  await database.drop();
  return counted;
}

interface Rest {
  readonly requests: number;
  readonly bytes: number;
}

/**
 * Returns the requests per second of a keeper without subscriptions and the bytes per second of its
 * streams, measured in real time with blocks of 400 ms.
 */
async function atRest(server: Server): Promise<Rest> {
  const chain = await startChain(BLOCK_MS);
  const database = await server.database('rest');
  const proxy = await countingProxy(chain.wsUrl);
  const keeper = await startKeeper(chain, database.url, { SOLANA_WS_URL: proxy.url });
  await pause(SETTLING_MS);
  const [requests, bytes] = [await keeper.requests(), proxy.bytes()];
  await pause(REST_SECONDS * 1000);
  const rest = {
    requests: ((await keeper.requests()) - requests) / REST_SECONDS,
    bytes: (proxy.bytes() - bytes) / REST_SECONDS,
  };
  await keeper.stop();
  proxy.close();
  chain.stop();
  await database.drop();
  return rest;
}

/** Runs all scenarios, or only those in `part`, such as "1000x900,10000x3600x7". */
export async function run(part?: string): Promise<Result> {
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio: ['ignore', 2, 2] });
  const server = await startServer();
  try {
    return await costs(server, part);
  } finally {
    await server.stop();
  }
}

async function costs(server: Server, part: string | undefined): Promise<Result> {
  const parts = part?.split(',') ?? ['1000x900', '10000x3600', '100000x900'];
  const { requests: rest, bytes } = await atRest(server);
  const figures: Record<string, number> = {
    requestsPerMonthIdle: Math.round(rest * 30 * DAY),
    streamMegabytesPerMonthIdle: Math.round((bytes * 30 * DAY) / 1e6),
  };
  for (const one of parts) {
    const scenario = scenarioOf(one);
    const { payments, requests, lamports } = await playScenario(server, scenario);
    console.error(JSON.stringify({ part: one, payments, requests, lamports, rest }));
    const idle = rest * scenario.seconds;
    const name = scenario.window === 900 ? String(scenario.subscriptions) : one;
    figures[`payments${name}`] = payments;
    figures[`lamportsPerPayment${name}`] = lamports / payments;
    figures[`rpcPerPayment${name}`] = (requests + idle) / payments;
    figures[`requestsPerMonth${name}`] = Math.round(
      ((requests + idle) * 30 * DAY) / scenario.seconds,
    );
  }
  return { figures, ratios: {} };
}
