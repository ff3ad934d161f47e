// Order, pace and completeness of the sweep. What a sweep changes is tested in
// test/scenarios/life.test.ts.
import t, { type Test } from 'tap';
import { cancelSubscription } from '../../../src/chain/program/instructions.ts';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { RpcUnreachable } from '../../../src/chain/rpc/errors.ts';
import type { Rpc } from '../../../src/chain/rpc/rpc.ts';
import { Sweep } from '../../../src/keeper/follow/sweep.ts';
import { silent, startStage } from '../../fixtures/billing.ts';
import { payTokens } from '../../fixtures/tokens.ts';

const SIZE = 128;
const MINUTES = 60;

/**
 * Rows that fall due one after the other in a year, in the order of `ids`; `looks` has the ids that
 * each read returned.
 */
async function swept(t: Test, count: number) {
  const stage = await startStage(t);
  const plan = await stage.plan();
  const wallets = Array.from(
    { length: count },
    () => stage.wallet({ lamports: 0n, usdc: 0n }).address,
  );
  const rows = await stage.sql<{ id: string; wallet: string }[]>`
    with made as (
      insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due)
      select ${plan.appId}, ${plan.id}, wallet, wallet, 1, 1, now() + interval '1 year'
      from unnest(${wallets}::text[]) as wallet returning id, app_id, subscriber_wallet, next_payment_due
    ), work as (
      insert into subscription_work (subscription_id, app_id, due_at)
      select id, app_id, next_payment_due + array_position(${wallets}::text[], subscriber_wallet) * interval '1 second'
      from made
    )
    select id, subscriber_wallet as wallet from made`;
  const ids = wallets.map((wallet) => rows.find((row) => row.wallet === wallet)!.id);
  const looks: string[][] = [];
  return {
    stage,
    ids,
    looks,
    /** A keeper's sweep; `rpc` replaces methods of its client. */
    sweep: (rpc: Partial<Rpc> = {}) => {
      const { context } = stage.parts(rpc);
      const onRead = (read: readonly { id: string }[]) =>
        looks.push(read.map(({ id }) => id).sort());
      return new Sweep({ ...context, onRead }, { sweepMinutes: MINUTES });
    },
    /**
     * Sets the start of the lap to `secondsAgo` (negative: in the future) and the length of the
     * previous lap.
     */
    begin: (secondsAgo = 0, length = 0) => stage.sql`
      update sweeps set starts_at = now() - ${secondsAgo} * interval '1 second', length = ${length}`,
  };
}

void t.test(
  'a turn of the sweep reads one batch in due order, and a lap takes SWEEP_MINUTES',
  async (t) => {
    const { stage, ids, looks, sweep, begin } = await swept(t, 2 * SIZE + 10);
    await begin();
    const [began] = await stage.sql<[{ startsAt: Date }]>`select starts_at from sweeps`;
    const keeper = sweep();
    for (let turns = 0; turns < 5; turns += 1)
      t.equal(await keeper.turn(), false, 'nothing is late');
    t.same(looks, [
      ids.slice(0, SIZE).toSorted(),
      ids.slice(SIZE, 2 * SIZE).toSorted(),
      ids.slice(2 * SIZE).toSorted(),
    ]);
    const [walk] = await stage.sql<[{ startsAt: Date; lap: bigint; length: number }]>`
    select starts_at, lap, length from sweeps`;
    t.equal(walk.startsAt.getTime() - began.startsAt.getTime(), MINUTES * 60_000);
    t.match(walk, { lap: 1n, length: ids.length });
  },
);

void t.test('a lap of the sweep is spread over four fifths of SWEEP_MINUTES', async (t) => {
  const { ids, looks, sweep, begin } = await swept(t, 4 * SIZE);
  await begin(0, ids.length);
  const keeper = sweep();
  t.equal(await keeper.turn(), false);
  t.equal(looks.length, 1);
  t.equal(keeper.waitMs(), 30_000, 'twelve minutes, and looked at for other keepers meanwhile');
  const quarter = 0.8 * MINUTES * 15;
  await begin(quarter - 5, ids.length);
  t.equal(await keeper.turn(), false);
  t.equal(keeper.waitMs(), 30_000);
  await begin(3 * quarter - 25, ids.length);
  t.equal(await keeper.turn(), false);
  t.ok(keeper.waitMs() > 0 && keeper.waitMs() <= 25_000, `${keeper.waitMs()} ms`);
});

