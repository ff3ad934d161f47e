// A payment that was signed before the subscriber cancelled on chain, and not sent yet. The program
// would accept it until the period ends.
import t, { type Test } from 'tap';
import { cancelSubscription, resumeSubscription } from '../../src/chain/program/instructions.ts';
import { updateDiscount } from '../../src/db/subscriptions/merchant-edits.ts';
import { pause, unpause } from '../../src/domain/change/pausing.ts';
import { Sweep } from '../../src/keeper/follow/sweep.ts';
import { newPayment } from '../../src/keeper/track/in-flight.ts';
import { agree, AMOUNT, due, sent, signAndDie } from '../fixtures/agreement.ts';
import { HOUR, type Stage, type Subscription } from '../fixtures/billing.ts';

const parties = ({ wallet, plan, pda }: Subscription) => ({
  subscriber: wallet.address,
  plan: plan.pda,
  subscription: pda,
});
const cancel = (stage: Stage, subscription: Subscription) =>
  stage.send(
    [subscription.wallet],
    [cancelSubscription(stage.net.programId, parties(subscription))],
  );
const typesOf = async (stage: Stage, subscription: Subscription) =>
  (await stage.events(subscription)).map(({ type }) => type);

void t.test(
  'a payment is never sent if the subscriber cancels before another keeper takes it over',
  async (t) => {
    const { stage, subscription } = await due(t);
    await signAndDie(stage);
    await cancel(stage, subscription);
    await stage.startKeeper();
    await agree(t, stage, subscription, 0);
    await stage.until(
      'it is cancelled',
      async () => (await stage.row(subscription)).status === 'cancelled',
    );
    t.same(await typesOf(stage, subscription), [
      'subscription_created',
      'cancel_requested',
      'cancel_finalized',
    ]);
    const [attempt] = await stage.sql<[{ state: string }]>`select state from payment_attempts`;
    t.equal(attempt.state, 'expired');
  },
);

void t.test(
  "a cancellation has its event while an attempt is open, and the attempt's payment is not sent again",
  async (t) => {
    const { stage, subscription } = await due(t, { blockMs: 0 });
    let sends = 0;
    const { context, collector, taken, track } = stage.parts({
      sendTransaction: async () => {
        sends += 1;
        return '';
      },
    });
    const flight = track();
    t.teardown(() => flight.stop(0));
    await collector.turn();
    flight.add(taken);
    await stage.until('it was sent', async () => sends > 0);
    await cancel(stage, subscription);
    // The read that a notification causes.
    await new Sweep(context, { sweepMinutes: 60 }).readNow([subscription.id]);
    await stage.until('the cancellation is told', async () =>
      (await typesOf(stage, subscription)).includes('cancel_requested'),
    );
    const [attempt] = await stage.sql<[{ state: string }]>`select state from payment_attempts`;
    t.equal(attempt.state, 'open');
    const before = sends;
    stage.mine();
    await stage.until(
      'it has expired',
      async () =>
        (await stage.sql`select 1 from payment_attempts where state = 'open'`).length === 0,
    );
    t.equal(sends, before);
    t.same(
      await typesOf(stage, subscription),
      ['subscription_created', 'cancel_requested'],
      'told once',
    );
  },
);

void t.test(
  'a payment is sent if the subscriber cancelled and resumed before another keeper takes it over',
  async (t) => {
    const { stage, subscription } = await due(t, { blockMs: 0 });
    const [signed] = await signAndDie(stage);
    await cancel(stage, subscription);
    const { expiresAt } = (await stage.onChain(subscription))!;
    const resume = resumeSubscription(stage.net.programId, {
      ...parties(subscription),
      mint: stage.net.mint,
      expiresAt,
    });
    await stage.send([subscription.wallet], [resume]);
    await sent(stage, await stage.startKeeper());
    stage.mine();
    await agree(t, stage, subscription, 1);
    t.equal((await stage.payments(subscription))[0]?.txSignature, signed?.attempt.signature);
    t.same(await typesOf(stage, subscription), ['subscription_created', 'payment_success']);
  },
);

