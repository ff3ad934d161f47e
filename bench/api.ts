// Requests per second and p99 of one process of the API, beside bare Fastify with one statement per request, on the same durable Postgres.
// Servers run in processes of their own and this one is the load: 64 requests under way, each by another of a thousand merchants. Rounds alternate;
// the figures are medians.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Pool } from 'undici';
import { connect, type Sql } from '../src/db/connect.ts';
import { migrate } from '../src/db/migrate.ts';
import { generateKey } from '../src/domain/keys.ts';
import { startEmbeddedPostgres } from '../src/sandbox/postgres.ts';
import type { Subject } from './api/serve.ts';
import type { Result } from './run.ts';

const UNDER_WAY = 64;
const ROUNDS = 30;
const WARM_UP_MS = 2_000;
const ROUND_MS = 500;
const MERCHANTS = 1_000;

interface Caller {
  merchantId: string;
  appId: string;
  key: string;
}

const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

interface Target {
  pool: Pool;
  path: (caller: Caller) => string;
  /** Whether it wants a key. */
  asCaller: boolean;
}

interface Measured {
  perSecond: number;
  p99Ms: number;
}

/** A merchant of its own for each of the requests under way, and many more; each with an app of 100 subscriptions and a key. */
async function seed(sql: Sql): Promise<Caller[]> {
  await sql`insert into merchants (wallet, name, email, tier) select 'wallet' || n, 'Merchant', 'a@b.test', 'pro' from generate_series(1, ${MERCHANTS}) as n`;
  await sql`insert into apps (merchant_id, name) select id, 'App' from merchants`;
  await sql`
    insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
    select id, 'Plan', 'pda' || id, 1, 'owner', 'mint', 'treasury', 'puller', 100, 730, 'active', now() from apps`;
  await sql`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, paid_through, next_payment_due, external_id)
    select app_id, id, md5(id::text || n) || '000000000000', md5('wallet' || n) || '000000000000', 10000000, 730, now(), now(), 'customer-' || n
    from plans, generate_series(1, 100) as n`;
  const apps = await sql<{ id: string; merchantId: string }[]>`select id, merchant_id from apps`;
  const callers: Caller[] = [];
  for (const { id: appId, merchantId } of apps) {
    const { key, prefix, hash } = generateKey('development');
    await sql`insert into api_keys (merchant_id, prefix, hash) values (${merchantId}, ${prefix}, ${hash})`;
    callers.push({ merchantId, appId, key });
  }
  await sql`vacuum analyze`;
  return callers;
}

async function start(subject: Subject): Promise<{ child: ChildProcess; pool: Pool }> {
  const child = fork(fileURLToPath(new URL('api/serve.ts', import.meta.url)), {
    execArgv: ['--import', 'tsx'],
  });
  child.send(subject);
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  return {
    child,
    pool: new Pool(`http://127.0.0.1:${port}`, { connections: UNDER_WAY, pipelining: 1 }),
  };
}

/** Requests by each caller in turn, so that no two under way are the same. */
async function load(
  { pool, path, asCaller }: Target,
  callers: readonly Caller[],
  forMs: number,
): Promise<Measured> {
  const latencies: number[] = [];
  let turn = 0;
  const began = performance.now();
  const until = began + forMs;
  const client = async () => {
    while (performance.now() < until) {
      const caller = callers[(turn += 1) % callers.length] as Caller;
      const headers = asCaller ? { authorization: `Bearer ${caller.key}` } : {};
      const sent = performance.now();
      const { statusCode, body } = await pool.request({
        method: 'GET',
        path: path(caller),
        headers,
      });
      await body.arrayBuffer();
      if (statusCode !== 200) throw new Error(`${path(caller)} answered ${statusCode}`);
      latencies.push(performance.now() - sent);
    }
  };
  await Promise.all(Array.from({ length: UNDER_WAY }, client));
  const seconds = (performance.now() - began) / 1000;
  latencies.sort((a, b) => a - b);
  return {
    perSecond: latencies.length / seconds,
    p99Ms: latencies[Math.floor(latencies.length * 0.99)] ?? NaN,
  };
}

export async function run(): Promise<Result> {
  const postgres = await startEmbeddedPostgres({ settings: { shared_buffers: '512MB' } });
  const sql = connect(postgres.url, { max: 2, name: 'bench' });
  await migrate(sql);
  const callers = await seed(sql);
  const databaseUrl = postgres.url;
  const [ours, bare] = [
    await start({ databaseUrl, kind: 'ours' }),
    await start({ databaseUrl, kind: 'bare' }),
  ];
  const targets: Record<string, Target> = {
    bareLookup: {
      pool: bare.pool,
      path: ({ merchantId }) => `/lookup/${merchantId}`,
      asCaller: false,
    },
    profile: { pool: ours.pool, path: () => '/merchant/profile', asCaller: true },
    access: {
      pool: ours.pool,
      path: ({ appId }) => `/merchant/apps/${appId}/access?externalId=customer-7`,
      asCaller: true,
    },
    bareList: { pool: bare.pool, path: ({ appId }) => `/list/${appId}`, asCaller: false },
    list: {
      pool: ours.pool,
      path: ({ appId }) => `/merchant/apps/${appId}/subscriptions?limit=20`,
      asCaller: true,
    },
  };
  const measured = new Map<string, Measured[]>(Object.keys(targets).map((name) => [name, []]));
  try {
    for (const target of Object.values(targets)) await load(target, callers, WARM_UP_MS);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const [name, target] of Object.entries(targets))
        measured.get(name)?.push(await load(target, callers, ROUND_MS));
    }
  } finally {
    await Promise.all([ours.pool.close(), bare.pool.close(), sql.end()]);
    ours.child.kill();
    bare.child.kill();
    await postgres.stop();
  }
  const of = (name: string, figure: keyof Measured) =>
    median((measured.get(name) ?? []).map((one) => one[figure]));
  // Each round's two servers stood next to each other in time: the ratio of the round, then the median.
  const ratio = (one: string, other: string) =>
    median(
      (measured.get(one) ?? []).map(
        ({ perSecond }, round) => perSecond / (measured.get(other)?.[round]?.perSecond ?? NaN),
      ),
    );
  return {
    figures: Object.fromEntries(
      Object.keys(targets).flatMap((name) => [
        [`${name}PerSecond`, of(name, 'perSecond')],
        [`${name}P99Ms`, of(name, 'p99Ms')],
      ]),
    ),
    ratios: {
      listToBareList: ratio('list', 'bareList'),
      profileToBareLookup: ratio('profile', 'bareLookup'),
      accessToBareLookup: ratio('access', 'bareLookup'),
    },
  };
}
