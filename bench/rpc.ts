// Extrapolates a keeper's RPC requests in a month from three measurements: while idle, for a sweep,
// and for payments that become due one by one. The clock jumps to each payment. Blocks take 400 ms,
// so finality takes as long as on mainnet.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { timeOf } from '../src/chain/time.ts';
import { type Database, startServer } from './dispatch/harness.ts';
import { register } from './keeper/collect.ts';
import { type KeeperProcess, startKeeper } from './keeper/keeper-process.ts';
import { type Chain, openPlan, startChain } from './keeper/scene.ts';
import type { Result } from './run.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const BLOCK_MS = 400;
const SUBSCRIBERS = 4000;
/** Number of payments that are due one by one. */
const PAYMENTS = 10;
const DAY = 86_400;
/** Seconds between these payments. All of them are in one period. */
const STEP_SECONDS = 600;
const MONTH_SECONDS = 30 * DAY;
const LAPS_A_MONTH = MONTH_SECONDS / 3600;
/** Longer than every read interval of an idle keeper. */
const REST_SECONDS = 360;
const SETTLING_MS = 20_000;
const PATIENCE_MS = 180_000;

interface Proxy {
  readonly url: string;
  /** Returns the number of bytes received from the chain. */
  bytes(): number;
  close(): void;
}

/** Starts a proxy that forwards a WebSocket connection and counts the bytes. */
async function countingProxy(target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  let bytes = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    upstream.on('data', (chunk) => (bytes += chunk.length));
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream])
      socket.on('error', () => [client, upstream].forEach((one) => one.destroy()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bytes: () => bytes,
    close: () => server.close(),
  };
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`it does not happen that ${what}`);
    await pause(200);
  }
}

/**
 * Returns the requests per second and the stream's bytes per second of a keeper without
 * subscriptions.
 */
async function atRest(keeper: KeeperProcess, proxy: Proxy) {
  await pause(SETTLING_MS);
  const [requests, bytes] = [await keeper.requests(), proxy.bytes()];
  await pause(REST_SECONDS * 1000);
  return {
    requests: ((await keeper.requests()) - requests) / REST_SECONDS,
    bytes: (proxy.bytes() - bytes) / REST_SECONDS,
  };
}

/** Returns the number of requests of one complete sweep. */
async function ofLap(keeper: KeeperProcess, { sql }: Database): Promise<number> {
  const lap = async () => (await sql<[{ lap: bigint }]>`select lap from sweeps`)[0].lap;
  // The first sweep follows the start of the streams and is not counted.
  await until('the first lap is over', async () => (await lap()) > 0n);
  await pause(SETTLING_MS);
  const [requests, before] = [await keeper.requests(), await lap()];
  await sql`update sweeps set starts_at = now() - interval '1 hour'`;
  await until('the lap is over', async () => (await lap()) > before);
  return (await keeper.requests()) - requests;
}

/**
 * Returns the requests per payment, for payments that become due one by one. The first payment is
 * due at `first` (Unix seconds).
 */
async function ofPayment(
  keeper: KeeperProcess,
  chain: Chain,
  { sql }: Database,
  first: number,
): Promise<number> {
  const requests = await keeper.requests();
  for (let paid = 1; paid <= PAYMENTS; paid += 1) {
    await chain.call('surfnet_timeTravel', {
      absoluteTimestamp: (first + (paid - 1) * STEP_SECONDS + 1) * 1000,
    });
    await until('it is paid', async () => {
      const [row] = await sql<[{ count: number }]>`
        select count(*)::int as count from payments p where status = 'succeeded'
          and not exists (select from payment_attempts where state = 'open')`;
      if (row.count > paid) throw new Error('more than one payment fell due');
      return row.count === paid;
    });
  }
  return ((await keeper.requests()) - requests) / PAYMENTS;
}

export async function run(): Promise<Result> {
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio: ['ignore', 2, 2] });
  const server = await startServer();
  const chain = await startChain(BLOCK_MS);
  const [empty, full] = [await server.database('rpc_empty'), await server.database('rpc_full')];
  const proxy = await countingProxy(chain.wsUrl);
  const resting = await startKeeper(chain, empty.url, { SOLANA_WS_URL: proxy.url });
  const rest = await atRest(resting, proxy);
  await resting.stop();

  const plan = await openPlan(chain, SUBSCRIBERS, 2);
  const now = await chain.now();
  const first = now + 3600;
  await register(full.sql, chain, plan, timeOf(BigInt(now + 365 * DAY)));
  await full.sql`
    update subscriptions s set due_at = v.due, next_payment_due = v.due
    from (select id, to_timestamp(${first}::int8 + (row_number() over (order by id) - 1) * ${STEP_SECONDS}::int) as due
      from subscriptions order by id limit ${PAYMENTS}) v
    where s.id = v.id`;
  const keeper = await startKeeper(chain, full.url, { SOLANA_WS_URL: proxy.url });
  const lap = await ofLap(keeper, full);
  const payment = await ofPayment(keeper, chain, full, first);
  await keeper.stop();

  proxy.close();
  chain.stop();
  for (const database of [empty, full]) await database.drop();
  await server.stop();
  const month = (subscriptions: number) =>
    rest.requests * MONTH_SECONDS +
    (lap * LAPS_A_MONTH * subscriptions) / SUBSCRIBERS +
    payment * subscriptions;
  return {
    figures: {
      requestsPerMonthIdle: Math.round(month(0)),
      requestsPerMonth1000: Math.round(month(1000)),
      requestsPerMonth100000: Math.round(month(100_000)),
      requestsPerPayment: payment,
      requestsPerLapOf1000: (lap * 1000) / SUBSCRIBERS,
      streamMegabytesPerMonthIdle: (rest.bytes * MONTH_SECONDS) / 1e6,
    },
    ratios: {},
  };
}
