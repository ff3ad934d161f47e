// The plan's owner pulls from an account whose subscription has ended here: each pull is recorded
// once and owes its fee. It gives no access and has no event.
import t from 'tap';
import {
  cancelSubscription,
  revokeDelegation,
  transferSubscription,
} from '../../src/chain/program/instructions.ts';
import { reconcile } from '../../src/cli/operate/reconcile/compare.ts';
import { forceCancel } from '../../src/domain/change/cancel.ts';
import { HOUR, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';

const PERIOD = 720 * HOUR;
const PART = 1_000_000n;

const partiesOf = ({ wallet, plan, pda }: Subscription) => ({
  subscriber: wallet.address,
  plan: plan.pda,
  subscription: pda,
});

async function ownerPulls(
  stage: Stage,
  subscription: Subscription,
  caller = subscription.plan.merchant,
) {
  const pull = {
    ...partiesOf(subscription),
    caller: caller.address,
    receiver: subscription.plan.merchant.address,
    mint: stage.net.mint,
    amount: PART,
  };
  await stage.send([caller], [transferSubscription(stage.net.programId, pull)]);
}

const paidOf = (stage: Stage, { id }: Subscription) =>
  stage.sql<{ source: string; further: boolean; amountGross: bigint; feeOwed: bigint }[]>`
    select source, further, amount_gross, fee_owed from payments
    where subscription_id = ${id} order by occurred_at, id`;
const typesOf = async (stage: Stage, subscription: Subscription) =>
  (await stage.events(subscription)).map(({ type }) => type);

const restOf = async (stage: Stage, { id }: Subscription) => {
  const [row] = await stage.sql<{ pullable: boolean; dueAt: Date | null; paidThrough: Date }[]>`
    select pullable, due_at, paid_through from subscriptions
    join subscription_work on subscription_id = id where id = ${id}`;
  return row!;
};

const differences = async ({ sql, rpc, net, keeper }: Stage, repair = false) => {
  const parts = { sql, rpc, programId: net.programId, keepers: [keeper.address] };
  const range = { since: new Date(0), until: new Date(4e12), repair };
  const { differences: found } = await reconcile(parts, range);
  return found.map(({ kind, repaired }) => ({ kind, repaired }));
};

/** A paid subscription that the merchant has force-cancelled, and that a keeper has read since. */
async function ended(stage: Stage): Promise<Subscription> {
  const subscription = await stage.subscriber(await stage.plan());
  await stage.until(
    'the first payment is settled',
    async () => (await stage.payments(subscription)).length === 1,
  );
  await stage.sql.begin((tx) => forceCancel(tx, { id: subscription.id, status: 'active' }));
  await stage.until(
    'the ended subscription is read',
    async () => (await restOf(stage, subscription)).dueAt === null,
  );
  return subscription;
}

const OURS = { source: 'keeper', further: false, feeOwed: 0n };
const THEIRS = { source: 'foreign', amountGross: PART, feeOwed: PART / 100n };

void t.test(
  'pulls by the plan’s owner after the end are each recorded once, by the streams or the sweep',
  async (t) => {
    const stage = await startStage(t);
    let keeper = await stage.startKeeper();
    const subscription = await ended(stage);
    const { paidThrough } = await restOf(stage, subscription);
    t.equal((await restOf(stage, subscription)).pullable, true);
    const before = await typesOf(stage, subscription);

    await t.test('a pull by the plan’s owner after the end pays an unpaid period', async (t) => {
      await keeper.stop();
      stage.net.passSeconds(PERIOD + 5);
      keeper = await stage.startKeeper();
      await ownerPulls(stage, subscription);
      await stage.until(
        'the pull is recorded',
        async () => (await stage.payments(subscription)).length === 2,
      );
      t.match(await paidOf(stage, subscription), [OURS, { ...THEIRS, further: false }]);
    });
    await t.test(
      'a second owner’s pull in a period, while no keeper runs, is recorded as a further payment',
      async (t) => {
        await keeper.stop();
        await ownerPulls(stage, subscription);
        keeper = await stage.startKeeper();
        await stage.until(
          'the pull is recorded',
          async () => (await stage.payments(subscription)).length === 3,
        );
        const [, ...theirs] = await paidOf(stage, subscription);
        t.match(theirs, [
          { ...THEIRS, further: false },
          { ...THEIRS, further: true },
        ]);
      },
    );
    await t.test(
      'a pull by the plan’s owner in a later period after the end is recorded',
      async (t) => {
        stage.net.passSeconds(2 * PERIOD);
        await ownerPulls(stage, subscription);
        await stage.until(
          'the pull is recorded',
          async () => (await stage.payments(subscription)).length === 4,
        );
        t.match((await paidOf(stage, subscription)).at(-1), { ...THEIRS, further: false });
      },
    );
    t.same(await typesOf(stage, subscription), before, 'no event');
    const rest = await restOf(stage, subscription);
    t.same(rest.paidThrough, paidThrough, 'no access');
    t.equal(rest.pullable, true);
    await stage.quiet();
    t.same(await differences(stage), []);

    await t.test('an ended account is followed until nothing can be pulled from it', async (t) => {
      const { wallet } = subscription;
      const { programId } = stage.net;
      await stage.send([wallet], [cancelSubscription(programId, partiesOf(subscription))]);
      await ownerPulls(stage, subscription);
      stage.net.passSeconds(PERIOD);
      const { plan, pda } = subscription;
      const closing = { authority: wallet.address, plan: plan.pda, subscription: pda };
      await stage.send([wallet], [revokeDelegation(programId, closing)]);
      await stage.until('it is over', async () => !(await restOf(stage, subscription)).pullable);
      await stage.quiet();
      t.equal((await stage.payments(subscription)).length, 5);
      t.same(await differences(stage), []);
      await keeper.stop();
    });
  },
);

void t.test(
  'pulls after the end that were made while no keeper ran are recorded by the next keeper',
  async (t) => {
    const stage = await startStage(t);
    let keeper = await stage.startKeeper();
    const [living, closed] = [await ended(stage), await ended(stage)];
    await keeper.stop();
    stage.net.passSeconds(PERIOD + 5);
    for (const one of [living, closed]) await ownerPulls(stage, one);
    const { wallet, plan, pda } = closed;
    const { programId } = stage.net;
    await stage.send([wallet], [cancelSubscription(programId, partiesOf(closed))]);
    stage.net.passSeconds(PERIOD + 5);
    const closing = { authority: wallet.address, plan: plan.pda, subscription: pda };
    await stage.send([wallet], [revokeDelegation(programId, closing)]);
    stage.net.mineBlocks(40);
    t.same(await differences(stage), [
      { kind: 'not_recorded', repaired: false },
      { kind: 'not_recorded', repaired: false },
    ]);
    keeper = await stage.startKeeper();
    await stage.until('both pulls are recorded', async () => {
      const rows = await stage.sql`select 1 from payments where source = 'foreign'`;
      return rows.length === 2;
    });
    for (const one of [living, closed]) {
      t.match(await paidOf(stage, one), [OURS, { ...THEIRS, further: false }]);
      await stage.until(
        'it is followed, or over',
        async () => (await restOf(stage, one)).pullable === (one === living),
      );
    }
    t.same(await differences(stage), []);
    await keeper.stop();
  },
);

void t.test('reconcile records pulls of other pullers that no keeper has read', async (t) => {
  const stage = await startStage(t);
  const keeper = await stage.startKeeper();
  const [over, live] = [await ended(stage), await stage.subscriber(await stage.plan())];
  await stage.until('the other one is paid', async () => (await stage.payments(live)).length === 1);
  await stage.quiet();
  await keeper.stop();
  stage.net.passSeconds(PERIOD + 5);
  for (const one of [over, live]) await ownerPulls(stage, one);
  stage.net.mineBlocks(40);
  await stage.sql`update merchants set fee_bps = 100`;
  const types = await typesOf(stage, over);
  t.same(await differences(stage, true), [
    { kind: 'not_recorded', repaired: true },
    { kind: 'not_recorded', repaired: true },
  ]);
  t.match(await paidOf(stage, over), [OURS, { ...THEIRS, further: false }]);
  t.same(await typesOf(stage, over), types, 'no event after the end');
  t.match(await paidOf(stage, live), [OURS, { ...THEIRS, further: false }]);
  t.same((await typesOf(stage, live)).at(-1), 'payment_success', 'it pays a live one');
  t.same(await differences(stage), []);
});

void t.test(
  'reconcile, not the keeper, repairs a pull by the keeper that has no attempt',
  async (t) => {
    const stage = await startStage(t);
    let keeper = await stage.startKeeper();
    const subscription = await ended(stage);
    await keeper.stop();
    const [types, { paidThrough }] = [
      await typesOf(stage, subscription),
      await restOf(stage, subscription),
    ];
    stage.net.passSeconds(PERIOD + 5);
    // A registration after the end, its attempt and its payment were lost in a failover.
    await ownerPulls(stage, subscription, stage.keeper);
    stage.net.mineBlocks(40);
    keeper = await stage.startKeeper();
    const alert = /keeper_alerts_total\{reason="history_missing"\} 1/;
    await stage.until('the sweep has read it', async () => {
      return alert.test(await keeper.registry.metrics());
    });
    await stage.quiet();
    t.equal((await stage.payments(subscription)).length, 1, 'not recorded');
    t.same(await typesOf(stage, subscription), types, 'no event');
    t.same((await restOf(stage, subscription)).paidThrough, paidThrough, 'no access');
    t.same(await differences(stage), [{ kind: 'after_end', repaired: false }]);

    await ownerPulls(stage, subscription);
    await stage.until('the pull of another puller is recorded', async () => {
      return (await stage.payments(subscription)).length === 2;
    });
    await stage.quiet();
    t.match((await paidOf(stage, subscription)).at(-1), THEIRS);
    t.match(await differences(stage, true), [{ repaired: true }]);
    t.equal((await stage.payments(subscription)).length, 3);
    t.same(await differences(stage), []);
    await keeper.stop();
  },
);