void t.test('a late sweep catches up with its schedule without running ahead of it', async (t) => {
  const { ids, looks, sweep, begin } = await swept(t, 4 * SIZE);
  const spread = 0.8 * MINUTES * 60;
  await begin(spread / 2 + 10, ids.length);
  const keeper = sweep();
  t.equal(await keeper.turn(), true);
  t.equal(await keeper.turn(), true, 'half of the time is over, and a little more');
  t.equal(await keeper.turn(), false);
  t.equal(looks.length, 3);
  await begin(spread + 1, ids.length);
  while (await keeper.turn());
  t.same(looks.flat().toSorted(), ids.toSorted(), 'each once');
});

void t.test(
  'a sweep catches up with its schedule even if it has more rows than the lap before',
  async (t) => {
    const { ids, looks, sweep, begin } = await swept(t, 3 * SIZE);
    await begin(0.8 * MINUTES * 60 + 1, 1);
    const keeper = sweep();
    while (await keeper.turn());
    t.same(looks.flat().toSorted(), ids.toSorted(), 'each once');
  },
);

void t.test(
  'after a gap in the stream every subscription is read again at once, from the current position',
  async (t) => {
    const { ids, looks, sweep, begin } = await swept(t, 3 * SIZE + 20);
    await begin();
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
  },
);

void t.test(
  'after a gap in the stream a rescheduled subscription is not read twice, so that the lap ends',
  async (t) => {
    const { stage, ids, looks, sweep, begin } = await swept(t, 3 * SIZE);
    await begin(-3600);
    const keeper = sweep();
    keeper.gap();
    const moveOn = () => stage.sql`
    update subscription_work set due_at = due_at + interval '10 years' where subscription_id = any(${looks.at(-1) ?? []}::uuid[])`;
    for (let turns = 0; await keeper.turn(); turns += 1) {
      if (turns === 10) throw new Error('it does not come to its end');
      await moveOn();
    }
    t.same([...new Set(looks.flat())].toSorted(), ids.toSorted());
    t.ok(looks.flat().length <= ids.length + SIZE, `${looks.flat().length} looks at ${ids.length}`);
  },
);

void t.test('after a gap in the stream, several keepers share one lap of the sweep', async (t) => {
  const { ids, looks, sweep, begin } = await swept(t, 8 * SIZE);
  await begin(-3600);
  const keepers = [sweep(), sweep(), sweep()];
  for (const keeper of keepers) keeper.gap();
  const run = async (keeper: Sweep) => {
    while (await keeper.turn());
  };
  await Promise.all(keepers.map(run));
  t.same([...new Set(looks.flat())].toSorted(), ids.toSorted());
  // Each keeper reads at most one batch more, from the others' position at its start, and one in
  // which it sees that the lap is complete.
  t.ok(
    looks.flat().length <= ids.length + 2 * keepers.length * SIZE,
    `${looks.flat().length} looks at ${ids.length}`,
  );
});

void t.test(
  'the sweep reads all accounts of a subscription in one request and runs four requests at once',
  async (t) => {
    const requests: (readonly string[])[] = [];
    let open = 0;
    let most = 0;
    const { stage, ids, sweep, begin } = await swept(t, SIZE);
    const keeper = sweep({
      getMultipleAccounts: async (addresses, options) => {
        requests.push(addresses);
        most = Math.max(most, (open += 1));
        try {
          return await stage.rpc.getMultipleAccounts(addresses, options);
        } finally {
          open -= 1;
        }
      },
    });
    await begin();
    await keeper.turn();
    t.ok(requests.length <= 5, `${requests.length} requests`);
    t.equal(most, requests.length);
    t.equal(
      new Set(requests.flat()).size,
      3 * ids.length + 4,
      'three of each, clock, plan, merchant and treasury',
    );
  },
);

