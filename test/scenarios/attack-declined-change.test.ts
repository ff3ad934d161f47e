// A change of plan that its wallet declined. The wallet cancels the old subscription, opens the
// other plan with a client of its own and registers it: the change did not land.
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';

void t.test('one that did not land registers nothing, also by its wallet', async (t) => {
  const { stage, plans, buyer, ask, newest, read } = await startPlanChanges(t, [100, 120]);
  const [small, large] = plans as [Plan, Plan];
  const keeper = await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await ask(first, large);
  await buyer.cancel(first);
  await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
  await stage.quiet();
  await keeper.stop();
  stage.passHours(24);
  const pda = await stage.open(large, buyer.keypair);
  const { status } = await buyer.post('subscriptions', {
    ...{ appId: small.appId, planId: large.id, subscriptionPda: pda },
  });
  t.equal(status, 201);
  await stage.startKeeper();
  await stage.quiet();
  t.match(await read(await newest(large)), { replaces: null });
  const shown = await buyer.get<{ replacedBy: string | null }>(`subscriptions/${first.id}`);
  t.match(shown.body.data, { replacedBy: null }, 'its paid time goes on');
});

void t.test('nor does it take the trial of the plan from its wallet', async (t) => {
  const { stage, plans, buyer, ask } = await startPlanChanges(t, [100, 120]);
  const [small, large] = plans as [Plan, Plan];
  await stage.sql`update plans set trial_hours = 168 where id = ${large.id}`;
  const keeper = await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await ask(first, large);
  await buyer.cancel(first);
  await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
  await stage.quiet();
  await keeper.stop();
  stage.passHours(24);
  const before = await stage.balance(buyer.wallet);
  const pda = await stage.open(large, buyer.keypair);
  const { status } = await buyer.post('subscriptions', {
    ...{ appId: small.appId, planId: large.id, subscriptionPda: pda },
  });
  t.equal(status, 201);
  await stage.startKeeper();
  await stage.quiet();
  t.equal(await stage.balance(buyer.wallet), before, 'the wallet has its trial');
});
