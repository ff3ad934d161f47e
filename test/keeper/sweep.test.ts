// In which order the sweep looks, how much at once, and that nothing is left out. What it finds: life.test.ts, follow.test.ts.
import t, { type Test } from 'tap';
import { RpcUnreachable } from '../../src/chain/rpc-errors.ts';
import { createRpc, type Rpc } from '../../src/chain/rpc.ts';
import { cancelSubscription } from '../../src/chain/instructions.ts';
import type { SweepName } from '../../src/db/sweeps.ts';
import { createSweep } from '../../src/keeper/sweep.ts';
import { silent, startStage } from '../fixtures/billing.ts';

const SIZE = 96;

/** Rows that fall due one after the other in a year, in this order; sweeps that tell which of them a turn reads. All walks rest. */
async function swept(t: Test, count: number) {
  const stage = await startStage(t);
  const plan = await stage.plan();
  const wallets = Array.from({ length: count }, () => stage.wallet({ lamports: 0n, usdc: 0n }).address);
  const rows = await stage.sql<{ id: string; wallet: string }[]>`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due, due_at)
    select ${plan.appId}, ${plan.id}, wallet, wallet, 1, 1, now() + interval '1 year', now() + interval '1 year' + place * interval '1 second'
    from unnest(${wallets}::text[]) with ordinality as v (wallet, place) returning id, subscriber_wallet as wallet`;
  const ids = wallets.map((wallet) => rows.find((row) => row.wallet === wallet)!.id);
  const looks: string[][] = [];
  return {
    stage,
    ids,
    looks,
    /** A keeper's sweep; `rpc` replaces methods of its client. */
    sweep: (rpc: Partial<Rpc> = {}) => {
      const { context, clock } = stage.parts(rpc);
      return createSweep(context, clock, (read) => looks.push(read.map(({ id }) => id).sort()));
    },
    /** The lap of this walk began so many seconds ago; the others rest. */
    begin: async (name: SweepName, secondsAgo = 0, length = 0) => {
      await stage.sql`update sweeps set starts_at = now() + interval '1 hour'`;
      await stage.sql`update sweeps set starts_at = now() - ${secondsAgo} * interval '1 second', length = ${length} where name = ${name}`;
    },
  };
}

void t.test(
  'a turn goes on by one batch, what falls due first before the rest; a lap that is over rests for fifteen seconds',
  async (t) => {
    const { stage, ids, looks, sweep, begin } = await swept(t, 2 * SIZE + 10);
    await begin('all');
    const keeper = sweep();
    for (let turns = 0; turns < 5; turns += 1) t.equal(await keeper.turn(), false, 'nothing is late');
    t.same(looks, [ids.slice(0, SIZE).toSorted(), ids.slice(SIZE, 2 * SIZE).toSorted(), ids.slice(2 * SIZE).toSorted()]);
    const [all] = await stage.sql<{ rest: number; lap: bigint; length: number }[]>`
    select extract(epoch from starts_at - now())::float8 as rest, lap, length from sweeps where name = 'all'`;
    t.ok(all!.rest > 5 && all!.rest <= 15, `${all!.rest} s`);
    t.match(all, { lap: 1n, length: ids.length });
  },
);

void t.test('a lap that is behind its five minutes is caught up with at once, and no further than to its time', async (t) => {
  const { ids, looks, sweep, begin } = await swept(t, 4 * SIZE);
  await begin('all', 150, ids.length);
  const keeper = sweep();
  t.equal(await keeper.turn(), true);
  t.equal(await keeper.turn(), true, 'half of the time is over, and a little more');
  t.equal(await keeper.turn(), false);
  t.equal(looks.length, 3);
  await begin('all', 301, ids.length);
  while (await keeper.turn());
  t.same(looks.flat().toSorted(), ids.toSorted(), 'each once');
});

void t.test('a lap that takes longer than five minutes is caught up with, though the one before was short', async (t) => {
  const { ids, looks, sweep, begin } = await swept(t, 3 * SIZE);
  await begin('all', 301, 1);
  const keeper = sweep();
  while (await keeper.turn());
  t.same(looks.flat().toSorted(), ids.toSorted(), 'each once');
});

