// Every error of the program, SPL Token or the runtime that a correctly signed pull can fail with
// on chain, and its effect on the subscription. The codes alone are in
// test/chain/program/errors.test.ts.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import {
  authorityAddress,
  SYSTEM_PROGRAM,
  tokenAccountAddress,
} from '../../src/chain/program/addresses.ts';
import {
  cancelSubscriptionNow,
  closeAuthority,
  initAuthority,
  revokeDelegation,
  transferSubscription,
} from '../../src/chain/program/instructions.ts';
import { AMOUNT, arrived } from '../fixtures/agreement.ts';
import { startStage, type Stage, type Subscription } from '../fixtures/billing.ts';
import { approve, revokeApproval } from '../fixtures/tokens.ts';

interface Case {
  /** The change on chain between signing and sending. */
  happens: (stage: Stage, subscription: Subscription) => Promise<unknown>;
  /** The error in the attempt's row. */
  error: RegExp;
  /**
   * `failed`: the subscriber's reason, the subscription is past due. `alert`: a keeper failure.
   * `then`: neither; the subscription after it was read again.
   */
  failed?: string;
  alert?: string;
  then?: { status: string; endReason?: string | null; paid?: number };
}

const gone = { lamports: 0, data: '', owner: SYSTEM_PROGRAM };
const remove = (stage: Stage, address: string) =>
  stage.net.rpc('surfnet_setAccount', address, gone);

/** Writes account data that no instruction would write. */
async function edit(stage: Stage, address: string, change: (data: Buffer) => unknown) {
  const { accounts } = await stage.rpc.getMultipleAccounts([address], { commitment: 'processed' });
  const data = Buffer.from(accounts[0]!.data);
  change(data);
  await stage.net.rpc('surfnet_setAccount', address, { data: data.toString('hex') });
}

const tokensOf = (stage: Stage, owner: string, change: Record<string, unknown>) =>
  stage.net.rpc('surfnet_setTokenAccount', owner, stage.net.mint, change);
const parties = (stage: Stage, { wallet }: Subscription) => ({
  user: wallet.address,
  mint: stage.net.mint,
});

