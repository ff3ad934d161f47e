// Concurrent keepers, and acts of subscribers, merchants and forks while a payment is in flight.
import bs58 from 'bs58';
import t from 'tap';
import { subscriptionIn } from '../../src/chain/program/accounts.ts';
import { cancelSubscription } from '../../src/chain/program/instructions.ts';
import { forceCancel } from '../../src/domain/change/cancel.ts';
import { AMOUNT, agree, due, pullsOnChain, sent, signAndDie } from '../fixtures/agreement.ts';
import { HOUR, startStage } from '../fixtures/billing.ts';

for (const keepers of [2, 4]) {
  void t.test(`every subscription is paid once by ${keepers} concurrent keepers`, async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const plan = await stage.plan({ amount: AMOUNT });
    const subscriptions = await Promise.all(
      Array.from({ length: 40 }, () => stage.subscriber(plan)),
    );
    await Promise.all(Array.from({ length: keepers }, () => stage.startKeeper()));
    await stage.until('all are pulled', async () => {
      const { accounts } = await stage.rpc.getMultipleAccounts(
        subscriptions.map(({ pda }) => pda),
        { commitment: 'processed' },
      );
      return accounts.every(
        (account) => subscriptionIn(account, stage.net.programId)!.amountPulled > 0n,
      );
    });
    stage.mine();
    await stage.until('all are paid', async () => {
      const [{ paid }] = await stage.sql<
        [{ paid: number }]
      >`select count(*)::int as paid from payments`;
      return paid >= subscriptions.length;
    });
    for (const subscription of subscriptions.slice(0, 5)) await agree(t, stage, subscription, 1);
    const [{ signed, paid }] = await stage.sql<[{ signed: number; paid: number }]>`
      select (select count(*) from payment_attempts)::int as signed, (select count(*) from payments)::int as paid`;
    t.same({ signed, paid }, { signed: 40, paid: 40 });
    t.equal(await stage.balance(stage.treasury.address), 1n + (40n * AMOUNT) / 100n);
  });
}

void t.test(
  'a payment in flight when the subscriber cancels is recorded, and is the last one',
  async (t) => {
    const { stage, subscription } = await due(t, { blockMs: 0 });
    await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 90, count: 1 });
    await sent(stage, await stage.startKeeper());
    const parties = {
      subscriber: subscription.wallet.address,
      plan: subscription.plan.pda,
      subscription: subscription.pda,
    };
    await stage.send([subscription.wallet], [cancelSubscription(stage.net.programId, parties)]);
    stage.net.mineBlocks(90);
    stage.mine();
    await agree(t, stage, subscription, 1);
    await stage.until(
      'the cancellation is seen',
      async () => (await stage.row(subscription)).cancelRequestedAt !== null,
    );
    t.match(await stage.row(subscription), { status: 'active', nextPaymentDue: null });
    stage.net.passSeconds(720 * HOUR + 5);
    await stage.until(
      'it is cancelled',
      async () => (await stage.row(subscription)).status === 'cancelled',
    );
    await agree(t, stage, subscription, 1);
  },
);

void t.test(
  'a payment is not sent after a forced cancellation between commit and send',
  async (t) => {
    const { stage, subscription } = await due(t);
    await signAndDie(stage);
    await stage.sql.begin((tx) => forceCancel(tx, { id: subscription.id, status: 'active' }));
    await stage.startKeeper();
    await agree(t, stage, subscription, 0);
    t.same(
      (await stage.events(subscription)).map(({ type }) => type),
      ['subscription_created', 'cancel_forced'],
    );
    const [attempt] = await stage.sql<[{ state: string }]>`select state from payment_attempts`;
    t.equal(attempt.state, 'expired');
  },
);

