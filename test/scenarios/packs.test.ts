// Several payments in one transaction: one that fails, is cancelled or is lost delays the others
// only until a new transaction.
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { cancelSubscription } from '../../src/chain/program/instructions.ts';
import {
  signPayments,
  transactionFee,
  transfersOf,
} from '../../src/chain/transactions/collection.ts';
import { expireKeeperLeases } from '../../src/db/operating/sandbox.ts';
import { forceCancel, requestCancel } from '../../src/domain/change/cancel.ts';
import { recover } from '../../src/keeper/collect/claim.ts';
import { arrived, pullsOnChain } from '../fixtures/agreement.ts';
import { startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { HOUR, startStage, type Stage, type Subscription } from '../fixtures/billing.ts';

/** Subscribers of two plans, whose payments are due. */
async function subscribed(t: Test, count: number) {
  const stage = await startStage(t, { blockMs: 0 });
  const plans = [await stage.plan(), await stage.plan({ amount: 7_000_000n })];
  const subscriptions = await Promise.all(
    Array.from({ length: count }, (_, index) => stage.subscriber(plans[index % 2]!)),
  );
  return { stage, subscriptions };
}

const setBalance = (stage: Stage, { wallet }: Subscription, amount: number) =>
  stage.net.rpc('surfnet_setTokenAccount', wallet.address, stage.net.mint, { amount });

/** Sends and settles the taken payments until no attempt is open, without another collect turn. */
async function settle(stage: Stage, parts: ReturnType<Stage['parts']>) {
  const tracker = parts.track();
  const taken = parts.taken.splice(0);
  tracker.add(taken);
  await arrived(stage, taken);
  await stage.until('every attempt has ended', async () => {
    stage.net.mineBlocks(4);
    return (await stage.sql`select 1 from payment_attempts where state = 'open'`).length === 0;
  });
  await tracker.stop(0);
}

/** The number of payments and the state of each transaction, in the order of signing. */
const packsOf = async (stage: Stage) =>
  (
    await stage.sql<{ count: number; state: string }[]>`
    select count(*)::int as count, t.state from payment_attempts a join transactions t on t.id = a.transaction_id
    group by t.id order by t.id`
  ).map(({ count, state }) => `${count} ${state}`);

const paidOnce = async (t: Test, stage: Stage, subscription: Subscription, count = 1) => {
  const payments = await stage.payments(subscription);
  const succeeded = payments.filter(({ status }) => status === 'succeeded');
  t.equal(succeeded.length, count);
  t.same(
    succeeded.map(({ txSignature }) => txSignature),
    (await pullsOnChain(stage, subscription)).map(({ signature }) => signature),
  );
};

void t.test(
  'ten payments of two plans are sent in one transaction, and each is recorded separately',
  async (t) => {
    const { stage, subscriptions } = await subscribed(t, 10);
    const parts = stage.parts();
    await parts.collector.turn();
    const [first] = parts.taken;
    t.equal(new Set(parts.taken.map(({ attempt }) => attempt.signature)).size, 1);
    t.same(
      parts.taken.map(({ attempt }) => attempt.position).sort((a, b) => a - b),
      Array.from({ length: 10 }, (_, index) => index),
    );
    const lamports = Number(transactionFee(first!.attempt.transaction));
    t.ok(lamports < 6_000, `${lamports} lamports for ten payments`);
    await settle(stage, parts);
    for (const one of subscriptions) {
      await paidOnce(t, stage, one);
      const [payment] = await stage.payments(one);
      const { amount } = one.plan.terms;
      t.match(payment, { amountGross: amount, platformFee: amount / 100n });
      t.same(
        (await stage.events(one)).map(({ type }) => type),
        ['subscription_created', 'payment_success'],
      );
    }
    t.same(await packsOf(stage), ['10 landed']);
    const { metrics } = parts.context;
    t.match((await metrics.paymentsPerTransaction.get()).values.at(-1), { value: 1 });
    const each = (await metrics.lamportsPerPayment.get()).values;
    const of = (name: string) => each.find(({ metricName }) => metricName?.endsWith(name))?.value;
    t.equal(of('_count'), 10);
    t.equal(Math.round(of('_sum')!), lamports, 'each payment has its part');
  },
);

void t.test('the chain accepts ten payments in a transaction and refuses eleven', async (t) => {
  const { stage, subscriptions } = await subscribed(t, 11);
  const { programId, mint } = stage.net;
  const { blockhash } = await stage.rpc.getLatestBlockhash();
  const simulate = async (count: number) => {
    const transfers = subscriptions.slice(0, count).flatMap(({ wallet, plan, pda }) =>
      transfersOf({
        ...{ programId, mint, keeper: stage.keeper.address, treasury: stage.treasury.address },
        ...{ merchant: plan.merchant.address, plan: plan.pda, subscription: pda },
        ...{ subscriber: wallet.address, net: 99n, fee: 1n },
      }),
    );
    const budget = { computeUnits: 1_400_000, loadedDataBytes: 10_000_000, priorityFee: 0n };
    const terms = { version: 1, blockhash, reference: 'a', budget } as const;
    return (await stage.rpc.simulateTransaction(signPayments(stage.keeper, transfers, terms).bytes))
      .err;
  };
  t.equal(await simulate(10), null);
  t.match(JSON.stringify(await simulate(11)), /MaxInstructionTraceLengthExceeded/);
});

void t.test(
  'when a keeper dies before the first send, another one sends the same transaction and settles it',
  async (t) => {
    const { stage, subscriptions } = await subscribed(t, 10);
    const dead = stage.parts();
    await dead.collector.turn();
    const [{ signature } = { signature: '' }] = dead.taken.map(({ attempt }) => attempt);
    await expireKeeperLeases(stage.sql);
    const parts = stage.parts();
    await recover(parts.context, { room: () => 100, add: (some) => parts.taken.push(...some) });
    t.equal(parts.taken.length, 10);
    await settle(stage, parts);
    for (const one of subscriptions) {
      await paidOnce(t, stage, one);
      t.equal((await stage.payments(one))[0]?.txSignature, signature);
    }
    t.same(await packsOf(stage), ['10 landed']);
  },
);

void t.test(
  'if one of ten payers has no money, it becomes past due and the nine others are signed again at once',
  async (t) => {
    const { stage, subscriptions } = await subscribed(t, 10);
    const parts = stage.parts();
    await parts.collector.turn();
    const poor = subscriptions[3]!;
    await setBalance(stage, poor, 1);
    stage.net.mineBlocks();
    await settle(stage, parts);
    t.match(await stage.row(poor), { status: 'past_due', failedAttempts: 1 });
    for (const one of subscriptions.filter((other) => other !== poor)) {
      t.match(await stage.row(one), { status: 'active', failedAttempts: 0, setbacks: 0 });
      t.same(await stage.payments(one), []);
    }
    const { metrics } = parts.context;
    t.ok((await metrics.failedLamports.get()).values[0]!.value >= 5_000, 'what it cost is counted');
    await parts.collect();
    await settle(stage, parts);
    for (const one of subscriptions) await paidOnce(t, stage, one, one === poor ? 0 : 1);
    t.same(await packsOf(stage), ['10 failed', '9 landed']);
    const [{ failed }] = await stage.sql<[{ failed: number }]>`
      select sum(failed_packs)::int as failed from subscription_work`;
    t.equal(failed, 0, 'a payment that landed forgets what failed before');
  },
);

void t.test(
  'payments beside failing ones, with changing balances, are collected exactly once',
  async (t) => {
    const subset = fc.uniqueArray(fc.nat(11), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(subset, subset, async (first, second) => {
        const { stage, subscriptions } = await subscribed(t, 12);
        const poor = new Set([...first, ...second]);
        const parts = stage.parts();
        for (const gone of [first, second, []]) {
          await parts.collect();
          for (const index of gone) await setBalance(stage, subscriptions[index]!, 1);
          stage.net.mineBlocks();
          await settle(stage, parts);
        }
        for (let turn = 0; turn < 12; turn += 1) {
          await parts.collect();
          if (parts.taken.length === 0) break;
          await settle(stage, parts);
        }
        for (const [index, one] of subscriptions.entries()) {
          const { status } = await stage.row(one);
          const paid = (await stage.payments(one)).filter((p) => p.status === 'succeeded').length;
          // A payer that was charged before its balance was set to 1 has paid.
          t.ok(poor.has(index) ? paid <= 1 : paid === 1, `${index}: ${paid} ${status}`);
          t.equal(status, paid === 1 ? 'active' : 'past_due');
          await paidOnce(t, stage, one, paid);
        }
      }),
      { numRuns: 3 },
    );
  },
);

void t.test(
  'a payment whose transaction failed twice because of others is sent alone',
  async (t) => {
    const { stage, subscriptions } = await subscribed(t, 4);
    const unlucky = subscriptions[0]!;
    const parts = stage.parts();
    for (const poor of subscriptions.slice(1, 3)) {
      await parts.collect();
      await setBalance(stage, poor, 1);
      stage.net.mineBlocks();
      await settle(stage, parts);
      await setBalance(stage, poor, 0);
    }
    const [row] = await stage.sql`
      select failed_packs from subscription_work where subscription_id = ${unlucky.id}`;
    t.equal(row!.failedPacks, 2);
    await parts.collect();
    await settle(stage, parts);
    await paidOnce(t, stage, unlucky);
    t.same(await packsOf(stage), ['4 failed', '3 failed', '1 landed', '1 landed']);
  },
);

void t.test(
  'a cancellation before the first send stops the transaction; its other payments are signed again later',
  async (t) => {
    for (const cancel of [forceCancel, requestCancel]) {
      const { stage, subscriptions } = await subscribed(t, 5);
      const parts = stage.parts();
      await parts.collector.turn();
      const gone = subscriptions[2]!;
      await stage.sql.begin((tx) => cancel(tx, { id: gone.id, status: 'active' }));
      let sends = 0;
      const tracker = stage
        .parts({ sendTransaction: async () => ((sends += 1), '') })
        .track(parts.resolver);
      tracker.add(parts.taken.splice(0));
      const held = async () =>
        (await stage.sql`select 1 from payment_attempts where state = 'open'`).length;
      await parts.collect();
      t.equal(parts.taken.length, 0, 'nothing else is signed while it may land');
      t.equal(await held(), 5);
      stage.net.mineBlocks(200);
      await stage.until('it has expired', async () => (await held()) <= 1);
      await tracker.stop(0);
      t.equal(sends, 0);
      await parts.collect();
      t.equal(parts.taken.length, 4);
      const tracking = parts.track();
      const taken = parts.taken.splice(0);
      tracking.add(taken);
      await arrived(stage, taken);
      const others = subscriptions.filter((one) => one !== gone);
      await stage.until('the others are paid', async () => {
        stage.net.mineBlocks(4);
        return (await stage.sql`select 1 from payments`).length === 4;
      });
      await tracking.stop(0);
      for (const one of others) await paidOnce(t, stage, one);
      t.same(await stage.payments(gone), []);
    }
  },
);

void t.test(
  'a cluster without version 1 gets legacy transactions, and no payment is lost or doubled',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const plan = await stage.plan({ periodHours: 1 });
    const subscriptions = await Promise.all(
      Array.from({ length: 5 }, () => stage.subscriber(plan)),
    );
    let keeper = await stage.startKeeper();
    const paid = async (count: number) => {
      // One block per check: a signed transaction has some 150 checks in which to be sent.
      await stage.until(`${count} are paid`, async () => {
        stage.net.mineBlocks();
        return (
          (await stage.sql`select 1 from payments where status = 'succeeded'`).length === count
        );
      });
      await stage.quiet();
    };
    await paid(5);
    t.equal((await stage.sql`select 1 from transactions where state = 'landed'`).length, 1);
    // The keeper still signs version 1, and is refused.
    await stage.net.rpc('localnet_setTransactionV1', false);
    stage.net.passSeconds(HOUR + 5);
    await stage.until('it was refused, and expires', async () => {
      stage.net.mineBlocks(20);
      return (await stage.sql`select 1 from transactions where state = 'expired'`).length > 0;
    });
    await paid(10);
    t.ok((await stage.sql`select 1 from transactions where state = 'landed'`).length >= 4);
    for (const one of subscriptions) await paidOnce(t, stage, one, 2);
    // A keeper that starts now reads the cluster's versions first: nothing is refused or expires.
    await keeper.stop();
    const before = await packsOf(stage);
    keeper = await stage.startKeeper();
    stage.net.passSeconds(HOUR + 5);
    await paid(15);
    const legacy = (await packsOf(stage)).slice(before.length);
    t.ok(
      legacy.every((pack) => /^[123] landed$/.test(pack)),
      legacy.join(),
    );
    // Once the cluster has version 1, the next keeper packs all payments in one transaction.
    await keeper.stop();
    await stage.net.rpc('localnet_setTransactionV1', true);
    await stage.startKeeper();
    stage.net.passSeconds(HOUR + 5);
    await paid(20);
    t.equal((await packsOf(stage)).at(-1), '5 landed');
    for (const one of subscriptions) await paidOnce(t, stage, one, 4);
  },
);

