// A keeper that collects everything which falls due at once, from the claim to the committed payment.
import { setTimeout as pause } from 'node:timers/promises';
import { subscriptionsDue } from '../../src/db/notify.ts';
import { timeOf } from '../../src/chain/time.ts';
import { LOCALNET_MINT } from '../../src/localnet/genesis.ts';
import type { Database } from '../dispatch/harness.ts';
import { startKeeper } from './keeper-process.ts';
import { AMOUNT, type Chain, PERIOD_HOURS, PLAN_ID, type Plan } from './scene.ts';

// Asking costs the database something, and rounds take many seconds.
const POLL_MS = 50;
const PATIENCE_MS = 120_000;

export interface Collecting {
  /** Makes everybody due by the passing of time; payments per second until all of them are recorded, and RPC requests for each. */
  round(): Promise<{ perSecond: number; requests: number }>;
  stop(): Promise<void>;
}

/** Registers the plan's subscribers, as due from now on, and starts the keeper, which collects the first period at once. */
export async function startCollecting(
  chain: Chain,
  plan: Plan,
  { sql, url }: Database,
): Promise<Collecting> {
  const now = timeOf(BigInt(await chain.now()));
  await register(sql, chain, plan, now);
  const keeper = await startKeeper(chain, url);
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
    const [row] = await sql<
      { count: number }[]
    >`select count(*)::int as count from payments where status = 'succeeded'`;
    if (row?.count !== recorded)
      throw new Error(`${row?.count ?? 0} payments are recorded, not ${recorded}`);
  };
  await settled();
  return {
    async round() {
      const before = await keeper.requests();
      await chain.pass();
      const started = performance.now();
      await sql.notify(subscriptionsDue, '');
      await settled();
      const seconds = (performance.now() - started) / 1000;
      return {
        perSecond: count / seconds,
        requests: ((await keeper.requests()) - before) / count,
      };
    },
    stop: () => keeper.stop(),
  };
}

/** Registers the plan's subscribers, as due at `due`. */
export async function register(
  sql: Database['sql'],
  chain: Chain,
  plan: Plan,
  due: Date,
): Promise<void> {
  const [{ appId, planId }] = await sql<[{ appId: string; planId: string }]>`
    with merchant as (insert into merchants (wallet) values (${chain.merchant.address}) returning id),
      app as (insert into apps (merchant_id, name) select id, 'app' from merchant returning id),
      plan as (insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
        select id, 'plan', ${plan.pda}, ${PLAN_ID.toString()}, ${chain.merchant.address}, ${LOCALNET_MINT}, ${chain.treasury},
          ${chain.keeper.address}, ${AMOUNT}, ${PERIOD_HOURS}, 'active', ${timeOf(plan.createdAt)} from app returning id, app_id)
    select app_id, id as plan_id from plan`;
  await sql`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due, due_at)
    select ${appId}, ${planId}, pda, wallet, ${AMOUNT}, ${PERIOD_HOURS}, ${due}, ${due}
    from unnest(${plan.subscribers.map(({ subscription }) => subscription)}::text[], ${plan.subscribers.map(({ wallet }) => wallet)}::text[])
      as v (pda, wallet)`;
  await sql`vacuum analyze`;
}
