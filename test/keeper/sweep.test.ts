// In which order the sweep looks, how much at once, and that what it could not look at is not lost. What it finds: life.test.ts, follow.test.ts.
import t, { type Test } from 'tap';
import { RpcUnreachable } from '../../src/chain/rpc-errors.ts';
import type { Rpc } from '../../src/chain/rpc.ts';
import { cancelSubscription } from '../../src/chain/instructions.ts';
import { createSweep } from '../../src/keeper/sweep.ts';
import { startStage, type Stage } from '../fixtures/billing.ts';

const SIZE = 96;

/** Rows that are due in a year and were just looked at; which of them a turn reads. */
async function swept(t: Test, count: number, replaced: (stage: Stage) => Partial<Rpc> = () => ({})) {
  const stage = await startStage(t);
  const plan = await stage.plan();
  const wallets = Array.from({ length: count }, () => stage.wallet({ lamports: 0n, usdc: 0n }).address);
  const ids = (
    await stage.sql<{ id: string }[]>`
      insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due, due_at, observed_at)
      select ${plan.appId}, ${plan.id}, wallet, wallet, 1, 1, now() + interval '1 year', now() + interval '1 year', now()
      from unnest(${wallets}::text[]) as wallet returning id`
  ).map(({ id }) => id);
  const { context, clock } = stage.parts(replaced(stage));
  const looks: string[][] = [];
  const sweep = createSweep(context, clock, (read) => looks.push(read.map(({ id }) => id).sort()));
  const age = (some: string[], seconds: number) =>
    stage.sql`update subscriptions set observed_at = now() - ${seconds} * interval '1 second' where id = any(${some}::uuid[])`;
  return { stage, ids, sweep, looks, age };
}

void t.test('what was looked at a moment ago is left alone; what was not is, the longest ago first', async (t) => {
  const { ids, sweep, looks, age } = await swept(t, 2 * SIZE + 10);
  t.equal(await sweep.turn(), false);
  t.same(looks, []);
  const [older, old] = [ids.slice(0, SIZE), ids.slice(SIZE, 2 * SIZE)];
  await age(old, 100);
  await age(older, 200);
  t.equal(await sweep.turn(), false, 'one batch a turn while nothing is late');
  t.same(looks, [older.toSorted()]);
  await sweep.turn();
  t.same(looks[1], old.toSorted());
  await sweep.turn();
  t.equal(looks.length, 2);
});

void t.test('what is late is caught up with at once', async (t) => {
  const { ids, sweep, looks, age } = await swept(t, 3 * SIZE);
  await age(ids, 400);
  while (await sweep.turn());
  t.same(looks.flat().toSorted(), ids.toSorted(), 'each once');
});

void t.test('after a gap everything is looked at again, whenever that was last', async (t) => {
  const { ids, sweep, looks, stage } = await swept(t, SIZE + 20);
  sweep.gap();
  await stage.until('all have been looked at', async () => {
    await sweep.turn();
    return new Set(looks.flat()).size === ids.length;
  });
  t.equal(looks.flat().length, ids.length, 'each once');
});

void t.test('what falls due soon and what was revoked come first and oftener', async (t) => {
  const { stage, ids, sweep, looks, age } = await swept(t, 6);
  const [near, revoked, rest] = [ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)];
  await stage.sql`update subscriptions set due_at = ${new Date((stage.now() + 600) * 1000)} where id = any(${near}::uuid[])`;
  await stage.sql`update subscriptions set delegation_revoked_at = now() where id = any(${revoked}::uuid[])`;
  await age(rest, 20);
  await age(near, 31);
  await age(revoked, 4);
  for (let turns = 0; turns < 3; turns += 1) await sweep.turn();
  t.same(looks, [near.toSorted(), revoked.toSorted(), rest.toSorted()]);
  await age(revoked, 4);
  await sweep.turn();
  t.same(looks[3], revoked.toSorted());
});

void t.test('what could not be looked at is first the next time', async (t) => {
  let away = true;
  const { ids, sweep, looks, age } = await swept(t, 10, ({ rpc }) => ({
    getMultipleAccounts: async (...args) => {
      if (away) throw new RpcUnreachable('getMultipleAccounts', []);
      return rpc.getMultipleAccounts(...args);
    },
  }));
  await age(ids.slice(0, 5), 20);
  await t.rejects(sweep.turn(), RpcUnreachable);
  away = false;
  await sweep.turn();
  t.same(looks, [ids.slice(0, 5).toSorted(), ids.slice(0, 5).toSorted()]);
});

void t.test('a look makes due what has news, as of the chain’s time, and nothing else', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan();
  const [still, cancelled] = [await stage.subscriber(plan), await stage.subscriber(plan)];
  const keeper = await stage.startKeeper();
  await stage.until('both are paid', async () => (await stage.sql`select 1 from payments`).length === 2);
  await stage.quiet();
  await keeper.stop();
  const parties = { subscriber: cancelled.wallet.address, plan: plan.pda, subscription: cancelled.pda };
  await stage.send([cancelled.wallet], [cancelSubscription(stage.net.programId, parties)]);
  const before = await stage.row(still);
  const { context, clock } = stage.parts();
  await createSweep(context, clock).look([still.id, cancelled.id]);
  t.same(await stage.row(still), before);
  const { dueAt, cancelRequestedAt } = await stage.row(cancelled);
  t.equal(cancelRequestedAt, null, 'what follows from it is done under a claim');
  t.ok(Math.abs(dueAt!.getTime() / 1000 - stage.now()) <= 2);
});
