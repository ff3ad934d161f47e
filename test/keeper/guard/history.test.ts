// Nothing is signed after a failover until a lost signature can no longer land, nor after a restore
// until an operator resumes collection.
import t, { type Test } from 'tap';
import {
  holdCollection,
  listHolds,
  readBrake,
  resumeCollection,
} from '../../../src/db/operating/collection-holds.ts';
import { expireKeeperLeases } from '../../../src/db/operating/sandbox.ts';
import { AMOUNT, due, paidOnce, pullsOnChain, sent } from '../../fixtures/agreement.ts';
import type { Stage, Subscription } from '../../fixtures/billing.ts';
import { losePayments } from '../../fixtures/rows.ts';

const operator = { who: 'tester', host: 'here' };
const all = { merchantId: null, planId: null, what: null, reason: 'a test', by: operator };

/** Inserts the row that daemons record at their start. */
async function install({ sql, net, keeper, treasury }: Stage): Promise<void> {
  await sql`
    insert into installation (cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds)
    values ('localnet', ${net.mint}, ${net.programId}, ${[keeper.address]}, ${[treasury.address]}, 100, 0)`;
}

async function staged(t: Test, options = {}) {
  const scene = await due(t, options);
  await install(scene.stage);
  return scene;
}

/**
 * Drops the commits since a payment was signed and records another timeline, as a failover to an
 * asynchronous standby does.
 */
async function failOver(stage: Stage, { claims }: { claims: 'lost' | 'kept' }): Promise<void> {
  await stage.sql.begin(async (tx) => {
    await tx`delete from payment_attempts`;
    await tx`delete from invoices where state = 'open'`;
    await tx`delete from transactions`;
    if (claims === 'lost')
      await tx`update subscription_work set claim_id = null, lease_until = null`;
    await tx`update installation set timeline = '0000000A'`;
  });
}

const signed = async ({ sql }: Stage) => (await sql`select 1 from transactions`).length;

const successes = async (stage: Stage, subscription: Subscription) =>
  (await stage.payments(subscription)).filter(({ status }) => status === 'succeeded');

for (const percent of [null, 60])
  for (const [survives, claims] of [
    [true, 'lost'],
    [true, 'kept'],
    [false, 'lost'],
  ] as const)
    void t.test(
      `a payment lost in a failover is collected once, discount ${percent ?? 0} %, its keeper ${survives ? 'keeps running' : 'is gone'}, claims ${claims}`,
      async (t) => {
        const { stage, subscription } = await staged(t, { blockMs: 400 });
        if (percent !== null)
          await stage.sql`update subscriptions set discount_percent = ${percent},
            discount_id = case when ${percent}::int > 0 then uuid_v7() end where id = ${subscription.id}`;
        await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 60, count: 1 });
        const keeper = await stage.startKeeper();
        await sent(stage, keeper);
        if (!survives) {
          // A killed keeper releases no claims. The new claim ids keep this keeper from settling
          // what it sent.
          await stage.sql`update subscription_work set claim_id = gen_random_uuid()`;
          await keeper.stop();
        }
        await failOver(stage, { claims });
        const next = survives ? keeper : await stage.startKeeper();
        await stage.until('the new timeline is recorded', async () => {
          const brake = await readBrake(stage.sql);
          return brake.recorded === brake.timeline;
        });
        const { collectsAfterHeight } = await readBrake(stage.sql);
        const height = collectsAfterHeight ?? 0n;
        t.match(next.note(), `before block height ${height} is finalized`);
        t.equal(await next.ready(), undefined, 'the keeper is ready still');
        // The lost transaction lands in the meantime.
        stage.net.mineBlocks(60);
        await stage.until(
          'the lost transaction has landed',
          async () => (await pullsOnChain(stage, subscription)).length === 1,
        );
        t.equal(await signed(stage), 0, 'nothing is signed before the height');
        while ((await stage.rpc.getBlockHeight({ commitment: 'finalized' })) <= height)
          stage.net.mineBlocks(20);
        await stage.until(
          'signing continues',
          async () => (await readBrake(stage.sql)).collectsAfterHeight === null,
        );
        // The payment is decided again: under a hold this happens every minute of chain time.
        await stage.until('the payment is recorded', async () => {
          stage.net.passSeconds(10);
          // The keeper gives the payment up, because its invoice is lost, but keeps the lease.
          if (claims === 'kept') await expireKeeperLeases(stage.sql);
          return (await successes(stage, subscription)).length > 0;
        });
        await stage.quiet();
        const pulls = await pullsOnChain(stage, subscription);
        t.equal(pulls.length, 1);
        t.same(
          (await successes(stage, subscription)).map(({ txSignature }) => txSignature),
          pulls.map(({ signature }) => signature),
        );
        const told = (await stage.events(subscription)).filter(
          ({ type }) => type === 'payment_success',
        );
        t.match(told, [{ data: { recovered: true } }]);
        t.equal(told.length, 1);
        const alerts = await next.registry.getSingleMetric('billing_keeper_alerts_total')?.get();
        t.notOk(
          alerts?.values.some(
            ({ labels, value }) => labels['reason'] === 'cannot_be_settled' && value > 0,
          ),
          'without an alert that it cannot be settled',
        );
      },
    );