const cases: Record<string, Case> = {
  'Custom 1, balance': {
    happens: (stage, { wallet }) =>
      tokensOf(stage, wallet.address, { amount: Number(AMOUNT - 1n) }),
    error: /error 1$/,
    failed: 'insufficient_funds',
  },
  'Custom 1, allowance': {
    happens: (stage, { wallet }) => {
      const delegate = authorityAddress(
        stage.net.programId,
        wallet.address,
        stage.net.mint,
      ).address;
      return stage.send(
        [wallet],
        [approve({ owner: wallet.address, mint: stage.net.mint, delegate, amount: AMOUNT - 1n })],
      );
    },
    error: /error 1$/,
    failed: 'allowance_exhausted',
  },
  'Custom 4': {
    happens: (stage, { wallet }) =>
      stage.send([wallet], [revokeApproval({ owner: wallet.address, mint: stage.net.mint })]),
    error: /error 4$/,
    failed: 'delegate_replaced',
  },
  'Custom 17, the subscriber': {
    happens: (stage, { wallet }) => tokensOf(stage, wallet.address, { state: 'frozen' }),
    error: /error 17$/,
    failed: 'account_frozen',
  },
  'Custom 17, the merchant': {
    happens: (stage, { plan }) => tokensOf(stage, plan.merchant.address, { state: 'frozen' }),
    error: /error 17$/,
    alert: 'receiver_frozen',
  },
  '103': {
    happens: (stage, one) =>
      stage.send([one.wallet], [closeAuthority(stage.net.programId, parties(stage, one))]),
    error: /error 103 /,
    failed: 'authority_closed',
  },
  '136': {
    happens: async (stage, one) => {
      await stage.send([one.wallet], [closeAuthority(stage.net.programId, parties(stage, one))]);
      await stage.send([one.wallet], [initAuthority(stage.net.programId, parties(stage, one))]);
    },
    error: /error 136 /,
    failed: 'authority_replaced',
  },
  '110, the subscriber': {
    happens: (stage, { wallet }) =>
      remove(stage, tokenAccountAddress(wallet.address, stage.net.mint).address),
    error: /error 110 /,
    failed: 'account_closed',
  },
  '110, the merchant': {
    happens: (stage, { plan }) =>
      remove(stage, tokenAccountAddress(plan.merchant.address, stage.net.mint).address),
    error: /error 110 /,
    alert: 'receiver_account_missing',
  },
  // The next read of the account shows that it is the subscriber's reason.
  '130, the subscriber': {
    happens: (stage, { wallet }) =>
      edit(stage, tokenAccountAddress(wallet.address, stage.net.mint).address, (data) =>
        data.set(randomBytes(32), 32),
      ),
    error: /error 130 /,
    alert: 'not_a_puller',
  },
  '400': {
    happens: (stage, { wallet, plan, pda }) =>
      stage.send(
        [plan.merchant],
        [
          transferSubscription(stage.net.programId, {
            caller: plan.merchant.address,
            subscriber: wallet.address,
            plan: plan.pda,
            subscription: pda,
            mint: stage.net.mint,
            receiver: plan.merchant.address,
            amount: AMOUNT,
          }),
        ],
      ),
    error: /error 400 /,
    then: { status: 'active', paid: 1 },
  },
  '508': {
    happens: (stage, { pda }) =>
      edit(stage, pda, (data) => data.writeBigInt64LE(BigInt(stage.now()), 147)),
    error: /error 508 /,
    then: { status: 'cancelled' },
  },
  '501': {
    happens: (stage, { plan }) =>
      edit(stage, plan.pda, (data) => data.writeBigInt64LE(BigInt(stage.now() - 1), 99)),
    error: /error 501 /,
    then: { status: 'expired', endReason: 'plan_ended' },
  },
  '516': {
    happens: (stage, { plan }) => remove(stage, plan.pda),
    error: /error 516 /,
    then: { status: 'expired', endReason: 'plan_closed' },
  },
  '519': {
    happens: (stage, { plan }) =>
      edit(stage, plan.pda, (data) => data.writeBigUInt64LE(AMOUNT + 1n, 75)),
    error: /error 519 /,
    then: { status: 'expired', endReason: 'plan_recreated' },
  },
  InvalidAccountOwner: {
    happens: async (stage, subscription) => {
      const { wallet, plan, pda } = subscription;
      const { programId } = stage.net;
      const of = { subscriber: wallet.address, plan: plan.pda, subscription: pda };
      const { periodStart } = (await stage.onChain(subscription))!;
      const now = { ...of, merchant: plan.merchant.address, periodStart };
      return stage.send(
        [wallet, plan.merchant],
        [
          cancelSubscriptionNow(programId, now),
          revokeDelegation(programId, { ...of, authority: wallet.address }),
        ],
      );
    },
    error: /InvalidAccountOwner/,
    then: { status: 'cancelled' },
  },
  '130, the keeper': {
    happens: (stage, { plan }) => edit(stage, plan.pda, (data) => data.fill(0, 235, 363)),
    error: /error 130 /,
    alert: 'not_a_puller',
  },
  '506': {
    happens: (stage, { plan }) => edit(stage, plan.pda, (data) => data.set(randomBytes(32), 139)),
    error: /error 506 /,
    alert: 'destination_refused',
  },
  '125': {
    happens: (stage, { plan }) => edit(stage, plan.pda, (data) => data.set(randomBytes(32), 43)),
    error: /error 125 /,
    alert: 'wrong_program_or_mint',
  },
  '505': {
    happens: (stage, { pda }) => edit(stage, pda, (data) => data.set(randomBytes(32), 35)),
    error: /error 505 /,
    alert: 'wrong_program_or_mint',
  },
  '407': {
    happens: (stage, { pda }) =>
      edit(stage, pda, (data) => data.writeBigInt64LE(BigInt(stage.now() + 86_400), 139)),
    error: /error 407 /,
    alert: 'clock_behind',
  },
  '133': {
    happens: (stage, { pda }) => edit(stage, pda, (data) => data.writeUInt8(2, 1)),
    error: /error 133 /,
    alert: 'version',
  },
};

