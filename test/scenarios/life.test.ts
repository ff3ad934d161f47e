// Every row of the table in docs/contract.md, Subscription status, on a real chain with a real
// keeper.
import t from 'tap';
import { planIn } from '../../src/chain/program/accounts.ts';
import {
  cancelSubscription,
  initAuthority,
  resumeSubscription,
  revokeAuthority,
  revokeDelegation,
} from '../../src/chain/program/instructions.ts';
import { createPlan, deletePlan, updatePlan } from '../../src/chain/program/plan-instructions.ts';
import { revokeApproval } from '../../src/chain/transactions/system-instructions.ts';
import { forceCancel, requestCancel } from '../../src/domain/change/cancel.ts';
import { paidOnce } from '../fixtures/agreement.ts';
import { HOUR, type Plan, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';
import { down } from '../fixtures/cents.ts';

const DAY = 24 * HOUR;
const typesOf = async (stage: Stage, subscription: Subscription) =>
  (await stage.events(subscription)).map(({ type }) => type);
const lastEvent = async (stage: Stage, subscription: Subscription) =>
  (await stage.events(subscription)).at(-1);

const parties = ({ wallet, pda, plan }: Subscription) => ({
  subscriber: wallet.address,
  plan: plan.pda,
  subscription: pda,
});
const cancelOnChain = (stage: Stage, subscription: Subscription) =>
  stage.send(
    [subscription.wallet],
    [cancelSubscription(stage.net.programId, parties(subscription))],
  );

/** Cancels on chain, and waits until the keeper has seen it. */
async function cancelSeen(stage: Stage, subscription: Subscription) {
  await cancelOnChain(stage, subscription);
  await stage.until(
    'the cancellation is seen',
    async () => (await stage.row(subscription)).cancelRequestedAt !== null,
  );
}

async function resumeOnChain(stage: Stage, subscription: Subscription) {
  const { expiresAt } = (await stage.onChain(subscription))!;
  const accounts = { ...parties(subscription), mint: stage.net.mint, expiresAt };
  await stage.send([subscription.wallet], [resumeSubscription(stage.net.programId, accounts)]);
}

async function endPlan(stage: Stage, plan: Plan, endTs: bigint) {
  const { accounts } = await stage.rpc.getMultipleAccounts([plan.pda]);
  const seen = planIn(accounts[0] ?? null, stage.net.programId)!;
  const edit = {
    status: 'sunset',
    endTs,
    pullers: seen.pullers,
    metadataUri: seen.metadataUri,
  } as const;
  await stage.send(
    [plan.merchant],
    [updatePlan(stage.net.programId, { owner: plan.merchant.address, plan: plan.pda, edit, seen })],
  );
}

void t.test(
  'a wallet without money is retried after 1, 6, 24, 72 and 120 hours, and expires after seven days',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const subscription = await stage.subscriber(plan, { usdc: 0n });
    await stage.startKeeper();
    await stage.until('the first failure is told', async () =>
      (await typesOf(stage, subscription)).includes('payment_failed'),
    );
    const since = (await stage.row(subscription)).pastDueSince!.getTime() / 1000;
    const expected: number[] = [0];
    for (const hours of [1, 6, 24, 72, 120, 168]) {
      const { nextPaymentDue, status } = await stage.row(subscription);
      t.equal(status, 'past_due');
      t.equal(
        nextPaymentDue!.getTime() / 1000 - since,
        hours * HOUR,
        `tried again after ${hours} hours`,
      );
      const before = (await stage.payments(subscription)).length;
      stage.net.passSeconds(nextPaymentDue!.getTime() / 1000 - stage.now() - 60);
      await stage.quiet();
      t.equal((await stage.payments(subscription)).length, before, 'and not sooner');
      stage.net.passSeconds(60);
      await stage.until(
        'it is tried',
        async () => (await stage.payments(subscription)).length === before + 1,
      );
      expected.push(hours);
    }
    const row = await stage.row(subscription);
    t.match(row, {
      status: 'expired',
      endReason: 'past_due',
      nextPaymentDue: null,
      dueAt: null,
      pastDueSince: null,
    });
    const failures = (await stage.events(subscription)).filter(
      ({ type }) => type === 'payment_failed',
    );
    t.same(
      failures.map(({ data }) => [data.attempt, data.final, data.failureReason]),
      expected.map((_, index) => [index + 1, index === expected.length - 1, 'insufficient_funds']),
    );
    t.equal(failures.at(-1)?.data.nextAttemptAt, null);
    t.equal(failures.at(-1)?.data.status, 'expired');
    t.equal(await stage.balance(subscription.wallet.address), 1n, 'nothing was taken');
  },
);