void t.test('a batch that could not be read is read first in the next turn', async (t) => {
  const { stage, ids, looks, sweep, begin } = await swept(t, SIZE + 10);
  let away = true;
  const keeper = sweep({
    getMultipleAccounts: async (...args) => {
      if (away) throw new RpcUnreachable('getMultipleAccounts', []);
      return stage.rpc.getMultipleAccounts(...args);
    },
  });
  await begin();
  for (let turns = 0; turns < 3; turns += 1) await t.rejects(keeper.turn(), RpcUnreachable);
  away = false;
  t.equal(await keeper.turn(), true);
  await keeper.turn();
  const first = ids.slice(0, SIZE).toSorted();
  t.same(looks, [first, first, first, first, ids.slice(SIZE).toSorted()]);
});

void t.test(
  'a batch of the sweep that a dead keeper had claimed is read in the next lap',
  async (t) => {
    const { stage, ids, looks, sweep, begin } = await swept(t, 2 * SIZE);
    await begin();
    const dying = sweep({
      getMultipleAccounts: () => Promise.reject(new RpcUnreachable('getMultipleAccounts', [])),
    });
    await t.rejects(dying.turn(), RpcUnreachable);
    looks.length = 0;
    const other = sweep();
    for (let turns = 0; turns < 2; turns += 1) await other.turn();
    t.same(looks.flat().toSorted(), ids.slice(SIZE).toSorted());
    await stage.sql`update sweeps set starts_at = now()`;
    await other.turn();
    t.same(looks.at(-1), ids.slice(0, SIZE).toSorted());
  },
);

void t.test(
  'a batch that fails for a reason other than an outage does not stop the sweep',
  async (t) => {
    const { stage, ids, looks, sweep, begin } = await swept(t, SIZE + 10);
    let fails = true;
    const keeper = sweep({
      getMultipleAccounts: async (...args) => {
        if (fails) throw new TypeError('an oddity');
        return stage.rpc.getMultipleAccounts(...args);
      },
    });
    await begin();
    await t.rejects(keeper.turn(), TypeError);
    fails = false;
    await keeper.turn();
    t.same(looks.at(-1), ids.slice(SIZE).toSorted());
  },
);

void t.test('the sweep makes only changed subscriptions due, at the chain’s time', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan();
  const [still, cancelled] = [await stage.subscriber(plan), await stage.subscriber(plan)];
  const keeper = await stage.startKeeper();
  await stage.until(
    'both are paid',
    async () => (await stage.sql`select 1 from payments`).length === 2,
  );
  await stage.quiet();
  await keeper.stop();
  const parties = {
    subscriber: cancelled.wallet.address,
    plan: plan.pda,
    subscription: cancelled.pda,
  };
  await stage.send([cancelled.wallet], [cancelSubscription(stage.net.programId, parties)]);
  const before = await stage.row(still);
  const { context } = stage.parts();
  const looked = stage.now();
  await new Sweep(context, { sweepMinutes: MINUTES }).readNow([still.id, cancelled.id]);
  t.same(await stage.row(still), before);
  const { dueAt, cancelRequestedAt } = await stage.row(cancelled);
  t.equal(cancelRequestedAt, null, 'what follows from it is done under a claim');
  const due = dueAt!.getTime() / 1000;
  t.ok(due >= looked - 2 && due <= stage.now(), `${due} for a look at ${looked}`);
});

