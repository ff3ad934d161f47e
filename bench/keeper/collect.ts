// A keeper as it is installed (`billing keeper`, a process of its own, with its unit's settings of Node) that collects everything which falls due
// at once, from the claim to the committed payment.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import bs58 from 'bs58';
import { subscriptionsDue } from '../../src/db/notify.ts';
import { timeOf } from '../../src/domain/network.ts';
import { LOCALNET_MINT } from '../../src/localnet/genesis.ts';
import { freePorts } from '../../src/sandbox/ports.ts';
import type { Database } from '../dispatch/harness.ts';
import { AMOUNT, type Chain, PERIOD_HOURS, PLAN_ID, type Plan } from './scene.ts';

const BILLING = fileURLToPath(new URL('../../bin/billing.js', import.meta.url));
const UNIT = new URL('../../deploy/systemd/billing-keeper.service', import.meta.url);
// Asking costs the database something, and rounds take many seconds.
const POLL_MS = 50;
const PATIENCE_MS = 120_000;

export interface Collecting {
  /** Makes everybody due by the passing of time; payments per second until all of them are recorded, and RPC requests for each. */
  round(): Promise<{ perSecond: number; requests: number }>;
  stop(): Promise<void>;
}

/** Registers the plan's subscribers, as due from now on, and starts the keeper, which collects the first period at once. */
export async function startCollecting(chain: Chain, plan: Plan, { sql, url }: Database): Promise<Collecting> {
  const now = timeOf(BigInt(await chain.now()));
  await register(sql, chain, plan, now);
  const directory = await mkdtemp(join(tmpdir(), 'billing-bench-'));
  const keypairFile = join(directory, 'keeper.json');
  await writeFile(keypairFile, JSON.stringify([...bs58.decode(chain.keeper.secret)]), { mode: 0o600 });
  const [metricsPort = 0] = await freePorts(1);
  const child: ChildProcess = spawn(process.execPath, [...(await nodeArguments()), BILLING, 'keeper'], {
    env: {
      DATABASE_URL: url,
      SOLANA_RPC_URL: chain.rpcUrl,
      SOLANA_WS_URL: chain.wsUrl,
      SOLANA_CLUSTER: 'localnet',
      USDC_MINT: LOCALNET_MINT,
      KEEPER_KEYPAIR: keypairFile,
      PLATFORM_TREASURY: chain.treasury,
      METRICS_PORT: String(metricsPort),
      LOG_LEVEL: 'warn',
    },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const count = plan.subscribers.length;
  let recorded = 0;
  const settled = async () => {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const [row] = await sql<{ left: boolean }[]>`
        select exists (select from subscriptions where due_at <= ${timeOf(BigInt(await chain.now()))})
          or exists (select from payment_attempts where state = 'open') as left`;
      if (row?.left === false) break;
      if (performance.now() > deadline) throw new Error('the keeper does not come to its end');
      await pause(POLL_MS);
    }
    recorded += count;
    const [row] = await sql<{ count: number }[]>`select count(*)::int as count from payments where status = 'succeeded'`;
    if (row?.count !== recorded) throw new Error(`${row?.count ?? 0} payments are recorded, not ${recorded}`);
  };
  await settled();
  return {
    async round() {
      const before = await requests(metricsPort);
      await chain.pass();
      const started = performance.now();
      await sql.notify(subscriptionsDue, '');
      await settled();
      const seconds = (performance.now() - started) / 1000;
      return { perSecond: count / seconds, requests: ((await requests(metricsPort)) - before) / count };
    },
    async stop() {
      child.kill('SIGTERM');
      await once(child, 'exit');
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function register(sql: Database['sql'], chain: Chain, plan: Plan, now: Date): Promise<void> {
  const [{ appId, planId }] = await sql<[{ appId: string; planId: string }]>`
    with merchant as (insert into merchants (wallet) values (${chain.merchant.address}) returning id),
      app as (insert into apps (merchant_id, name) select id, 'app' from merchant returning id),
      plan as (insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
        select id, 'plan', ${plan.pda}, ${PLAN_ID.toString()}, ${chain.merchant.address}, ${LOCALNET_MINT}, ${chain.treasury},
          ${chain.keeper.address}, ${AMOUNT}, ${PERIOD_HOURS}, 'active', ${timeOf(plan.createdAt)} from app returning id, app_id)
    select app_id, id as plan_id from plan`;
  await sql`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due, due_at)
    select ${appId}, ${planId}, pda, wallet, ${AMOUNT}, ${PERIOD_HOURS}, ${now}, ${now}
    from unnest(${plan.subscribers.map(({ subscription }) => subscription)}::text[], ${plan.subscribers.map(({ wallet }) => wallet)}::text[])
      as v (pda, wallet)`;
  await sql`vacuum analyze`;
}

/** What the keeper's unit gives to Node. */
async function nodeArguments(): Promise<string[]> {
  const [, given] = /^ExecStart=\/usr\/bin\/node (.*)\/\S*billing\.js keeper$/m.exec(await readFile(UNIT, 'utf8')) ?? [];
  if (given === undefined) throw new Error('the unit does not start a keeper');
  return given.split(' ').filter((argument) => argument.startsWith('--'));
}

/** HTTP requests that the keeper has made of RPC endpoints. */
async function requests(port: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const counts = [...text.matchAll(/^billing_rpc_calls_total\{.*\} (\d+)$/gm)].map(([, value]) => Number(value));
  if (counts.length === 0) throw new Error('the keeper does not tell its RPC requests');
  return counts.reduce((sum, value) => sum + value, 0);
}
