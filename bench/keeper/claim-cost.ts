// Measures, in ms, a claim of 1,000 due subscriptions and one step of the sweep, in tables of
// different sizes.
import { randomUUID } from 'node:crypto';
import { claimDue, releaseClaims } from '../../src/db/subscriptions/leases.ts';
import { stepSweep } from '../../src/db/subscriptions/sweeps.ts';
import type { Database } from '../dispatch/harness.ts';

const DUE = 1000;
const BATCH = 200;
const SWEPT = 128;
const NOW = new Date('2030-01-01T00:00:00Z');

export interface Costs {
  claim(): Promise<number>;
  sweep(): Promise<number>;
}

/**
 * Fills the tables with `rows` subscriptions, DUE of which are due at NOW, and then creates the
 * indexes. With `wal_level` minimal nothing is written to the WAL, because the tables were
 * just truncated.
 */
export async function prepareClaims({ sql }: Database, rows: number): Promise<Costs> {
  const [{ appId, planId }] = await sql<[{ appId: string; planId: string }]>`
    with merchant as (insert into merchants (wallet) values ('merchant') returning id),
      app as (insert into apps (merchant_id, name) select id, 'app' from merchant returning id),
      plan as (insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
        select id, 'plan', 'plan', 1, 'merchant', 'mint', 'treasury', 'keeper', 100, 720, 'active', now() from app returning id, app_id)
    select app_id, id as plan_id from plan`;
  const indexes = await sql<{ indexname: string; indexdef: string }[]>`
    select indexname, indexdef from pg_indexes where tablename in ('subscriptions', 'subscription_work')
      and indexname not in ('subscriptions_pkey', 'subscription_work_pkey')`;
  // Due rows are spread over the whole table. As many rows become due within fourteen minutes. The
  // other rows become due over thirty days, starting an hour later.
  const every = Math.floor(rows / DUE);
  await sql.begin(async (tx) => {
    await tx`truncate subscriptions cascade`;
    for (const { indexname } of indexes) await tx.unsafe(`drop index ${indexname}`);
    // Without foreign-key checks, because all rows have the same app and plan.
    await tx`set local session_replication_role = replica`;
    await tx`set local maintenance_work_mem = '1GB'`;
    await tx`insert into customers (app_id, wallet) values (${appId}, 'all') on conflict do nothing`;
    await tx`
      insert into subscriptions (id, app_id, plan_id, customer_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due)
      select ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ${appId}, ${planId}, (select id from customers where wallet = 'all'), rpad(md5(n::text), 44, 'x'),
        rpad(md5('w' || n), 44, 'x'), 100, 720, due
      from generate_series(0, ${rows - 1}::int) as n,
        lateral (select ${NOW}::timestamptz + interval '1 minute' * case n % ${every}
          when 0 then 0 when 1 then 1 + n / ${every} % 14 else 60 + n % 43200 end) as d (due)`;
    await tx`
      insert into subscription_work (subscription_id, app_id, due_at)
      select id, app_id, next_payment_due from subscriptions order by id`;
    for (const { indexdef } of indexes) await tx.unsafe(indexdef);
  });
  await sql`vacuum analyze subscriptions, subscription_work`;

  return {
    async claim() {
      const claimed: { id: string; claimId: string }[] = [];
      const started = performance.now();
      while (claimed.length < DUE) {
        const claimId = randomUUID();
        const due = await claimDue(sql, { claimId, chainNow: NOW, limit: BATCH, leaseSeconds: 45 });
        if (due.length === 0) throw new Error(`${claimed.length} of ${DUE} were claimed`);
        claimed.push(...due.map(({ id }) => ({ id, claimId })));
      }
      const elapsed = performance.now() - started;
      await releaseClaims(sql, claimed);
      return elapsed;
    },
    async sweep() {
      const started = performance.now();
      const step = await stepSweep(sql, {
        pace: { everySeconds: 0, withinSeconds: 2880 },
        hurry: true,
        limit: SWEPT,
      });
      const elapsed = performance.now() - started;
      if (step?.ids.length !== SWEPT) throw new Error('the sweep took too few');
      return elapsed;
    },
  };
}