for (const [name, limit] of [
  ['money', { amount: 5_000_000 }],
  ['approval', { delegatedAmount: 8_000_000 }],
] as const)
  void t.test(
    `a wallet with three due payments and ${name} for one pays one; the others fail without a transaction`,
    async (t) => {
      const stage = await startStage(t, { blockMs: 0 });
      const plans = [await stage.plan(), await stage.plan(), await stage.plan()];
      const [first, ...more] = plans;
      const one = await stage.subscriber(first!);
      const { wallet } = one;
      const subscriptions = [one];
      for (const plan of more) {
        await stage.open(plan, wallet);
        subscriptions.push(await stage.register(plan, wallet));
      }
      const stranger = await stage.subscriber(first!);
      await stage.net.rpc('surfnet_setTokenAccount', wallet.address, stage.net.mint, limit);
      stage.net.mineBlocks(2);
      const parts = stage.parts();
      await parts.collect();
      t.same(
        parts.taken.map(({ id }) => id === stranger.id).sort(),
        [false, true],
        'one of the wallet, and the stranger',
      );
      for (const { status, failedAttempts, setbacks } of await Promise.all(
        subscriptions.map((some) => stage.row(some)),
      ))
        t.same(
          { status, failedAttempts, setbacks },
          { status: 'active', failedAttempts: 0, setbacks: 0 },
        );
      await settle(stage, parts);
      stage.net.passSeconds(20);
      await parts.collect();
      t.same(parts.taken, []);
      t.same(await packsOf(stage), ['2 landed']);
      await paidOnce(t, stage, stranger);
      const rows = await Promise.all(subscriptions.map((some) => stage.row(some)));
      t.same(rows.map(({ status }) => status).sort(), ['active', 'past_due', 'past_due']);
      for (const [index, { status }] of rows.entries()) {
        const payments = await stage.payments(subscriptions[index]!);
        t.match(payments, [
          status === 'active'
            ? { status: 'succeeded' }
            : {
                status: 'failed',
                txSignature: null,
                failureReason: name === 'money' ? 'insufficient_funds' : 'allowance_exhausted',
              },
        ]);
      }
    },
  );