void t.test(
  'after the restore of a backup, collection is held until an operator resumes it once',
  async (t) => {
    const { stage, plan, subscription } = await staged(t);
    const first = await stage.startKeeper();
    await paidOnce(stage, subscription);
    await first.stop();
    t.notHas((await stage.events(subscription)).at(-1)?.data, { recovered: true });
    stage.net.passSeconds(700);
    stage.net.mineBlocks(40);
    // The backup was taken before the payment.
    await stage.sql.begin(async (tx) => {
      await losePayments(tx);
      await tx`delete from transactions`;
      await tx`
      update subscriptions set period_pulled = 0, discount_percent = 60, discount_id = uuid_v7(),
        next_payment_due = created_at`;
      await tx`update subscription_work set paid_through = null, due_at = to_timestamp(0)`;
    });
    const second = await stage.startKeeper();
    await stage.until('collection is held', async () => (await listHolds(stage.sql)).length > 0);
    const [hold] = await listHolds(stage.sql);
    const [{ signature }] = (await pullsOnChain(stage, subscription)) as unknown as [
      { signature: string },
    ];
    t.match(hold, {
      merchantId: null,
      planId: null,
      missingUntil: Date,
      reason: new RegExp(`${signature}.*billing reconcile --repair.*billing collection resume`),
    });
    t.match(await second.registry.metrics(), /keeper_alerts_total\{reason="history_missing"\} 1/);
    // Payments on chain are recorded, due payments are not collected.
    const other = await stage.subscriber(plan);
    await stage.until('the payment is recorded again', async () => {
      stage.net.passSeconds(10);
      return (await successes(stage, subscription)).length > 0;
    });
    t.match((await stage.events(subscription)).at(-1), {
      type: 'payment_success',
      data: { txSignature: signature, recovered: true },
    });
    await stage.until('the other payment is put off', async () => {
      const { dueAt, nextPaymentDue } = await stage.row(other);
      return dueAt !== null && nextPaymentDue !== null && dueAt > nextPaymentDue;
    });
    t.equal(await signed(stage), 0);
    t.match(second.note(), 'collection of all plans is held');
    await second.stop();

    t.equal(await resumeCollection(stage.sql, all), true);
    t.equal(await resumeCollection(stage.sql, all), false);
    const third = await stage.startKeeper();
    await stage.until('the other payment is collected', async () => {
      stage.net.passSeconds(10);
      return (await successes(stage, other)).length > 0;
    });
    t.same(await listHolds(stage.sql), [], 'accepted once, it holds no more');
    t.equal((await pullsOnChain(stage, subscription)).length, 1);
    await third.stop();
  },
);

void t.test(
  'a missing payment of an unknown plan causes no hold, because another installation may use the key',
  async (t) => {
    const { stage, subscription } = await staged(t);
    const first = await stage.startKeeper();
    await paidOnce(stage, subscription);
    await first.stop();
    stage.net.passSeconds(700);
    stage.net.mineBlocks(40);
    await stage.sql.begin(async (tx) => {
      await losePayments(tx);
      await tx`delete from transactions`;
      await tx`update subscription_work set due_at = null`;
      await tx`update plans set status = 'ended'`;
    });
    const second = await stage.startKeeper();
    await stage.until('the keeper may sign', async () => second.note() === undefined);
    t.same(await listHolds(stage.sql), []);
  },
);

void t.test(
  'a hold on one plan leaves its payments due without a failure, and other plans are collected',
  async (t) => {
    const { stage, plan, subscription } = await staged(t);
    const poor = await stage.subscriber(plan, { usdc: 0n });
    const open = await stage.plan({ amount: AMOUNT });
    const other = await stage.subscriber(open);
    await holdCollection(stage.sql, { ...all, planId: plan.id });
    const keeper = await stage.startKeeper();
    await paidOnce(stage, other);
    for (const one of [subscription, poor]) {
      await stage.until('it is put off', async () => {
        const { dueAt, nextPaymentDue } = await stage.row(one);
        return dueAt !== null && nextPaymentDue !== null && dueAt > nextPaymentDue;
      });
      t.match(await stage.row(one), { status: 'active', failedAttempts: 0, setbacks: 0 });
      t.same(await stage.payments(one), []);
    }
    t.match(await keeper.registry.metrics(), /billing_collection_held\{scope="plan"\} 1/);
    await resumeCollection(stage.sql, { ...all, planId: plan.id });
    stage.net.passSeconds(61);
    await paidOnce(stage, subscription);
    await stage.until('the other fails', async () => (await stage.payments(poor)).length > 0);
    t.match(await stage.row(poor), { status: 'past_due' });
  },
);
