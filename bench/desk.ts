// Milliseconds of the dashboard's overview for an app with a million payments (or PAYMENTS), of the
// app and of its plan, compared with an app with 1,000 payments. The benchmark sends the page's API
// requests for its figures, in the page's order, to one API process on a durable Postgres.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Pool } from 'undici';
import { connect, type Sql, type Transaction } from '../src/db/postgres/connect.ts';
import { migrate } from '../src/db/postgres/migrate.ts';
import { generateKey } from '../src/domain/accounts/keys.ts';
import { startEmbeddedPostgres } from '../src/local/sandbox/postgres.ts';
import type { Subject } from './api/serve.ts';
import { median, quantile } from './dispatch/harness.ts';
import type { Result } from './run.ts';

const PAYMENTS = Number(process.env.PAYMENTS ?? 1_000_000);
const FEW = 1_000;
/** Number of monthly payments per subscription, over two years. */
const MONTHS = 25;
const ROUNDS = 60;
const WARM_UP = 5;
/** In one of this many rounds, the overview is also read with the ranges in OTHER_DAYS. */
const OTHERS_EVERY = 6;
const DAY_MS = 86_400_000;
/** The range (days) that the page shows first, and the other ranges that it offers. */
const DAYS = 30;
const OTHER_DAYS = [7, 90, 365] as const;

interface Shop {
  appId: string;
  /** Its only plan. */
  planId: string;
  key: string;
}

/**
 * SQL condition: payment `k` of the subscription `s` failed once. This is true for one payment in
 * 25.
 */
const fails = (sql: Sql | Transaction) => sql`hashtext(s.id::text || k) % ${MONTHS}::int = 0`;

/**
 * Creates a merchant whose app has `payments` succeeded payments, 25 per subscription. One
 * subscription in ten has ended and one in a hundred is past due. One payment in 25 failed an hour
 * before it succeeded.
 */
async function seed(sql: Sql, name: string, payments: number): Promise<Shop> {
  const subscriptions = payments / MONTHS;
  const [app] = await sql<{ id: string; merchantId: string }[]>`
    with merchant as (insert into merchants (wallet, tier) values (${name}, 'pro') returning id)
    insert into apps (merchant_id, name) select id, ${name} from merchant
    returning id, merchant_id`;
  if (app === undefined) throw new Error('no app');
  const { key, prefix, hash } = generateKey('development');
  await sql`
    insert into api_keys (merchant_id, prefix, hash) values (${app.merchantId}, ${prefix}, ${hash})`;
  const [plan] = await sql<{ id: string }[]>`
    insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount,
      period_hours, status, chain_created_at)
    values (${app.id}, 'Plan', ${name}, 1, 'owner', 'mint', 'treasury', 'puller', 10000000, 730,
      'active', now()) returning id`;
  if (plan === undefined) throw new Error('no plan');
  await sql.begin(async (tx) => {
    // Row triggers are off, because the benchmark does not need their checks.
    await tx`set local session_replication_role = replica`;
    await tx`
      create temp table made on commit drop as
      select n, now() - ${MONTHS}::int * interval '730 hours'
          + (n * 7919 % 730) * interval '1 hour'
          - case when n % 10 = 0 then (n % 18) * interval '730 hours' else interval '0' end as start
      from generate_series(1, ${subscriptions}::int) as n`;
    await tx`insert into customers (app_id, wallet) values (${app.id}, ${name})`;
    await tx`
      insert into subscriptions (app_id, plan_id, customer_id, subscription_pda, subscriber_wallet, amount,
        period_hours, created_at, status, cancelled_at, ended_at, past_due_since)
      select ${app.id}, ${plan.id}, (select id from customers where wallet = ${name}), ${name} || n, md5(${name} || n), 10000000, 730, start,
        case when n % 10 = 0 then 'cancelled' when n % 100 = 1 then 'past_due' else 'active' end,
        case when n % 10 = 0 then start + ${MONTHS}::int * interval '730 hours' end,
        case when n % 10 = 0 then start + ${MONTHS}::int * interval '730 hours' end,
        case when n % 100 = 1 then now() - interval '1 hour' end
      from made order by start`;
    await tx`
      insert into subscription_work (subscription_id, app_id, paid_through)
      select id, app_id, created_at + ${MONTHS}::int * interval '730 hours'
      from subscriptions where app_id = ${app.id} order by created_at`;
    await tx`
      insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet,
        status, period_start, period_end, amount_gross, platform_fee, amount_net, tx_signature,
        failure_reason, attempt, occurred_at)
      select app_id, plan_id, s.id, subscription_pda, subscriber_wallet, status, at, at + interval
        '730 hours', 10000000, 100000, 9900000,
        case status when 'succeeded' then md5(subscription_pda || k) || md5(subscription_pda) end,
        case status when 'failed' then 'insufficient_funds' end,
        case when status = 'succeeded' and k > 0 and ${fails(tx)} then 2 else 1 end,
        case status when 'failed' then at - interval '1 hour' else at end
      from (
        select s.app_id, s.plan_id, s.id, s.subscription_pda, s.subscriber_wallet, k,
          s.created_at + k * interval '730 hours' as at, 'succeeded' as status
        from subscriptions s, generate_series(0, ${MONTHS - 1}::int) as k where s.app_id = ${app.id}
        union all
        select s.app_id, s.plan_id, s.id, s.subscription_pda, s.subscriber_wallet, k,
          s.created_at + k * interval '730 hours', 'failed'
        from subscriptions s, generate_series(0, ${MONTHS}::int) as k
        where s.app_id = ${app.id} and (k between 1 and ${MONTHS - 1}::int and ${fails(tx)}
          or k = ${MONTHS}::int and s.status = 'past_due')
      ) as s order by s.at`;
  });
  return { appId: app.id, planId: plan.id, key };
}