void t.test('after a gap everything is looked at again at once, from where the walk is, all round', async (t) => {
  const { ids, looks, sweep, begin } = await swept(t, 3 * SIZE + 20);
  await begin('all');
  const keeper = sweep();
  await keeper.turn();
  await keeper.turn();
  looks.length = 0;
  keeper.gap();
  while (await keeper.turn());
  const seen = looks.flat();
  t.same([...new Set(seen)].toSorted(), ids.toSorted());
  t.same(looks[0], ids.slice(2 * SIZE, 3 * SIZE).toSorted());
  t.ok(seen.length < ids.length + SIZE, 'no further than to where it began');
  t.equal(await keeper.turn(), false);
});

void t.test('after a gap nothing is looked at for having been paid and moved on meanwhile: the way round would have no end', async (t) => {
  const { stage, ids, looks, sweep, begin } = await swept(t, 3 * SIZE);
  await begin('revoked');
  const keeper = sweep();
  keeper.gap();
  const moveOn = () => stage.sql`
    update subscriptions set due_at = due_at + interval '10 years' where id = any(${looks.at(-1) ?? []}::uuid[])`;
  for (let turns = 0; await keeper.turn(); turns += 1) {
    if (turns === 10) throw new Error('it does not come to its end');
    await moveOn();
  }
  t.same([...new Set(looks.flat())].toSorted(), ids.toSorted());
  t.ok(looks.flat().length <= ids.length + SIZE, `${looks.flat().length} looks at ${ids.length}`);
});

void t.test('keepers share the walk: after a gap that all of them had they go round once, not once each', async (t) => {
  const { ids, looks, sweep, begin } = await swept(t, 8 * SIZE);
  await begin('revoked');
  const keepers = [sweep(), sweep(), sweep()];
  for (const keeper of keepers) keeper.gap();
  await Promise.all(
    keepers.map(async (keeper) => {
      while (await keeper.turn());
    }),
  );
  t.same([...new Set(looks.flat())].toSorted(), ids.toSorted());
  // One batch each from where the others were when it began, and one in which it sees that the walk has come round.
  t.ok(looks.flat().length <= ids.length + 2 * keepers.length * SIZE, `${looks.flat().length} looks at ${ids.length}`);
});

void t.test('what falls due soon and what was revoked are looked at besides, and oftener', async (t) => {
  const { stage, ids, looks, sweep } = await swept(t, 6);
  const [near, revoked] = [ids.slice(0, 2), ids.slice(2, 4)];
  await stage.sql`update subscriptions set due_at = ${new Date((stage.now() + 600) * 1000)} where id = any(${near}::uuid[])`;
  await stage.sql`update subscriptions set delegation_revoked_at = now() where id = any(${revoked}::uuid[])`;
  await stage.sql`update sweeps set starts_at = now()`;
  const keeper = sweep();
  t.equal(await keeper.turn(), false);
  t.same(looks, [ids.toSorted()], 'all three walks at once, each row once');
  const rests = await stage.sql<{ name: string; seconds: number }[]>`
    select name, round(extract(epoch from starts_at - (select min(starts_at) from sweeps)))::int as seconds from sweeps order by name`;
  t.same(
    rests.map(({ name, seconds }) => [name, seconds]),
    [
      ['all', 12],
      ['near', 27],
      ['revoked', 0],
    ],
  );
  await stage.sql`update sweeps set starts_at = now() where name = 'revoked'`;
  await keeper.turn();
  await stage.sql`update sweeps set starts_at = now() where name = 'near'`;
  await keeper.turn();
  t.same(looks.slice(1), [revoked.toSorted(), near.toSorted()]);
});

void t.test('what could not be looked at is first the next time, and nothing else is taken meanwhile', async (t) => {
  const { stage, ids, looks, sweep, begin } = await swept(t, SIZE + 10);
  let away = true;
  const keeper = sweep({
    getMultipleAccounts: async (...args) => {
      if (away) throw new RpcUnreachable('getMultipleAccounts', []);
      return stage.rpc.getMultipleAccounts(...args);
    },
  });
  await begin('all');
  for (let turns = 0; turns < 3; turns += 1) await t.rejects(keeper.turn(), RpcUnreachable);
  away = false;
  t.equal(await keeper.turn(), true);
  await keeper.turn();
  const first = ids.slice(0, SIZE).toSorted();
  t.same(looks, [first, first, first, first, ids.slice(SIZE).toSorted()]);
});

void t.test('what a keeper had taken and died with is looked at in the next lap', async (t) => {
  const { stage, ids, looks, sweep, begin } = await swept(t, 2 * SIZE);
  await begin('all');
  const dying = sweep({ getMultipleAccounts: () => Promise.reject(new RpcUnreachable('getMultipleAccounts', [])) });
  await t.rejects(dying.turn(), RpcUnreachable);
  looks.length = 0;
  const other = sweep();
  for (let turns = 0; turns < 2; turns += 1) await other.turn();
  t.same(looks.flat().toSorted(), ids.slice(SIZE).toSorted());
  await stage.sql`update sweeps set starts_at = now() where name = 'all'`;
  await other.turn();
  t.same(looks.at(-1), ids.slice(0, SIZE).toSorted());
});

