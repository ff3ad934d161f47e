// Requests per second and p99 latency of one API process, compared with bare Fastify that runs one
// statement per request on the same durable Postgres. The load is 64 concurrent requests from this
// process, in turn from 1,000 merchants. Rounds alternate, and the figures are medians.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Pool } from 'undici';
import { connect, type Sql } from '../src/db/postgres/connect.ts';
import { migrate } from '../src/db/postgres/migrate.ts';
import { generateKey } from '../src/domain/accounts/keys.ts';
import { startEmbeddedPostgres } from '../src/local/sandbox/postgres.ts';
import type { Subject } from './api/serve.ts';
import type { Result } from './run.ts';

const UNDER_WAY = 64;
const ROUNDS = 30;
const WARM_UP_MS = 2_000;
const ROUND_MS = 500;
const MERCHANTS = 1_000;
/** Subscriptions of one app. One in a thousand is past due. */
const MANY = 100_000;
/** The wallet of one of these subscriptions. */
const ONE_WALLET = '9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDSGYdLVL9zYtAWWM';

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
  /** Whether the requests need an API key. */
  asCaller: boolean;
  /** Only this caller sends the requests. By default all callers take turns. */
  only?: Caller;
}

interface Measured {
  perSecond: number;
  p99Ms: number;
}

/**
 * Creates more merchants than there are concurrent requests. Each merchant has an API key and an
 * app with 100 subscriptions. The first app also has MANY subscriptions.
 */
async function seed(sql: Sql): Promise<Caller[]> {
  await sql`insert into merchants (wallet, name, email, tier) select 'wallet' || n, 'Merchant', 'a@b.test', 'pro' from generate_series(1, ${MERCHANTS}) as n`;
  await sql`insert into apps (merchant_id, name) select id, 'App' from merchants`;
  await sql`
    insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
    select id, 'Plan', 'pda' || id, 1, 'owner', 'mint', 'treasury', 'puller', 100, 730, 'active', now() from apps`;
  await sql`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due, external_id)
    select app_id, id, md5(id::text || n) || '000000000000', md5('wallet' || n) || '000000000000', 10000000, 730, now(), 'customer-' || n
    from plans, generate_series(1, 100) as n`;
  const apps = await sql<{ id: string; merchantId: string }[]>`select id, merchant_id from apps`;
  const callers: Caller[] = [];
  for (const { id: appId, merchantId } of apps) {
    const { key, prefix, hash } = generateKey('development');
    await sql`insert into api_keys (merchant_id, prefix, hash) values (${merchantId}, ${prefix}, ${hash})`;
    callers.push({ merchantId, appId, key });
  }
  await sql`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, status, past_due_since)
    select app_id, id, md5(id::text || n || 'many') || '000000000000', case n when ${MANY / 2} then ${ONE_WALLET} else md5('wallet' || n) || '000000000000' end,
      10000000, 730, case when n % 1000 = 0 then 'past_due' else 'active' end, case when n % 1000 = 0 then now() end
    from plans, generate_series(1, ${MANY}::int) as n where app_id = ${apps[0]?.id ?? null}`;
  await sql`
    insert into subscription_work (subscription_id, app_id, external_id, paid_through)
    select id, app_id, external_id, now() from subscriptions`;
  await sql`insert into searched_wallets (wallet) select distinct subscriber_wallet from subscriptions`;
  await sql.begin(async (tx) => {
    // Row triggers are off, because the benchmark does not need their checks.
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
        platform_fee, amount_net, tx_signature, occurred_at)
      select app_id, plan_id, id, subscription_pda, subscriber_wallet, 'succeeded', now() - interval '10 days', now() + interval '20 days', 10000000,
        100000, 9900000, subscription_pda || subscription_pda, now() - interval '10 days'
      from subscriptions where app_id in (${apps[0]?.id ?? null}, ${apps[1]?.id ?? null})`;
  });
  await sql`vacuum analyze`;
  return callers;
}

/** Returns the path of a list of the app, with 20 items per page. */
const listPath = ({ appId }: Caller, list: string, query = '') =>
  `/merchant/apps/${appId}/${list}?limit=20${query}`;

/** Returns the query string for the second page of a list. */
async function nextPage(pool: Pool, caller: Caller, list: string): Promise<string> {
  const { headers, body } = await pool.request({
    method: 'GET',
    path: listPath(caller, list),
    headers: { authorization: `Bearer ${caller.key}` },
  });
  await body.arrayBuffer();
  return `&cursor=${String(headers['x-next-cursor'])}`;
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

/** Sends requests as each caller in turn, so that concurrent requests differ. */
async function load(
  { pool, path, asCaller, only }: Target,
  callers: readonly Caller[],
  forMs: number,
): Promise<Measured> {
  const asking = only === undefined ? callers : [only];
  const latencies: number[] = [];
  let turn = 0;
  const began = performance.now();
  const until = began + forMs;
  const client = async () => {
    while (performance.now() < until) {
      const caller = asking[(turn += 1) % asking.length] as Caller;
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
      path: (caller) => listPath(caller, 'subscriptions'),
      asCaller: true,
    },
  };
  const [many, few] = callers as [Caller, Caller];
  const listOf = (only: Caller, list: string, query = ''): Target => ({
    pool: ours.pool,
    path: (caller) => listPath(caller, list, query),
    asCaller: true,
    only,
  });
  const ofMany: Record<string, Target> = {
    manyList: listOf(many, 'subscriptions'),
    manyNextPage: listOf(many, 'subscriptions', await nextPage(ours.pool, many, 'subscriptions')),
    manyPastDue: listOf(many, 'subscriptions', '&status=past_due'),
    manyOneWallet: listOf(many, 'subscriptions', `&subscriberWallet=${ONE_WALLET}`),
    manyPayments: listOf(many, 'transactions'),
    manyNextPayments: listOf(many, 'transactions', await nextPage(ours.pool, many, 'transactions')),
  };
  Object.assign(targets, ofMany, {
    fewList: listOf(few, 'subscriptions'),
    fewPayments: listOf(few, 'transactions'),
  });
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
  // Returns the median of the rounds' ratios. The two servers of a round are measured directly
  // after each other.
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
      ...Object.fromEntries(
        Object.keys(ofMany).map((name) =>
          name.endsWith('Payments')
            ? [`${name}ToFewPayments`, ratio(name, 'fewPayments')]
            : [`${name}ToFewList`, ratio(name, 'fewList')],
        ),
      ),
    },
  };
}