void t.test(
  'a payment that a keeper takes over is not sent before the chain was read',
  async (t) => {
    const { stage } = await due(t, { blockMs: 0 });
    const [signed] = await signAndDie(stage);
    let sends = 0;
    let reads = 0;
    const { track } = stage.parts({
      getMultipleAccounts: async (...args) => {
        reads += 1;
        if (reads <= 3) throw new Error('out of reach');
        return stage.rpc.getMultipleAccounts(...args);
      },
      sendTransaction: async () => {
        t.ok(reads > 3, 'looked at first');
        sends += 1;
        return '';
      },
    });
    const flight = track();
    t.teardown(() => flight.stop(0));
    flight.add([newPayment({ ...signed!, periodEnd: null })]);
    await stage.until('it is sent', async () => sends > 0);
  },
);

/** The states of the attempts, oldest first, with their amounts. */
const attemptsOf = async (stage: Stage) =>
  (
    await stage.sql<{ state: string; amountGross: bigint }[]>`
      select state, amount_gross from payment_attempts order by id`
  ).map(({ state, amountGross }) => `${state} ${amountGross}`);

const halved = { discountPercent: 50, discountAmount: null, discountPeriods: null };

/**
 * Signs, makes the `change` before the first send, then tracks; a keeper takes over lost attempts
 * and collects what is due.
 */
async function changedBeforeSending(
  t: Test,
  change: (stage: Stage, subscription: Subscription) => Promise<unknown>,
) {
  const { stage, subscription } = await due(t);
  const { collector, taken, track } = stage.parts();
  await collector.turn();
  // The first try was in time, so only the change decides the price.
  stage.net.passSeconds(360 * HOUR);
  await change(stage, subscription);
  const flight = track();
  t.teardown(() => flight.stop(0));
  flight.add(taken);
  await stage.startKeeper();
  await stage.until('the attempt has ended', async () =>
    (await attemptsOf(stage)).every((one) => !one.startsWith('open')),
  );
  await agree(t, stage, subscription, 1);
  return { attempts: await attemptsOf(stage), payments: await stage.payments(subscription) };
}

void t.test(
  'a discount changes the next invoice: a payment that is signed before it is collected',
  async (t) => {
    const { attempts, payments } = await changedBeforeSending(t, (stage, { id }) =>
      stage.sql.begin((tx) => updateDiscount(tx, id, halved)),
    );
    t.same(attempts, [`landed ${AMOUNT}`]);
    t.match(payments, [{ status: 'succeeded', amountGross: AMOUNT }]);
  },
);

void t.test(
  'a signed payment is not sent after a pause, and the rest of the period is collected',
  async (t) => {
    const { attempts, payments } = await changedBeforeSending(t, async (stage, { id }) => {
      const found = { id, status: 'active', cancelRequestedAt: null };
      await stage.sql.begin((tx) => pause(tx, found));
      await stage.sql.begin((tx) => unpause(tx, found, BigInt(stage.now())));
    });
    const [payment] = payments;
    t.equal(payments.length, 1);
    t.ok(payment!.amountGross <= AMOUNT / 2n, `${payment!.amountGross}`);
    t.same(attempts, [`expired ${AMOUNT}`, `landed ${payment!.amountGross}`]);
  },
);

void t.test('a payment whose discount was set and cleared again is sent as signed', async (t) => {
  const { attempts } = await changedBeforeSending(t, async (stage, { id }) => {
    await stage.sql.begin((tx) => updateDiscount(tx, id, halved));
    const none = { discountPercent: null, discountAmount: null, discountPeriods: null };
    await stage.sql.begin((tx) => updateDiscount(tx, id, none));
  });
  t.same(attempts, [`landed ${AMOUNT}`]);
});