void t.test('a batch that fails of itself does not stop the walk', async (t) => {
  const { stage, ids, looks, sweep, begin } = await swept(t, SIZE + 10);
  let fails = true;
  const keeper = sweep({
    getMultipleAccounts: async (...args) => {
      if (fails) throw new TypeError('an oddity');
      return stage.rpc.getMultipleAccounts(...args);
    },
  });
  await begin('all');
  await t.rejects(keeper.turn(), TypeError);
  fails = false;
  await keeper.turn();
  t.same(looks.at(-1), ids.slice(SIZE).toSorted());
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
  const looked = stage.now();
  await createSweep(context, clock).look([still.id, cancelled.id]);
  t.same(await stage.row(still), before);
  const { dueAt, cancelRequestedAt } = await stage.row(cancelled);
  t.equal(cancelRequestedAt, null, 'what follows from it is done under a claim');
  const due = dueAt!.getTime() / 1000;
  t.ok(due >= looked - 2 && due <= stage.now(), `${due} for a look at ${looked}`);
});

void t.test('what a look has seen binds whoever collects next: a preferred endpoint that is behind does not undo it', async (t) => {
  const stage = await startStage(t, { blockMs: 0, lagPort: 0 });
  const subscription = await stage.subscriber(await stage.plan());
  stage.net.mineBlocks(60);
  await stage.net.rpc('localnet_setFault', { kind: 'lag', slots: 20 });
  const parties = { subscriber: subscription.wallet.address, plan: subscription.plan.pda, subscription: subscription.pda };
  await stage.send([subscription.wallet], [cancelSubscription(stage.net.programId, parties)]);
  // How far behind it is was not found out yet.
  const rpc = createRpc({ urls: [stage.net.lagUrl!, stage.net.rpcUrl], probeMs: Infinity, log: silent });
  t.teardown(() => rpc.close());
  const { context, clock, collector, taken } = stage.parts(rpc);
  t.equal((await rpc.getMultipleAccounts([subscription.pda])).accounts[0]?.data.readBigInt64LE(147), 0n, 'it knows of no cancellation');
  await createSweep(context, clock).look([subscription.id], await stage.rpc.getSlot());
  await collector.turn();
  t.same(taken, [], 'nothing is collected');
  t.same(
    (await stage.events(subscription)).map(({ type }) => type),
    ['subscription_created', 'cancel_requested', 'cancel_finalized'],
  );
});

void t.test('a payment of ours that has landed and is not recorded yet is no news; what else the account tells is', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan();
  const [paid, cancelled, foreign] = [await stage.subscriber(plan), await stage.subscriber(plan), await stage.subscriber(plan)];
  const { context, clock, collector, taken } = stage.parts();
  await collector.turn();
  t.equal(taken.length, 3);
  for (const { attempt } of taken) await stage.rpc.sendTransaction(attempt.transaction);
  const pulled = async ({ pda }: { pda: string }) =>
    (await stage.rpc.getMultipleAccounts([pda])).accounts[0]!.data.readBigUInt64LE(131) > 0n;
  for (const one of [paid, cancelled, foreign]) await stage.until('it has landed', () => pulled(one));
  const parties = { subscriber: cancelled.wallet.address, plan: plan.pda, subscription: cancelled.pda };
  await stage.send([cancelled.wallet], [cancelSubscription(stage.net.programId, parties)]);
  // What another amount tells of, nobody has under way.
  await stage.sql`update payment_attempts set amount_gross = amount_gross + 1, amount_net = amount_net + 1 where subscription_id = ${foreign.id}`;
  const all = [paid, cancelled, foreign].map(({ id }) => id);
  const noticed = async () =>
    (await stage.sql<{ id: string }[]>`select id from subscriptions where notices > 0`).map(({ id }) => id).sort();
  await createSweep(context, clock).look(all);
  t.same(await noticed(), [cancelled.id, foreign.id].sort());
  await stage.sql`update payment_attempts set state = 'expired', resolved_at = now() where subscription_id = ${paid.id}`;
  await createSweep(context, clock).look(all);
  t.same(await noticed(), all.sort(), 'nobody is going to record it');
});