void t.test('a past-due subscription is collected at the next retry after a top-up', async (t) => {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan(), { usdc: 0n });
  await stage.startKeeper();
  await stage.until(
    'it is past due',
    async () => (await stage.row(subscription)).status === 'past_due',
  );
  stage.net.fund(subscription.wallet.address, { usdc: 5_000_000n });
  stage.net.passSeconds(HOUR + 1);
  await paidOnce(stage, subscription);
  t.match(await stage.row(subscription), {
    status: 'active',
    pastDueSince: null,
    failedAttempts: 0,
  });
  t.same(await typesOf(stage, subscription), [
    'subscription_created',
    'payment_failed',
    'payment_success',
  ]);
  t.equal((await stage.payments(subscription)).at(-1)?.attempt, 2);
});

void t.test(
  'a period that ends unpaid is never charged later; only the new period is charged',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ periodHours: 48 });
    const subscription = await stage.subscriber(plan, { usdc: 0n });
    await stage.startKeeper();
    await stage.until(
      'it is past due',
      async () => (await stage.row(subscription)).status === 'past_due',
    );
    const { periodStart } = (await stage.onChain(subscription))!;
    stage.net.fund(subscription.wallet.address, { usdc: 1_000_000_000n });
    stage.net.passSeconds(48 * HOUR + 5);
    await paidOnce(stage, subscription);
    const paid = (await stage.payments(subscription)).filter(
      ({ status }) => status === 'succeeded',
    );
    t.same(
      paid.map(({ periodStart: start }) => BigInt(start.getTime() / 1000)),
      [periodStart + BigInt(48 * HOUR)],
    );
  },
);

void t.test(
  'a cancellation on chain has one event, stops collection, and ends the subscription with its paid period',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    await stage.startKeeper();
    await paidOnce(stage, subscription);
    await cancelSeen(stage, subscription);
    await stage.quiet();
    const row = await stage.row(subscription);
    t.match(row, {
      status: 'active',
      cancelRequestedBy: 'subscriber',
      nextPaymentDue: null,
      dueAt: row.paidThrough!,
    });
    stage.net.passSeconds(30 * DAY - 60);
    await stage.quiet();
    t.equal((await stage.row(subscription)).status, 'active', 'not before the end');
    stage.net.passSeconds(120);
    await stage.until(
      'it is cancelled',
      async () => (await stage.row(subscription)).status === 'cancelled',
    );
    t.same(await typesOf(stage, subscription), [
      'subscription_created',
      'payment_success',
      'cancel_requested',
      'cancel_finalized',
    ]);
    t.match((await lastEvent(stage, subscription))?.data, {
      accountClosed: false,
      status: 'cancelled',
    });
    t.equal((await stage.payments(subscription)).length, 1);
  },
);

void t.test(
  'a cancellation on chain before the first payment is requested and finalized at once',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    await cancelOnChain(stage, subscription);
    await stage.startKeeper();
    await stage.until(
      'it is cancelled',
      async () => (await stage.row(subscription)).status === 'cancelled',
    );
    t.same(await typesOf(stage, subscription), [
      'subscription_created',
      'cancel_requested',
      'cancel_finalized',
    ]);
    t.same(await stage.payments(subscription), []);
  },
);

void t.test(
  'a resume before the end clears the cancel fields, with an event, and the next period is collected',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    await stage.startKeeper();
    await paidOnce(stage, subscription);
    await cancelSeen(stage, subscription);
    await resumeOnChain(stage, subscription);
    await stage.until(
      'the resumption is seen',
      async () => (await stage.row(subscription)).cancelRequestedAt === null,
    );
    const row = await stage.row(subscription);
    t.match(row, { cancelRequestedBy: null, nextPaymentDue: row.paidThrough! });
    stage.net.passSeconds(30 * DAY + 5);
    await stage.until(
      'the second period is paid',
      async () => (await stage.payments(subscription)).length === 2,
    );
    t.same(await typesOf(stage, subscription), [
      'subscription_created',
      'payment_success',
      'cancel_requested',
      'subscription_resumed',
      'payment_success',
    ]);
  },
);

