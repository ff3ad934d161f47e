// Pulls, read from real transactions.
import t from 'tap';
import { transferSubscription } from '../../../src/chain/program/instructions.ts';
import { forceCancel } from '../../../src/domain/change/cancel.ts';
import { pullsIn } from '../../../src/domain/collecting/transaction-pulls.ts';
import { findPulls } from '../../../src/keeper/read/pull-history.ts';
import { HOUR, startStage, type Stage, type Subscription } from '../../fixtures/billing.ts';
import { readable } from '../../fixtures/transactions.ts';

const partiesOf = (stage: Stage, { pda }: Subscription) => ({
  programId: stage.net.programId,
  keepers: [stage.keeper.address],
  treasuries: [stage.treasury.address],
  subscriptionPda: pda,
});

const pullOf = (
  stage: Stage,
  { wallet, plan, pda }: Subscription,
  amount: bigint,
  receiver = plan.merchant.address,
) =>
  transferSubscription(stage.net.programId, {
    caller: plan.merchant.address,
    subscriber: wallet.address,
    plan: plan.pda,
    subscription: pda,
    mint: stage.net.mint,
    receiver,
    amount,
  });

void t.test(
  'a transaction’s transfers are read as one pull per period, with the treasury’s transfer as fee',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const plan = await stage.plan();
    const [ours, theirs, other] = [
      await stage.subscriber(plan),
      await stage.subscriber(plan),
      await stage.subscriber(plan),
    ];
    const { collector, taken } = stage.parts();
    await stage.sql`update subscription_work set due_at = due_at + interval '1 year' where subscription_id <> ${ours.id}`;
    await collector.turn();
    const [signed] = taken;
    await stage.rpc.sendTransaction(signed!.attempt.transaction);
    // The plan's owner pulls under two subscriptions at once, and to the treasury too. These pulls
    // carry no fee.
    const both = await stage.send(
      [plan.merchant],
      [
        pullOf(stage, theirs, 3_000_000n),
        pullOf(stage, theirs, 1_000_000n, stage.treasury.address),
        pullOf(stage, other, 7n),
      ],
    );
    stage.net.mineBlocks(40);
    const read = async (signature: string, subscription: Subscription) =>
      pullsIn(
        readable(await stage.rpc.getTransaction(signature, { commitment: 'finalized' })),
        partiesOf(stage, subscription),
      );
    const account = await stage.onChain(ours);
    t.match(await read(signed!.attempt.signature, ours), [
      {
        signature: signed!.attempt.signature,
        periodStart: account!.periodStart,
        periodEnd: account!.periodStart + 720n * 3600n,
        gross: 5_000_000n,
        fee: 50_000n,
        net: 4_950_000n,
        source: 'keeper',
      },
    ]);
    t.same(await read(signed!.attempt.signature, theirs), []);
    t.match(await read(both, theirs), [
      { signature: both, gross: 4_000_000n, fee: 0n, net: 4_000_000n, source: 'foreign' },
    ]);
    t.match(await read(both, other), [{ gross: 7n, fee: 0n }]);
  },
);

void t.test(
  'the pulls since the start of a period are found, newest first, without failed transactions and older periods',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const plan = await stage.plan({ periodHours: 1 });
    const subscription = await stage.subscriber(plan);
    const signatures = [];
    for (const amount of [1_000_000n, 2_000_000n])
      signatures.push(await stage.send([plan.merchant], [pullOf(stage, subscription, amount)]));
    await t.rejects(stage.send([plan.merchant], [pullOf(stage, subscription, 5_000_000n)]), /400/);
    stage.net.passSeconds(HOUR + 1);
    signatures.push(await stage.send([plan.merchant], [pullOf(stage, subscription, 5_000_000n)]));
    const find = async (since: bigint) =>
      (await findPulls(stage.rpc, partiesOf(stage, subscription), since))?.pulls.map(
        ({ signature }) => signature,
      );
    const { periodStart } = (await stage.onChain(subscription))!;
    t.same(await find(0n), [], 'nothing before it is final');
    stage.net.mineBlocks(40);
    t.same(await find(0n), signatures.toReversed());
    t.same(await find(periodStart), signatures.slice(2));
    t.same(await find(periodStart - 3600n), signatures.toReversed());
    t.same(await find(periodStart + 1n), []);
  },
);

