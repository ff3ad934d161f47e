// A payment that was signed before the subscriber cancelled on chain, and not sent yet. The program would take it until the period ends.
import t from 'tap';
import { cancelSubscription, resumeSubscription } from '../../src/chain/instructions.ts';
import { Sweep } from '../../src/keeper/sweep.ts';
import { agree, due, sent, signAndDie } from '../fixtures/agreement.ts';
import type { Stage, Subscription } from '../fixtures/billing.ts';

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
  'crash between commit and send, and the subscriber cancels before another keeper takes over: never sent',
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
  'cancelled while every send is lost: the event comes while the attempt is open, and it is not sent again',
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
    // What the stream leads to.
    await new Sweep(context, { minutes: 60 }).look([subscription.id]);
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

void t.test('cancelled and resumed before another keeper takes over: sent', async (t) => {
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
});

void t.test(
  'the chain out of reach at a take-over: nothing is sent until it was looked at',
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
    flight.add([{ ...signed!, periodEnd: null }]);
    await stage.until('it is sent', async () => sends > 0);
  },
);