void t.test(
  'a merchant’s cancellation after the subscriber’s is not undone by a resume on chain',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    await stage.startKeeper();
    await paidOnce(stage, subscription);
    await cancelSeen(stage, subscription);
    await stage.sql.begin((tx) => requestCancel(tx, { id: subscription.id, status: 'active' }));
    await resumeOnChain(stage, subscription);
    stage.net.passSeconds(30 * DAY + 5);
    await stage.until(
      'it is cancelled',
      async () => (await stage.row(subscription)).status === 'cancelled',
    );
    t.equal((await stage.payments(subscription)).length, 1);
    t.same(await typesOf(stage, subscription), [
      'subscription_created',
      'payment_success',
      'cancel_requested',
      'cancel_finalized',
    ]);
  },
);

void t.test(
  'a merchant’s cancellation at period end stops collection and ends the subscription with the paid time',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    await stage.startKeeper();
    await paidOnce(stage, subscription);
    await stage.sql.begin((tx) => requestCancel(tx, { id: subscription.id, status: 'active' }));
    stage.net.passSeconds(30 * DAY + 5);
    await stage.until(
      'it is cancelled',
      async () => (await stage.row(subscription)).status === 'cancelled',
    );
    t.same(await typesOf(stage, subscription), [
      'subscription_created',
      'payment_success',
      'cancel_requested',
      'cancel_finalized',
    ]);
    t.equal((await stage.payments(subscription)).length, 1);
  },
);

void t.test('a forced cancellation stops collection at once', async (t) => {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan());
  await stage.startKeeper();
  await paidOnce(stage, subscription);
  await stage.sql.begin((tx) => forceCancel(tx, { id: subscription.id, status: 'active' }));
  stage.net.passSeconds(30 * DAY + 5);
  await stage.quiet();
  t.equal((await stage.payments(subscription)).length, 1);
  t.same(await typesOf(stage, subscription), [
    'subscription_created',
    'payment_success',
    'cancel_forced',
  ]);
});

void t.test(
  'a revoked delegation has one event, fails when due, and is collected once it is approved again',
  async (t) => {
    const stage = await startStage(t);
    const { programId, mint } = stage.net;
    const subscription = await stage.subscriber(await stage.plan());
    await stage.startKeeper();
    await paidOnce(stage, subscription);
    // Revokes the approval of the token account; the authority stays.
    const wallet = subscription.wallet;
    const revoke = revokeApproval({ owner: wallet.address, mint });
    await stage.send([wallet], [revoke]);
    stage.net.passSeconds(30 * DAY + 5);
    await stage.until('the failure is told', async () =>
      (await typesOf(stage, subscription)).includes('payment_failed'),
    );
    await stage.quiet();
    t.same(await typesOf(stage, subscription), [
      'subscription_created',
      'payment_success',
      'delegation_revoked',
      'payment_failed',
    ]);
    t.match(await stage.row(subscription), { status: 'past_due' });
    t.not((await stage.row(subscription)).delegationRevokedAt, null);
    t.match((await lastEvent(stage, subscription))?.data, {
      failureReason: 'delegate_replaced',
      final: false,
      attempt: 1,
    });

    await stage.send([wallet], [initAuthority(programId, { user: wallet.address, mint })]);
    await stage.until(
      'the payment follows without waiting for the next try',
      async () => (await stage.row(subscription)).status === 'active',
    );
    t.match(await stage.row(subscription), { delegationRevokedAt: null });
    t.equal(
      (await typesOf(stage, subscription)).filter((type) => type === 'delegation_revoked').length,
      1,
    );
  },
);

void t.test(
  'an authority that is closed and opened again leaves old subscriptions past due, with one event',
  async (t) => {
    const stage = await startStage(t);
    const { programId, mint } = stage.net;
    const subscription = await stage.subscriber(await stage.plan());
    await stage.startKeeper();
    await paidOnce(stage, subscription);
    const user = subscription.wallet.address;
    await stage.send([subscription.wallet], [revokeAuthority(programId, { user, mint })]);
    await stage.send([subscription.wallet], [initAuthority(programId, { user, mint })]);
    await stage.until(
      'the rotation is seen',
      async () => (await stage.row(subscription)).delegationRevokedAt !== null,
    );
    t.equal((await stage.row(subscription)).status, 'active', 'as it was until due');
    stage.net.passSeconds(30 * DAY + 5);
    await stage.until(
      'it is past due',
      async () => (await stage.row(subscription)).status === 'past_due',
    );
    t.equal((await lastEvent(stage, subscription))?.data.failureReason, 'authority_replaced');
    t.same(await typesOf(stage, subscription), [
      'subscription_created',
      'payment_success',
      'delegation_revoked',
      'payment_failed',
    ]);
  },
);