void t.test(
  'a pull is found behind many transactions that only name the account, within the time limit',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const subscription = await stage.subscriber(plan);
    const signature = await stage.send([plan.merchant], [pullOf(stage, subscription, 5_000_000n)]);
    stage.net.mineBlocks(40);
    const real = await stage.rpc.getSignaturesForAddress(subscription.pda, {
      commitment: 'finalized',
    });
    const harmless = await stage.rpc.getTransaction(real.at(-1)!.signature);
    const spam = Array.from({ length: 2500 }, (_, index) => ({
      signature: `spam ${index}`,
      slot: 1n,
      err: null,
      blockTime: real[0]!.blockTime,
    }));
    const all = [...spam, ...real];
    const rpc = {
      getSignaturesForAddress: (
        _: string,
        { before, limit = 1000 }: { before?: string | undefined; limit?: number } = {},
      ) => {
        const start =
          before === undefined ? 0 : all.findIndex((one) => one.signature === before) + 1;
        return Promise.resolve(all.slice(start, start + limit));
      },
      getTransaction: async (
        asked: string,
        options?: { commitment?: 'confirmed' | 'finalized' },
      ) => (asked.startsWith('spam') ? harmless : stage.rpc.getTransaction(asked, options)),
    };
    t.match(await findPulls(rpc, partiesOf(stage, subscription), 0n), {
      pulls: [{ signature, source: 'foreign' }],
      unreadable: [],
    });
    t.equal(await findPulls(rpc, partiesOf(stage, subscription), 0n, -1), undefined);
    // Failed transactions are not read, but their list can be as long.
    const failing = {
      ...rpc,
      getSignaturesForAddress: async (...asked: Parameters<typeof rpc.getSignaturesForAddress>) =>
        (await rpc.getSignaturesForAddress(...asked)).map((one) => ({ ...one, err: 'failed' })),
    };
    t.equal(await findPulls(failing, partiesOf(stage, subscription), 0n, -1), undefined);
  },
);

/** An endpoint without history: providers drop it after some days. */
const forgetful = {
  getSignaturesForAddress: () => Promise.resolve([]),
  getTransaction: (signature: string) =>
    Promise.resolve({ signature, unreadable: 'missing' as const }),
};

void t.test(
  'a period that an earlier registration paid is read from the database, not from the chain',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const first = await stage.subscriber(plan);
    const keeper = await stage.startKeeper();
    await stage.until('it is paid', async () => (await stage.row(first)).paidThrough !== null);
    await stage.quiet();
    await keeper.stop();
    const { paidThrough } = await stage.row(first);
    await stage.sql.begin((tx) => forceCancel(tx, { id: first.id, status: 'active' }));
    const again = await stage.register(plan, first.wallet);
    const { collector, taken } = stage.parts(forgetful);
    await collector.turn();
    t.match(await stage.row(again), {
      status: 'active',
      paidThrough,
      nextPaymentDue: paidThrough,
      setbacks: 0,
    });
    t.same(await stage.payments(again), [], 'it was recorded under the first');
    stage.net.passSeconds(720 * HOUR);
    await collector.turn();
    t.equal(taken.length, 1, 'the next period is collected');
  },
);

void t.test(
  'a past period’s pull that no history shows delays later periods for half an hour only',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const plan = await stage.plan({ periodHours: 1 });
    const subscription = await stage.subscriber(plan);
    await stage.send([plan.merchant], [pullOf(stage, subscription, plan.terms.amount)]);
    stage.net.mineBlocks(40);
    const { collect, resolver, taken } = stage.parts(forgetful);
    await collect();
    t.match(await stage.row(subscription), { status: 'active', paidThrough: null, setbacks: 1 });
    stage.net.passSeconds(HOUR);
    for (let turn = 2; turn <= 8; turn += 1) {
      await collect();
      t.equal((await stage.row(subscription)).setbacks, turn, 'it is looked for again');
      stage.net.passSeconds(900);
    }
    t.equal(taken.length, 0);
    await collect();
    const [signed] = taken;
    t.equal(taken.length, 1, 'for half an hour');
    stage.net.mineBlocks(200);
    t.equal(
      (await resolver.expired([signed!])).done.length,
      1,
      'what was never sent is over, whatever was pulled before',
    );
    await collect();
    await stage.rpc.sendTransaction(taken[1]!.attempt.transaction);
    stage.net.mineBlocks(40);
    const { statuses } = await stage.rpc.getSignatureStatuses([taken[1]!.attempt.signature]);
    t.equal((await resolver.landed([{ ...taken[1]!, status: statuses[0]! }])).done.length, 1);
    t.match(await stage.row(subscription), { status: 'active', setbacks: 0 });
    t.equal((await stage.payments(subscription)).length, 1);
  },
);