void t.test(
  'each pull that fails on chain makes the subscription past due or raises an alert, by its code',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const subscriptions = new Map<string, Subscription>();
    await Promise.all(
      Object.keys(cases).map(async (name) =>
        subscriptions.set(name, await stage.subscriber(await stage.plan({ amount: AMOUNT }))),
      ),
    );
    const { context, collector, collect, taken, track } = stage.parts();
    // Puts each payment in a transaction of its own.
    await stage.sql`update subscription_work set failed_packs = 2`;
    await collector.turn();
    t.equal(taken.length, subscriptions.size, 'all are signed');
    for (const [name, one] of Object.entries(cases))
      await one.happens(stage, subscriptions.get(name)!);
    stage.net.mineBlocks();
    const flight = track();
    t.teardown(() => flight.stop(0));
    flight.add(taken);
    await arrived(stage, taken);
    const alerts = async () =>
      (await context.metrics.alerts.get()).values.filter(({ value }) => value > 0);
    const alerting = Object.values(cases).filter(({ alert }) => alert !== undefined);
    // An alert is counted after its change is committed.
    await stage.until('all have come to their end, and the operator is told', async () => {
      stage.net.mineBlocks(4);
      const open = await stage.sql`select 1 from payment_attempts where state = 'open'`;
      const told = (await alerts()).reduce((sum, { value }) => sum + value, 0);
      return open.length === 0 && told >= alerting.length;
    });

    const attempts = await stage.sql<
      { subscriptionId: string; state: string; error: string | null }[]
    >`
    select subscription_id, state, error from payment_attempts`;
    const raised = new Map<string, number>();
    for (const [name, one] of Object.entries(cases)) {
      const subscription = subscriptions.get(name)!;
      const attempt = attempts.find(({ subscriptionId }) => subscriptionId === subscription.id);
      t.match(attempt, { state: 'failed', error: one.error }, name);
      const failures = (await stage.payments(subscription)).filter(
        ({ status }) => status === 'failed',
      );
      const told = (await stage.events(subscription)).at(-1);
      if (one.failed !== undefined) {
        t.match(await stage.row(subscription), { status: 'past_due', failedAttempts: 1 }, name);
        t.match(
          failures,
          [{ failureReason: one.failed, txSignature: /./, amountGross: AMOUNT }],
          name,
        );
        t.match(
          told,
          { type: 'payment_failed', data: { failureReason: one.failed, attempt: 1, final: false } },
          name,
        );
        continue;
      }
      t.same(failures, [], name);
      t.equal(told?.type, 'subscription_created', name);
      t.match(
        await stage.row(subscription),
        { status: 'active', failedAttempts: 0, setbacks: one.alert === undefined ? 0 : 1 },
        name,
      );
      if (one.alert !== undefined) raised.set(one.alert, (raised.get(one.alert) ?? 0) + 1);
    }
    t.same(
      Object.fromEntries((await alerts()).map(({ labels, value }) => [labels.reason, value])),
      Object.fromEntries(raised),
      'each told to the operator',
    );

    // After an error that is no failure the accounts are read again at once, and decide.
    stage.net.mineBlocks(40);
    await collect();
    for (const [name, { then }] of Object.entries(cases)) {
      if (then === undefined) continue;
      const { status, endReason = null, paid = 0 } = then;
      const subscription = subscriptions.get(name)!;
      t.match(await stage.row(subscription), { status, endReason }, name);
      t.equal((await stage.payments(subscription)).length, paid, name);
      t.equal(
        taken.filter(({ id }) => id === subscription.id).length,
        1,
        `${name}: nothing more is signed`,
      );
    }
  },
);

void t.test(
  'a payment that runs out of compute units is a keeper failure; the limit is raised, and it is paid',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const subscription = await stage.subscriber(await stage.plan({ amount: AMOUNT }));
    let low = true;
    const { context, collector, taken, track } = stage.parts({
      simulateTransaction: async (...args) => {
        const found = await stage.rpc.simulateTransaction(...args);
        return low ? { ...found, unitsConsumed: (found.unitsConsumed ?? 0n) / 2n } : found;
      },
    });
    const flight = track();
    t.teardown(() => flight.stop(0));
    await collector.turn();
    low = false;
    const shape = { pulls: 2, tries: 0 };
    const before = context.fees.units(shape);
    flight.add(taken);
    await arrived(stage, taken);
    stage.mine();
    await stage.until('it has failed', async () => (await stage.row(subscription)).setbacks === 1);
    t.match(await stage.row(subscription), { status: 'active', failedAttempts: 0 });
    t.ok(context.fees.units(shape) > before, 'the limit is raised');
    const alerts = (await context.metrics.alerts.get()).values.filter(({ value }) => value > 0);
    t.match(alerts, [{ labels: { reason: 'compute_budget' }, value: 1 }]);
    await stage.startKeeper();
    stage.net.passSeconds(30);
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  },
);
