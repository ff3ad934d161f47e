import t from 'tap';
import { createPlan } from '../../../src/chain/program/plan-instructions.ts';
import { RpcUnreachable } from '../../../src/chain/rpc/errors.ts';
import { endAbandonedPlans, takeUnwatchedPlans } from '../../../src/db/subscriptions/plan-watch.ts';
import { PlanWatch } from '../../../src/keeper/follow/plan-watch.ts';
import { startStage } from '../../fixtures/billing.ts';

void t.test('a pending plan that is published while the keeper runs turns active', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan();
  await stage.startKeeper();
  // No notification reports this one: the plan poll finds it once its last read is ten seconds old.
  await stage.sql`
    update plans set status = 'pending', chain_created_at = null, observed_at = now() - interval '9 seconds' where id = ${plan.id}`;
  await stage.until(
    'it is active',
    async () =>
      (await stage.sql`select 1 from plans where id = ${plan.id} and status = 'active'`).length ===
      1,
  );
  const { merchant, terms } = plan;
  const other = { ...terms, planId: terms.planId + 1n };
  const { planAddress } = await import('../../../src/chain/program/addresses.ts');
  const pda = planAddress(stage.net.programId, merchant.address, other.planId).address;
  await stage.sql`
    insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, observed_at)
    select app_id, name, ${pda}, ${other.planId.toString()}, owner, mint, treasury, puller, amount, period_hours, now() + interval '1 hour'
    from plans where id = ${plan.id}`;
  await stage.send(
    [merchant],
    [createPlan(stage.net.programId, { merchant: merchant.address, plan: pda, terms: other })],
  );
  await stage.until(
    'the notice leads to it',
    async () =>
      (await stage.sql`select 1 from plans where plan_pda = ${pda} and status = 'active'`)
        .length === 1,
  );
});

void t.test(
  'an endpoint behind the slot of a plan does not make the plan count as closed',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    await stage.sql`update plans set status = 'pending', chain_created_at = null`;
    const { context } = stage.parts();
    await new PlanWatch(context).turn();
    await stage.sql`update plans set observed_at = now() - interval '2 hours'`;
    const old = stage.parts({
      getMultipleAccounts: (addresses, { minSlot = 0n } = {}) =>
        minSlot > 1n
          ? Promise.reject(new RpcUnreachable('getMultipleAccounts', []))
          : Promise.resolve({ slot: 1n, accounts: addresses.map(() => null) }),
    });
    await t.rejects(new PlanWatch(old.context).turn(), RpcUnreachable);
    t.match(await stage.sql`select status from plans where id = ${plan.id}`, [
      { status: 'active' },
    ]);
  },
);

void t.test(
  'a plan with the largest possible end does not stop the reads of other plans',
  async (t) => {
    const stage = await startStage(t);
    const late = 2n ** 63n - 1n;
    const [endless, sunset] = [await stage.plan({ endTs: late }), await stage.plan()];
    const subscription = await stage.subscriber(endless);
    await stage.sql`update plans set ends_at = null`;
    await stage.sql`update plans set chain_created_at = to_timestamp(1) where id = ${sunset.id}`;
    await stage.startKeeper();
    await stage.until('the other is judged', async () => {
      const [plan] = await stage.sql<
        [{ status: string }]
      >`select status from plans where id = ${sunset.id}`;
      return plan.status === 'ended';
    });
    const [plan] = await stage.sql<
      [{ status: string; endsAt: Date }]
    >`select status, ends_at from plans where id = ${endless.id}`;
    t.same(plan, { status: 'active', endsAt: new Date('9999-12-31T23:59:59Z') });
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  },
);

void t.test('a pending plan is read at growing intervals and given up after 7 days', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan();
  const due = async (age: string, lookedAt: string) => {
    await stage.sql`
      update plans set status = 'pending', chain_created_at = null, plan_pda = ${plan.id}, created_at = now() - ${age}::interval,
        observed_at = now() - ${lookedAt}::interval`;
    const taken = await stage.sql.begin((tx) =>
      takeUnwatchedPlans(tx, {
        everySeconds: 300,
        blockedSeconds: 300,
        pendingAgeSeconds: 10,
        limit: 10,
      }),
    );
    return taken.length === 1;
  };
  t.equal(await due('15 seconds', '9 seconds'), false);
  t.equal(await due('15 seconds', '11 seconds'), true);
  t.equal(await due('20 hours', '9 hours'), false);
  t.equal(await due('20 hours', '11 hours'), true);
  t.equal(await due('6 days', '4 days'), true);
  const [{ id, status }] = await stage.sql<
    [{ id: string; status: string }]
  >`select id, status from plans`;
  await endAbandonedPlans(stage.sql, [id]);
  t.equal(status, 'pending');
  const statusNow = async () =>
    (await stage.sql<[{ status: string }]>`select status from plans`)[0].status;
  t.equal(await statusNow(), 'pending', 'before 7 days');
  await stage.sql`update plans set created_at = now() - interval '169 hours'`;
  await endAbandonedPlans(stage.sql, [id]);
  t.equal(await statusNow(), 'ended');
});