void t.test(
  'the last period of a plan that ends is paid up to the end, then the subscription expires with a reason',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ periodHours: 24 });
    const subscription = await stage.subscriber(plan);
    await stage.startKeeper();
    await paidOnce(stage, subscription);
    const end = stage.now() + 36 * HOUR;
    await endPlan(stage, plan, BigInt(end));
    await stage.until('the sunset is seen', async () => {
      const [row] = await stage.sql<
        [{ status: string }]
      >`select status from plans where id = ${plan.id}`;
      return row.status === 'sunset';
    });
    stage.net.passSeconds(24 * HOUR + 5);
    await stage.until(
      'the stub is paid',
      async () => (await stage.payments(subscription)).length === 2,
    );
    await stage.quiet();
    const stub = (await stage.payments(subscription)).at(-1)!;
    t.equal(stub.periodEnd.getTime(), end * 1000);
    const seconds = BigInt(end - stub.periodStart.getTime() / 1000);
    const part = down(5_000_000n, (5_000_000n * seconds) / BigInt(24 * HOUR));
    t.equal(stub.amountGross, part, 'its part, rounded down');
    t.equal((await stage.row(subscription)).nextPaymentDue, null);
    stage.net.passSeconds(12 * HOUR + 5);
    await stage.until(
      'it expires',
      async () => (await stage.row(subscription)).status === 'expired',
    );
    t.match(await lastEvent(stage, subscription), {
      type: 'cancel_finalized',
      data: { endReason: 'plan_ended', status: 'expired' },
    });
    t.equal((await stage.payments(subscription)).length, 2);
  },
);

void t.test(
  'a subscription whose plan was closed and published again expires and is never charged again',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ periodHours: 24 });
    const subscription = await stage.subscriber(plan);
    const keeper = await stage.startKeeper();
    await paidOnce(stage, subscription);
    await keeper.stop();
    // No keeper runs meanwhile: it could otherwise read the plan while it is ended or closed.
    await endPlan(stage, plan, BigInt(stage.now() + 24 * HOUR + 10));
    stage.net.passSeconds(24 * HOUR + 15);
    await stage.send(
      [plan.merchant],
      [deletePlan(stage.net.programId, { owner: plan.merchant.address, plan: plan.pda })],
    );
    const terms = { ...plan.terms, amount: plan.terms.amount * 2n };
    await stage.send(
      [plan.merchant],
      [createPlan(stage.net.programId, { merchant: plan.merchant.address, plan: plan.pda, terms })],
    );
    await stage.startKeeper();
    await stage.until(
      'it expires',
      async () => (await stage.row(subscription)).status === 'expired',
    );
    t.equal((await stage.row(subscription)).endReason, 'plan_recreated');
    t.equal((await stage.payments(subscription)).length, 1);
    t.ok(
      (await stage.payments(subscription)).every(
        ({ amountGross }) => amountGross === plan.terms.amount,
      ),
    );
  },
);

void t.test(
  'a closed and reopened account is a new subscription, which can be registered',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ periodHours: 24 });
    const subscription = await stage.subscriber(plan);
    const keeper = await stage.startKeeper();
    await paidOnce(stage, subscription);
    await keeper.stop();
    // No keeper runs meanwhile.
    await cancelOnChain(stage, subscription);
    stage.net.passSeconds(24 * HOUR + 100);
    const { wallet, pda } = subscription;
    await stage.send(
      [wallet],
      [
        revokeDelegation(stage.net.programId, {
          authority: wallet.address,
          plan: plan.pda,
          subscription: pda,
        }),
      ],
    );
    await stage.open(plan, wallet);
    await stage.startKeeper();
    await stage.until(
      'the old one ends',
      async () => (await stage.row(subscription)).status === 'cancelled',
    );
    t.same(await typesOf(stage, subscription), [
      'subscription_created',
      'payment_success',
      'cancel_requested',
      'cancel_finalized',
    ]);
    t.equal((await lastEvent(stage, subscription))?.data.accountClosed, true);
    t.equal(
      (await stage.payments(subscription)).length,
      1,
      'nothing is collected from the new one under the old registration',
    );
    const again = await stage.register(plan, wallet);
    await paidOnce(stage, again);
    t.equal((await stage.payments(again)).length, 1);
  },
);
