// Closing of on-chain accounts: those whose rent the keeper paid, once the paid time is over.
import t, { type Test } from 'tap';
import { planIn } from '../../../src/chain/program/accounts.ts';
import { cancelSubscription } from '../../../src/chain/program/instructions.ts';
import { updatePlan } from '../../../src/chain/program/plan-instructions.ts';
import { expireKeeperLeases } from '../../../src/db/operating/sandbox.ts';
import { forceCancel, requestCancel } from '../../../src/domain/change/cancel.ts';
import { paidOnce } from '../../fixtures/agreement.ts';
import { HOUR, startStage, type Stage, type Subscription } from '../../fixtures/billing.ts';

const DAY = 24 * HOUR;

const cancelOnChain = (stage: Stage, { wallet, pda, plan }: Subscription) =>
  stage.send(
    [wallet],
    [
      cancelSubscription(stage.net.programId, {
        subscriber: wallet.address,
        plan: plan.pda,
        subscription: pda,
      }),
    ],
  );

const force = (stage: Stage, { id }: Subscription) =>
  stage.sql.begin((tx) => forceCancel(tx, { id, status: 'active' }));

/** A running keeper, and a subscription whose rent it paid and whose first day it collected. */
async function started(t: Test) {
  const stage = await startStage(t);
  const plan = await stage.plan({ periodHours: 24 });
  const subscription = await stage.subscriber(plan, { payer: stage.keeper });
  const keeper = await stage.startKeeper();
  await paidOnce(stage, subscription);
  return { stage, plan, subscription, keeper };
}

const typesOf = async (stage: Stage, subscription: Subscription) =>
  (await stage.events(subscription)).map(({ type }) => type);

async function lamportsOf(stage: Stage, address: string): Promise<bigint> {
  return stage.rpc.getBalance(address);
}

void t.test(
  'a cancelled account whose rent the keeper paid is closed after the paid time',
  async (t) => {
    const { stage, subscription } = await started(t);
    await cancelOnChain(stage, subscription);
    await stage.until(
      'the cancellation is seen',
      async () => (await stage.row(subscription)).cancelRequestedAt !== null,
    );
    const rent = await lamportsOf(stage, subscription.pda);
    const before = await lamportsOf(stage, stage.keeper.address);
    stage.net.passSeconds(DAY - 60);
    await stage.quiet();
    t.not(await stage.onChain(subscription), null, 'not before the end');
    stage.net.passSeconds(65);
    await stage.until(
      'it is cancelled',
      async () => (await stage.row(subscription)).status === 'cancelled',
    );
    t.match((await stage.events(subscription)).at(-1), {
      type: 'cancel_finalized',
      data: { accountClosed: true },
    });
    t.equal(await stage.onChain(subscription), null);
    t.ok(
      (await lamportsOf(stage, stage.keeper.address)) > before + rent - 20_000n,
      'but for the fee',
    );
  },
);

void t.test(
  'after a forced cancellation the account is closed when it is cancelled on chain and paid time is over',
  async (t) => {
    const { stage, subscription } = await started(t);
    const { paidThrough } = await stage.row(subscription);
    await force(stage, subscription);
    await cancelOnChain(stage, subscription);
    await stage.until('it is looked at when the prepaid time is over', async () => {
      const { dueAt, claimId } = await stage.row(subscription);
      return claimId === null && dueAt?.getTime() === paidThrough?.getTime();
    });
    stage.net.passSeconds(DAY - 60);
    await stage.quiet();
    t.not(await stage.onChain(subscription), null, 'not in the prepaid time');
    stage.net.passSeconds(65);
    await stage.until('it is closed', async () => (await stage.onChain(subscription)) === null);
    await stage.until(
      'there is nothing left to do',
      async () => (await stage.row(subscription)).dueAt === null,
    );
    t.equal((await stage.row(subscription)).status, 'cancelled');
    t.same(await typesOf(stage, subscription), [
      'subscription_created',
      'payment_success',
      'cancel_forced',
    ]);
  },
);

