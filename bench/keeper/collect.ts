// A keeper that collects payments that become due at the same time. Measures from the claim to the
// committed payment.
import { setTimeout as pause } from 'node:timers/promises';
import { timeOf } from '../../src/chain/time.ts';
import { SUBSCRIPTIONS_DUE } from '../../src/db/postgres/notify.ts';
import { LOCALNET_MINT } from '../../src/local/chain/genesis.ts';
import type { Database } from '../dispatch/harness.ts';
import { startKeeper } from './keeper-process.ts';
import { AMOUNT, type Chain, PERIOD_HOURS, PLAN_ID, type Plan } from './scene.ts';

// A poll costs the database some work, and rounds take many seconds, so polls are not more
// frequent.
const POLL_MS = 50;
const PATIENCE_MS = 120_000;

/** The results of a round. */
export interface Round {
  /** Payments per second, until nothing is due and no attempt is open. */
  readonly perSecond: number;
  /** RPC requests per payment, including those that send transactions. */
  readonly requests: number;
  /** Network fees in lamports per payment, including those of failed transactions. */
  readonly lamports: number;
}

export interface Collecting {
  /**
   * Moves the clock by a period, so that all subscriptions become due. Resolves when the keeper has
   * collected `payments` payments. Throws an Error for any other number.
   */
  round(payments?: number): Promise<Round>;
  /**
   * Makes the past-due subscriptions due now, after their payers got money again. Resolves when all
   * of them are active.
   */
  recovered(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Registers the plan's subscribers as due now and starts the keeper. Resolves when the keeper has
 * collected the first period. `settings` are added to the keeper's environment.
 */
export async function startCollecting(
  chain: Chain,
  plan: Plan,
  { sql, url }: Database,
  settings: Readonly<Record<string, string>> = {},
): Promise<Collecting> {
  const count = plan.subscribers.length;
  await register(sql, chain, plan, timeOf(BigInt(await chain.now())));
  const keeper = await startKeeper(chain, url, settings);
  const settled = async () => {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const [row] = await sql<{ left: boolean }[]>`
        select exists (select from subscription_work where due_at <= ${timeOf(BigInt(await chain.now()))})
          or exists (select from payment_attempts where state = 'open') as left`;
      if (row?.left === false) break;
      if (performance.now() > deadline) throw new Error('the keeper does not come to its end');
      await pause(POLL_MS);
    }
  };
  const lamports = async () =>
    (await chain.call<{ value: number }>('getBalance', chain.keeper.address)).value;
  const expect = async (recorded: number) => {
    const paid = await countPaid(sql);
    if (paid !== recorded) throw new Error(`${paid} payments are recorded, not ${recorded}`);
  };
  await settled();
  await expect(count);
  return {
    async round(payments = count) {
      const [requests, balance, paid] = [
        await keeper.requests(),
        await lamports(),
        await countPaid(sql),
      ];
      await chain.pass();
      const started = performance.now();
      await sql.notify(SUBSCRIPTIONS_DUE, '');
      await settled();
      const seconds = (performance.now() - started) / 1000;
      await expect(paid + payments);
      return {
        perSecond: payments / seconds,
        requests: ((await keeper.requests()) - requests) / payments,
        lamports: (balance - (await lamports())) / payments,
      };
    },
    async recovered() {
      await sql`
        update subscription_work w set due_at = ${timeOf(BigInt(await chain.now()))}
        from subscriptions s
        where s.id = w.subscription_id and s.status = 'past_due' and w.claim_id is null`;
      await sql.notify(SUBSCRIPTIONS_DUE, '');
      await settled();
      const [row] = await sql`select 1 from subscriptions where status <> 'active' limit 1`;
      if (row !== undefined) throw new Error('a subscription is still past due');
    },
    stop: () => keeper.stop(),
  };
}

/** Returns the number of succeeded payments. */
export async function countPaid(sql: Database['sql']): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from payments where status = 'succeeded'`;
  return row?.count ?? 0;
}

/** Registers the plan's subscribers. Their first payment is due at `due`. */
export async function register(
  sql: Database['sql'],
  chain: Chain,
  plan: Plan,
  due: Date,
  periodHours = PERIOD_HOURS,
): Promise<void> {
  const [{ appId, planId }] = await sql<[{ appId: string; planId: string }]>`
    with merchant as (insert into merchants (wallet) values (${chain.merchant.address}) returning id),
      app as (insert into apps (merchant_id, name) select id, 'app' from merchant returning id),
      plan as (insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
        select id, 'plan', ${plan.pda}, ${PLAN_ID.toString()}, ${chain.merchant.address}, ${LOCALNET_MINT}, ${chain.treasury},
          ${chain.keeper.address}, ${AMOUNT}, ${periodHours}, 'active', ${timeOf(plan.createdAt)} from app returning id, app_id)
    select app_id, id as plan_id from plan`;
  await sql`
    with made as (
      insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due)
      select ${appId}, ${planId}, pda, wallet, ${AMOUNT}, ${periodHours}, ${due}
      from unnest(${plan.subscribers.map(({ subscription }) => subscription)}::text[], ${plan.subscribers.map(({ wallet }) => wallet)}::text[])
        as v (pda, wallet)
      returning id, app_id
    )
    insert into subscription_work (subscription_id, app_id, due_at) select id, app_id, ${due} from made`;
  await sql`vacuum analyze`;
}