async function start(databaseUrl: string): Promise<{ child: ChildProcess; pool: Pool }> {
  const child = fork(fileURLToPath(new URL('api/serve.ts', import.meta.url)), {
    execArgv: ['--import', 'tsx'],
  });
  child.send({ databaseUrl, kind: 'ours' } satisfies Subject);
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  return { child, pool: new Pool(`http://127.0.0.1:${port}`, { connections: 6 }) };
}

/**
 * Returns the milliseconds of one overview: first the list of apps, then figures and failures in
 * parallel.
 */
async function overview(
  pool: Pool,
  { appId, key }: Shop,
  { days, planId }: { days: number; planId?: string },
): Promise<number> {
  const read = async (path: string) => {
    const headers = { authorization: `Bearer ${key}` };
    const { statusCode, body } = await pool.request({ method: 'GET', path, headers });
    const text = await body.text();
    if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}: ${text}`);
  };
  const to = new Date(Math.ceil(Date.now() / DAY_MS) * DAY_MS);
  const from = new Date(to.getTime() - days * DAY_MS);
  const range = { from: from.toISOString(), to: to.toISOString() };
  const query = new URLSearchParams({ ...range, ...(planId !== undefined && { planId }) });
  const began = performance.now();
  await read('/merchant/apps?limit=100');
  await Promise.all([
    read(`/merchant/apps/${appId}/analytics?${query.toString()}`),
    read(`/merchant/apps/${appId}/attention`),
  ]);
  return performance.now() - began;
}

export async function run(): Promise<Result> {
  const postgres = await startEmbeddedPostgres({ settings: { shared_buffers: '512MB' } });
  const sql = connect(postgres.url, { max: 2, name: 'bench' });
  await migrate(sql);
  const began = performance.now();
  const many = await seed(sql, 'many', PAYMENTS);
  const seedSeconds = (performance.now() - began) / 1000;
  const few = await seed(sql, 'few', FEW);
  await sql`vacuum analyze`;
  const { child, pool } = await start(postgres.url);
  const times: Record<string, number[]> = {};
  const cases = [
    ['overview', many, { days: DAYS }],
    ['fewPayments', few, { days: DAYS }],
    ...OTHER_DAYS.map((days) => [`overview${days}Days`, many, { days }] as const),
    ['overviewOfPlan', many, { days: DAYS, planId: many.planId }],
  ] as const;
  try {
    for (let round = -WARM_UP; round < ROUNDS; round += 1)
      for (const [name, shop, shown] of round % OTHERS_EVERY === 0 ? cases : cases.slice(0, 2)) {
        const ms = await overview(pool, shop, shown);
        if (round >= 0) (times[name] ??= []).push(ms);
      }
  } finally {
    await Promise.all([pool.close(), sql.end()]);
    child.kill();
    await postgres.stop();
  }
  const of = (name: string) => times[name] ?? [];
  return {
    figures: {
      seedSeconds,
      ...Object.fromEntries(
        cases.flatMap(([name]) => [
          [`${name}P50Ms`, median(of(name))],
          [`${name}P95Ms`, quantile(of(name), 0.95)],
        ]),
      ),
    },
    ratios: {
      overviewToFewPayments: median(of('overview')) / median(of('fewPayments')),
    },
  };
}
