// A subscription only waits for a plan that is marked as blocked.
import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { claimDue } from '../../../src/db/subscriptions/leases.ts';
import { releaseWaiting } from '../../../src/db/subscriptions/plan-watch.ts';
import { unmarkBlocked } from '../../../src/db/subscriptions/plans.ts';
import { readSubscriptions } from '../../../src/db/subscriptions/work.ts';
import { unblockPlan } from '../../../src/domain/collecting/plan-block.ts';
import { settle } from '../../../src/domain/collecting/settlement.ts';
import { updateOf } from '../../../src/domain/collecting/transitions.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

const now = new Date('2026-05-01T00:00:00Z');
const nextPeriod = new Date('2026-05-02T00:00:00Z');

/** A plan with this number of due subscriptions. */
async function plan(sql: Sql, count: number): Promise<string> {
  const [{ id }] = await sql<[{ id: string }]>`
    with m as (insert into merchants (wallet) values (${randomUUID()}) returning id),
    a as (insert into apps (merchant_id, name) select id, 'app' from m returning id)
    insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
    select id, 'plan', ${randomUUID()}, 1, 'merchant', 'mint', 'treasury', 'keeper', 1000, 24, 'active', ${now} from a returning id`;
  await sql`
    with made as (
      insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due)
      select app_id, id, gen_random_uuid(), 'wallet', 1000, 24, ${now} from plans, generate_series(1, ${count}::int) where id = ${id}
      returning id, app_id
    )
    insert into subscription_work (subscription_id, app_id, due_at) select id, app_id, ${now} from made`;
  return id;
}

/** Claims the due subscriptions and settles them as blocked. */
async function findBlocked(sql: Sql) {
  const claimId = randomUUID();
  const due = await claimDue(sql, { claimId, chainNow: now, limit: 100, leaseSeconds: 60 });
  const rows = await readSubscriptions(
    sql,
    due.map(({ id }) => id),
  );
  const assessments = rows.map((row) => {
    const update = updateOf(row);
    update.state.dueAt = nextPeriod;
    return {
      claim: { id: row.id, claimId, notices: 0 },
      row,
      update,
      blocks: 'not_a_puller' as const,
    };
  });
  return settle(sql, assessments, { chainNow: now });
}

async function stateOf(sql: Sql, id: string) {
  const [{ reason }] = await sql<[{ reason: string | null }]>`
    select collection_blocked_reason as reason from plans where id = ${id}`;
  const [{ waiting }] = await sql<[{ waiting: number }]>`
    select count(*)::int as waiting from subscriptions s
    join subscription_work w on w.subscription_id = s.id where plan_id = ${id} and due_at > ${now}`;
  return { reason, waiting };
}

void t.test(
  'a plan is blocked once, with one event, and unblocking makes its waiting subscriptions due',
  async (t) => {
    const { sql } = await testDatabase(t);
    const id = await plan(sql, 3);
    const { blocked } = await findBlocked(sql);
    t.match(blocked, [{ planId: id, reason: 'not_a_puller' }]);
    t.same(await stateOf(sql, id), { reason: 'not_a_puller', waiting: 3 });
    await sql`update subscription_work set due_at = ${now}`;
    t.same((await findBlocked(sql)).blocked, [], 'it is marked already');
    t.equal((await sql`select 1 from events where type = 'plan_blocked'`).length, 1);
    // A subscription that is not due, a cancelled one and one of another plan do not wait for the
    // plan.
    const [later, ended] = await sql<
      { id: string }[]
    >`select id from subscriptions order by id limit 2`;
    await sql`update subscriptions set next_payment_due = ${nextPeriod} where id = ${later!.id}`;
    await sql`
    update subscriptions set next_payment_due = null, cancel_requested_at = ${now}, cancel_requested_by = 'merchant' where id = ${ended!.id}`;
    const other = await plan(sql, 1);
    await sql`update subscription_work set due_at = ${nextPeriod}
      where subscription_id in (select id from subscriptions where plan_id = ${other})`;
    t.equal(await unblockPlan(sql, id, now), 1);
    t.same(await stateOf(sql, id), { reason: null, waiting: 2 });
    t.same(await stateOf(sql, other), { reason: null, waiting: 1 });
  },
);

void t.test(
  'a subscription that starts to wait while its plan is being unblocked marks the plan as blocked again',
  async (t) => {
    const { sql } = await testDatabase(t);
    const id = await plan(sql, 2);
    await findBlocked(sql);
    await sql`update subscription_work set due_at = ${now} where subscription_id = (select subscription_id from subscription_work limit 1)`;
    let settling: ReturnType<typeof findBlocked> | undefined;
    await sql.begin(async (tx) => {
      await unmarkBlocked(tx, id);
      t.equal(await releaseWaiting(tx, id, now), 1, 'the other one');
      settling = findBlocked(sql);
      // It waits for the plan's lock. A transaction would always read the same snapshot of
      // pg_stat_activity.
      for (;;) {
        const [{ count }] = await sql<[{ count: number }]>`
          select count(*)::int as count from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
        if (count > 0) break;
      }
    });
    t.match((await settling)?.blocked, [{ planId: id }]);
    t.same(await stateOf(sql, id), { reason: 'not_a_puller', waiting: 1 });
  },
);