void t.test('an endpoint that lags does not undo a change that was read', async (t) => {
  const stage = await startStage(t, { blockMs: 0, lagPort: 0 });
  const subscription = await stage.subscriber(await stage.plan());
  stage.net.mineBlocks(60);
  await stage.net.rpc('localnet_setFault', { kind: 'lag', slots: 20 });
  const parties = {
    subscriber: subscription.wallet.address,
    plan: subscription.plan.pda,
    subscription: subscription.pda,
  };
  await stage.send([subscription.wallet], [cancelSubscription(stage.net.programId, parties)]);
  // The client has not measured the lag of the endpoint yet.
  const rpc = createRpc({
    urls: [stage.net.lagUrl!, stage.net.rpcUrl],
    probeMs: Infinity,
    log: silent,
  });
  t.teardown(() => rpc.close());
  const { context, collector, taken } = stage.parts(rpc);
  t.equal(
    (await rpc.getMultipleAccounts([subscription.pda])).accounts[0]?.data.readBigInt64LE(147),
    0n,
    'it knows of no cancellation',
  );
  await new Sweep(context, { sweepMinutes: MINUTES }).readNow(
    [subscription.id],
    await stage.rpc.getSlot(),
  );
  await collector.turn();
  t.same(taken, [], 'nothing is collected');
  t.same(
    (await stage.events(subscription)).map(({ type }) => type),
    ['subscription_created', 'cancel_requested', 'cancel_finalized'],
  );
});

void t.test(
  'the keeper’s own unrecorded payment does not count as a change; other changes do',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const plan = await stage.plan();
    const [paid, cancelled, foreign] = [
      await stage.subscriber(plan),
      await stage.subscriber(plan),
      await stage.subscriber(plan),
    ];
    const { context, collector, taken } = stage.parts();
    await collector.turn();
    t.equal(taken.length, 3);
    for (const { attempt } of taken) await stage.rpc.sendTransaction(attempt.transaction);
    stage.net.mineBlocks(2);
    const pulled = async ({ pda }: { pda: string }) =>
      (await stage.rpc.getMultipleAccounts([pda])).accounts[0]!.data.readBigUInt64LE(131) > 0n;
    for (const one of [paid, cancelled, foreign])
      await stage.until('it has landed', () => pulled(one));
    const parties = {
      subscriber: cancelled.wallet.address,
      plan: plan.pda,
      subscription: cancelled.pda,
    };
    await stage.send([cancelled.wallet], [cancelSubscription(stage.net.programId, parties)]);
    // After this change of the amount, the pull is not the pull of the open attempt.
    await stage.sql`update payment_attempts set amount_gross = amount_gross + 1, amount_net = amount_net + 1 where subscription_id = ${foreign.id}`;
    const all = [paid, cancelled, foreign].map(({ id }) => id);
    const noticed = async () =>
      (
        await stage.sql<{ id: string }[]>`
          select subscription_id as id from subscription_work where notices > 0`
      )
        .map(({ id }) => id)
        .sort();
    await new Sweep(context, { sweepMinutes: MINUTES }).readNow(all);
    t.same(await noticed(), [cancelled.id, foreign.id].sort());
    await stage.sql`update payment_attempts set state = 'expired', resolved_at = now() where subscription_id = ${paid.id}`;
    await new Sweep(context, { sweepMinutes: MINUTES }).readNow(all);
    t.same(await noticed(), all.sort(), 'nobody is going to record it');
  },
);

void t.test(
  'the sweep finds a top-up and a new approval that no stream reported, and the payment is retried at once',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const [toppedUp, poor] = [
      await stage.subscriber(plan, { usdc: 0n }),
      await stage.subscriber(plan, { usdc: 0n }),
    ];
    const { context, collect, taken } = stage.parts();
    await collect();
    t.same(
      [(await stage.row(toppedUp)).status, (await stage.row(poor)).status],
      ['past_due', 'past_due'],
    );
    const giver = stage.wallet();
    await stage.send(
      [giver],
      [
        payTokens({
          owner: giver.address,
          mint: stage.net.mint,
          to: toppedUp.wallet.address,
          amount: 5_000_000n,
        }),
      ],
    );
    await new Sweep(context, { sweepMinutes: MINUTES }).readNow([toppedUp.id, poor.id]);
    await collect();
    t.same(
      taken.map(({ id }) => id),
      [toppedUp.id],
    );
    t.equal((await stage.row(poor)).failedAttempts, 1);
  },
);