void t.test(
  'a payment that lands after a forced cancellation is recorded, and is the last one',
  async (t) => {
    const { stage, subscription } = await due(t, { blockMs: 0 });
    await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 90, count: 1 });
    await sent(stage, await stage.startKeeper());
    await stage.sql.begin((tx) => forceCancel(tx, { id: subscription.id, status: 'active' }));
    stage.net.mineBlocks(90);
    stage.mine();
    await stage.until(
      'it has landed',
      async () => (await pullsOnChain(stage, subscription)).length === 1,
    );
    await agree(t, stage, subscription, 1);
    await stage.until(
      'there is nothing left to do',
      async () => (await stage.row(subscription)).dueAt === null,
    );
    t.equal((await stage.row(subscription)).status, 'cancelled');
    t.same(
      (await stage.events(subscription)).map(({ type, data }) => [type, data.status]),
      [
        ['subscription_created', 'active'],
        ['cancel_forced', 'cancelled'],
        ['payment_success', 'cancelled'],
      ],
    );
    stage.net.passSeconds(720 * HOUR + 5);
    await agree(t, stage, subscription, 1);
  },
);

void t.test(
  'a payment whose confirmed block a fork drops lands again with the same transaction, and is only then recorded',
  async (t) => {
    const { stage, subscription } = await due(t, { blockMs: 0 });
    // The open subscription is final before the fork.
    stage.net.mineBlocks(40);
    await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 25, count: 1 });
    await sent(stage, await stage.startKeeper());
    await stage.until('the payment is confirmed', async () => {
      stage.net.mineBlocks();
      const [attempt] = await stage.sql<
        { signature: Buffer }[]
      >`select signature from transactions`;
      if (attempt === undefined) return false;
      const { statuses } = await stage.rpc.getSignatureStatuses([bs58.encode(attempt.signature)]);
      return statuses[0]?.commitment === 'confirmed';
    });
    await stage.net.rpc('localnet_forgetBlocks', 20);
    t.same(await pullsOnChain(stage, subscription), [], 'the payment is gone');
    t.same(await stage.payments(subscription), [], 'confirmed was not final');
    stage.mine();
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
    await agree(t, stage, subscription, 1);
  },
);

void t.test(
  'a payment whose block and blockhash a fork drops is signed again and recorded once',
  async (t) => {
    const { stage, subscription } = await due(t, { blockMs: 0 });
    // The open subscription is final before the fork.
    stage.net.mineBlocks(40);
    await sent(stage, await stage.startKeeper());
    await stage.until('the payment is confirmed', async () => {
      stage.net.mineBlocks();
      return (await pullsOnChain(stage, subscription)).length === 1;
    });
    await stage.net.rpc('localnet_forgetBlocks', 20);
    t.same(await pullsOnChain(stage, subscription), []);
    stage.mine();
    await agree(t, stage, subscription, 1);
  },
);

void t.test(
  'every subscription is paid once when keeper after keeper dies within a batch',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ amount: AMOUNT });
    const subscriptions = await Promise.all(
      Array.from({ length: 20 }, () => stage.subscriber(plan)),
    );
    for (let round = 0; round < 3; round += 1) {
      const taken = await signAndDie(stage);
      await Promise.all(
        taken
          .slice(0, round * 7)
          .map(({ attempt }) => stage.rpc.sendTransaction(attempt.transaction)),
      );
    }
    await stage.startKeeper();
    for (const subscription of subscriptions) await agree(t, stage, subscription, 1);
  },
);

void t.test(
  'a subscription whose payment Postgres refuses does not delay the others and is not collected twice',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const plan = await stage.plan({ amount: AMOUNT });
    const [broken, ...others] = await Promise.all(
      Array.from({ length: 5 }, () => stage.subscriber(plan)),
    );
    await stage.sql.unsafe(
      `alter table payments add constraint refused check (subscription_id <> '${broken!.id}')`,
    );
    const keeper = await stage.startKeeper();
    await sent(stage, keeper);
    stage.mine();
    await stage.until('the others are paid', async () => {
      const [{ paid }] = await stage.sql<
        [{ paid: number }]
      >`select count(*)::int as paid from payments`;
      return paid === others.length;
    });
    await stage.until('it is told', async () =>
      (await keeper.registry.metrics()).includes('reason="cannot_be_settled"'),
    );
    const [open] = await stage.sql<
      [{ state: string }]
    >`select state from payment_attempts where subscription_id = ${broken!.id}`;
    t.equal(open.state, 'open', 'and stays open for people to look into');
    t.equal((await pullsOnChain(stage, broken!)).length, 1);
  },
);
