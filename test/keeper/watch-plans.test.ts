import t from 'tap';
import { createPlan } from '../../src/chain/instructions.ts';
import type { PlanAccount } from '../../src/chain/layouts.ts';
import type { PlanRow } from '../../src/db/plans.ts';
import { RpcUnreachable } from '../../src/chain/rpc-errors.ts';
import { createPlanWatch, judgePlan } from '../../src/keeper/watch-plans.ts';
import { startStage } from '../fixtures/billing.ts';

const record: PlanRow = {
  id: 'plan',
  appId: 'app',
  name: 'Plan',
  planPda: 'pda',
  chainPlanId: '1',
  owner: 'merchant',
  mint: 'mint',
  treasury: 'treasury',
  puller: 'keeper',
  amount: 5n,
  periodHours: 24,
  endsAt: null,
  metadataUri: '',
  chainCreatedAt: null,
  status: 'pending',
  observedAt: null,
  observedSlot: 0n,
  createdAt: new Date(),
  updatedAt: new Date(),
};
const account: PlanAccount = {
  owner: 'merchant',
  bump: 255,
  status: 'active',
  planId: 1n,
  mint: 'mint',
  amount: 5n,
  periodHours: 24n,
  createdAt: 1000n,
  endTs: 0n,
  destinations: ['merchant', 'treasury'],
  pullers: ['keeper'],
  metadataUri: '',
};
const active: PlanRow = { ...record, status: 'active', chainCreatedAt: new Date(1_000_000) };

void t.test('a pending plan turns active with exactly its terms, and with no others', async (t) => {
  t.match(judgePlan(record, account, 2000n), { status: 'active' });
  t.match(judgePlan(record, { ...account, status: 'sunset' }, 2000n), { status: 'sunset' });
  for (const other of [
    { amount: 6n },
    { periodHours: 25n },
    { pullers: [] },
    { destinations: ['merchant'] },
    { mint: 'x' },
    { owner: 'x' },
    { endTs: 9n },
  ]) {
    t.equal(judgePlan(record, { ...account, ...other }, 2000n), null, JSON.stringify(Object.keys(other)));
  }
  t.equal(judgePlan(record, null, 2000n), null);
});

void t.test('sunset, end, closing and re-creation are taken over; a sunset of ours is never undone', async (t) => {
  t.equal(judgePlan(active, account, 2000n), null);
  t.match(judgePlan(active, { ...account, status: 'sunset', endTs: 3000n }, 2000n), { status: 'sunset', endsAt: new Date(3_000_000) });
  t.match(judgePlan(active, { ...account, endTs: 3000n }, 3000n), { status: 'active' }, 'the last second still belongs to it');
  t.match(judgePlan(active, { ...account, endTs: 3000n }, 3001n), { status: 'ended' });
  t.match(judgePlan(active, null, 2000n), { status: 'ended' });
  t.match(judgePlan(active, { ...account, createdAt: 1001n }, 2000n), { status: 'ended' });
  t.equal(judgePlan({ ...active, status: 'sunset' }, account, 2000n), null);
});

void t.test('a plan that is published while the keeper runs turns active within seconds', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan();
  await stage.startKeeper();
  // No notice tells of this one: it is found by looking, once it has waited for ten seconds.
  await stage.sql`
    update plans set status = 'pending', chain_created_at = null, observed_at = now() - interval '9 seconds' where id = ${plan.id}`;
  await stage.until(
    'it is active',
    async () => (await stage.sql`select 1 from plans where id = ${plan.id} and status = 'active'`).length === 1,
  );
  const { merchant, terms } = plan;
  const other = { ...terms, planId: terms.planId + 1n };
  const { planAddress } = await import('../../src/chain/addresses.ts');
  const pda = planAddress(stage.net.programId, merchant.address, other.planId).address;
  await stage.sql`
    insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, observed_at)
    select app_id, name, ${pda}, ${other.planId.toString()}, owner, mint, treasury, puller, amount, period_hours, now() + interval '1 hour'
    from plans where id = ${plan.id}`;
  await stage.send([merchant], [createPlan(stage.net.programId, { merchant: merchant.address, plan: pda, terms: other })]);
  await stage.until(
    'the notice leads to it',
    async () => (await stage.sql`select 1 from plans where plan_pda = ${pda} and status = 'active'`).length === 1,
  );
});

void t.test('an endpoint from before a plan was published does not end it', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan();
  await stage.sql`update plans set status = 'pending', chain_created_at = null`;
  const { context, clock } = stage.parts();
  await createPlanWatch(context, clock).turn();
  await stage.sql`update plans set observed_at = now() - interval '10 minutes'`;
  const old = stage.parts({
    getMultipleAccounts: (addresses, { minSlot = 0n } = {}) =>
      minSlot > 1n
        ? Promise.reject(new RpcUnreachable('getMultipleAccounts', []))
        : Promise.resolve({ slot: 1n, accounts: addresses.map(() => null) }),
  });
  await t.rejects(createPlanWatch(old.context, clock).turn(), RpcUnreachable);
  t.match(await stage.sql`select status from plans where id = ${plan.id}`, [{ status: 'active' }]);
});

void t.test('a plan that ends as late as the program can count holds up no other', async (t) => {
  const stage = await startStage(t);
  const late = 2n ** 63n - 1n;
  t.same(judgePlan(active, { ...account, endTs: late }, 2000n), { status: 'active', endsAt: new Date('9999-12-31T23:59:59Z') });
  const [endless, sunset] = [await stage.plan({ endTs: late }), await stage.plan()];
  const subscription = await stage.subscriber(endless);
  await stage.sql`update plans set ends_at = null`;
  await stage.sql`update plans set chain_created_at = to_timestamp(1) where id = ${sunset.id}`;
  await stage.startKeeper();
  await stage.until('the other is judged', async () => {
    const [plan] = await stage.sql<[{ status: string }]>`select status from plans where id = ${sunset.id}`;
    return plan.status === 'ended';
  });
  const [plan] = await stage.sql<[{ status: string; endsAt: Date }]>`select status, ends_at from plans where id = ${endless.id}`;
  t.same(plan, { status: 'active', endsAt: new Date('9999-12-31T23:59:59Z') });
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
});