void t.test(
  'after a forced cancellation a live account is read daily, never pulled from, and closed when its plan ends',
  async (t) => {
    const { stage, plan, subscription } = await started(t);
    await force(stage, subscription);
    stage.net.passSeconds(DAY + 5);
    const { paidThrough } = await stage.row(subscription);
    await stage.until(
      'it is put off',
      async () =>
        (await stage.row(subscription)).dueAt! >
        new Date(paidThrough!.getTime() + (DAY - 60) * 1000),
    );
    t.not(await stage.onChain(subscription), null, 'the program keeps it open');
    const { accounts } = await stage.rpc.getMultipleAccounts([plan.pda]);
    const seen = planIn(accounts[0] ?? null, stage.net.programId)!;
    const edit = {
      status: 'sunset',
      endTs: BigInt(stage.now() + DAY + 60),
      pullers: seen.pullers,
      metadataUri: '',
    } as const;
    await stage.send(
      [plan.merchant],
      [
        updatePlan(stage.net.programId, {
          owner: plan.merchant.address,
          plan: plan.pda,
          edit,
          seen,
        }),
      ],
    );
    stage.net.passSeconds(2 * DAY);
    await stage.until('it is closed', async () => (await stage.onChain(subscription)) === null);
    t.equal((await stage.payments(subscription)).length, 1);
  },
);

void t.test(
  'an account whose rent the subscriber paid is never closed by the keeper',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ periodHours: 24 });
    const subscriptions = [
      await stage.subscriber(plan),
      await stage.subscriber(plan),
      await stage.subscriber(plan),
    ] as const;
    await stage.startKeeper();
    for (const subscription of subscriptions) await paidOnce(stage, subscription);
    const [forced, asked, cancelled] = subscriptions;
    await force(stage, forced);
    await stage.sql.begin((tx) => requestCancel(tx, { id: asked.id, status: 'active' }));
    for (const subscription of subscriptions) await cancelOnChain(stage, subscription);
    stage.net.passSeconds(DAY + 5);
    for (const subscription of subscriptions) {
      await stage.until(
        'there is nothing left to do',
        async () => (await stage.row(subscription)).dueAt === null,
      );
      t.not(await stage.onChain(subscription), null);
    }
    t.equal((await stage.events(cancelled)).at(-1)?.data.accountClosed, false);
  },
);

void t.test(
  'the account of a subscription that expired past due is closed once the subscriber has cancelled',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ periodHours: 24 });
    const subscription = await stage.subscriber(plan, { payer: stage.keeper, usdc: 0n });
    await stage.startKeeper();
    await stage.until(
      'it is past due',
      async () => (await stage.row(subscription)).status === 'past_due',
    );
    for (let days = 0; days < 8; days += 1) {
      stage.net.passSeconds(DAY + 5);
      await stage.quiet();
    }
    t.equal((await stage.row(subscription)).status, 'expired');
    t.not((await stage.row(subscription)).dueAt, null);
    await cancelOnChain(stage, subscription);
    stage.net.passSeconds(2 * DAY);
    await stage.until('it is closed', async () => (await stage.onChain(subscription)) === null);
    t.equal((await stage.row(subscription)).status, 'expired');
  },
);

void t.test(
  'a close transaction that does not land delays neither collections nor a stop',
  async (t) => {
    const { stage, plan, subscription: closing, keeper } = await started(t);
    const collecting = await stage.subscriber(plan);
    await paidOnce(stage, collecting);
    await cancelOnChain(stage, closing);
    await stage.until(
      'the cancellation is seen',
      async () => (await stage.row(closing)).cancelRequestedAt !== null,
    );
    await keeper.stop();
    stage.net.passSeconds(DAY + 5);

    let lost = 0;
    const { collector, taken } = stage.parts({
      sendTransaction: async () => {
        lost += 1;
        return '';
      },
    });
    await collector.turn();
    t.same(
      taken.map(({ id }) => id),
      [collecting.id],
    );
    t.match(await stage.row(closing), { status: 'active', claimId: /./ }, 'still under way');
    await stage.until('it was sent', async () => lost > 0);
    await collector.stop();
    t.match(await stage.row(closing), { status: 'active', claimId: null }, 'given back as it was');

    await expireKeeperLeases(stage.sql);
    await stage.startKeeper();
    await stage.until(
      'the next keeper closes it',
      async () => (await stage.row(closing)).status === 'cancelled',
    );
    t.match((await stage.events(closing)).at(-1), {
      type: 'cancel_finalized',
      data: { accountClosed: true },
    });
  },
);