/** Whether a transaction has the wire form of version 1, which begins with the version. */
const isVersion1 = (base64: unknown) => Buffer.from(String(base64), 'base64')[0] === 0x81;

for (const [name, refuses, packs] of [
  [
    'refuses version 1 from the first simulation on: legacy transactions',
    (method: string, bytes: unknown) =>
      ['simulateTransaction', 'sendTransaction'].includes(method) && isVersion1(bytes)
        ? { code: -32602, message: 'failed to deserialize solana transaction' }
        : undefined,
    /^[12] landed$/,
  ],
  [
    'simulates nothing: transactions with wider limits',
    (method: string) =>
      method === 'simulateTransaction' ? { code: -32601, message: 'Method not found' } : undefined,
    /^2 landed$/,
  ],
] as const)
  void t.test(
    `all payments are collected at a version 1 cluster behind an endpoint that ${name}`,
    async (t) => {
      const stage = await startStage(t, { blockMs: 0 });
      const plan = await stage.plan();
      const subscriptions = await Promise.all(
        Array.from({ length: 6 }, () => stage.subscriber(plan)),
      );
      const cancelled = await stage.subscriber(plan);
      const parties = { subscriber: cancelled.wallet.address, plan: plan.pda };
      await stage.send(
        [cancelled.wallet],
        [
          cancelSubscription(stage.net.programId, {
            ...parties,
            subscription: cancelled.pda,
          }),
        ],
      );
      const endpoint = await startRewritingEndpoint(
        stage.net.rpcUrl,
        (_method, _params, result) => result,
        (method, [bytes]) => refuses(method, bytes),
      );
      t.teardown(() => endpoint.close());
      const keeper = await stage.startKeeper({
        rpcUrls: [endpoint.url],
        wsUrls: [stage.net.wsUrl],
      });
      await stage.until('all are paid', async () => {
        stage.net.mineBlocks();
        return (await stage.sql`select 1 from payments where status = 'succeeded'`).length === 6;
      });
      await stage.quiet();
      for (const one of subscriptions) await paidOnce(t, stage, one);
      t.match(await stage.row(cancelled), { cancelRequestedBy: 'subscriber' });
      t.same(await stage.payments(cancelled), []);
      const made = await packsOf(stage);
      t.ok(
        made.every((pack) => packs.test(pack)),
        made.join(),
      );
      t.equal(await keeper.ready(), undefined);
    },
  );
