// A plan whose payments cannot be collected is blocked and unblocked as a whole. A treasury that
// cannot receive blocks nothing.
import t, { type Test } from 'tap';
import { planIn } from '../../src/chain/program/accounts.ts';
import { SYSTEM_PROGRAM } from '../../src/chain/program/addresses.ts';
import { cancelSubscription } from '../../src/chain/program/instructions.ts';
import { updatePlan } from '../../src/chain/program/plan-instructions.ts';
import { reconcile } from '../../src/cli/operate/reconcile/compare.ts';
import { HOUR, type Plan, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';

/** The plan's owner changes the pullers. */
async function setPullers(stage: Stage, plan: Plan, pullers: string[]) {
  const { accounts } = await stage.rpc.getMultipleAccounts([plan.pda]);
  const seen = planIn(accounts[0] ?? null, stage.net.programId)!;
  const { status, endTs, metadataUri } = seen;
  const edit = { status, endTs, metadataUri, pullers };
  const parties = { owner: plan.merchant.address, plan: plan.pda };
  await stage.send([plan.merchant], [updatePlan(stage.net.programId, { ...parties, edit, seen })]);
}

async function blockedReason(stage: Stage, plan: Plan): Promise<string | null> {
  const [{ reason }] = await stage.sql<[{ reason: string | null }]>`
    select collection_blocked_reason as reason from plans where id = ${plan.id}`;
  return reason;
}

const paid = (stage: Stage, subscriptions: readonly Subscription[], count: number) =>
  stage.until(`each is paid ${count} times`, async () => {
    for (const subscription of subscriptions)
      if ((await stage.payments(subscription)).length !== count) return false;
    return true;
  });

async function differences(stage: Stage, keepers = [stage.keeper.address]) {
  stage.net.mineBlocks(40);
  const range = {
    since: new Date((stage.now() - 30 * 24 * HOUR) * 1000),
    until: new Date((stage.now() + HOUR) * 1000),
    repair: false,
  };
  const { sql, rpc, net } = stage;
  return (await reconcile({ sql, rpc, programId: net.programId, keepers }, range)).differences;
}

void t.test(
  'a plan that does not list the keeper is blocked with one alert, and collected once it lists the keeper',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const other = await stage.plan();
    await setPullers(stage, plan, []);
    const subscriptions = [
      await stage.subscriber(plan),
      await stage.subscriber(plan),
      await stage.subscriber(plan),
    ];
    const elsewhere = await stage.subscriber(other);
    const [{ endpoint }] = await stage.sql<[{ endpoint: string }]>`
      insert into webhook_endpoints (app_id, url, secret, extra_events)
      values (${plan.appId}, 'https://coffee.example/hooks', '', array['plan_blocked']) returning id as endpoint`;
    const keeper = await stage.startKeeper();
    await paid(stage, [elsewhere], 1);
    await stage.quiet();
    t.equal(await blockedReason(stage, plan), 'not_a_puller');
    const told = await stage.sql<{ type: string; body: string; endpointId: string }[]>`
      select e.type, e.body, q.endpoint_id from events e join delivery_queue q on q.event_id = e.id
      where e.subscription_id is null`;
    t.equal(told.length, 1, 'one event, to the endpoint that asked for it');
    t.equal(told[0]!.endpointId, endpoint);
    t.match(JSON.parse(told[0]!.body), {
      type: 'plan_blocked',
      data: {
        appId: plan.appId,
        planId: plan.id,
        planPda: plan.pda,
        merchantWallet: plan.merchant.address,
        collectionBlockedReason: 'not_a_puller',
      },
    });
    t.equal(await blockedReason(stage, other), null);
    for (const subscription of subscriptions) {
      const row = await stage.row(subscription);
      t.match(row, { status: 'active', failedAttempts: 0, setbacks: 0 });
      t.ok(
        row.dueAt!.getTime() > (stage.now() + 700 * HOUR) * 1000,
        'it waits for its next period',
      );
    }
    t.same(
      await stage.sql`select 1 from payment_attempts where subscription_id <> ${elsewhere.id}`,
      [],
      'nothing else is signed',
    );
    t.match(
      await keeper.registry.metrics(),
      /billing_keeper_alerts_total\{.*reason="not_a_puller".*\} 1/,
    );
    // The measuring loop sets the gauge.
    await stage.until('the gauge counts it', async () =>
      /billing_plans_blocked\{.*reason="not_a_puller".*\} 1/.test(await keeper.registry.metrics()),
    );

    // The stream reports the change of the plan.
    await setPullers(stage, plan, [stage.keeper.address]);
    await paid(stage, subscriptions, 1);
    t.equal(await blockedReason(stage, plan), null);
    t.match(
      await keeper.registry.metrics(),
      /billing_keeper_alerts_total\{.*reason="not_a_puller".*\} 1/,
    );
    await stage.quiet();
    t.same(await differences(stage), []);
  },
);

void t.test(
  'a subscription of a blocked plan is tried again in each period, and its cancellation is read meanwhile',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ periodHours: 24 });
    const [stays, leaves] = [await stage.subscriber(plan), await stage.subscriber(plan)];
    const keeper = await stage.startKeeper();
    await paid(stage, [stays, leaves], 1);
    await stage.quiet();
    await setPullers(stage, plan, []);
    stage.net.passSeconds(24 * HOUR);
    await stage.until(
      'it is blocked',
      async () => (await blockedReason(stage, plan)) === 'not_a_puller',
    );
    await stage.quiet();
    const { dueAt } = await stage.row(stays);
    stage.net.passSeconds(24 * HOUR);
    await stage.until(
      'the next period is looked at',
      async () => (await stage.row(stays)).dueAt!.getTime() - dueAt!.getTime() === 24 * HOUR * 1000,
    );
    const parties = { subscriber: leaves.wallet.address, plan: plan.pda, subscription: leaves.pda };
    await stage.send([leaves.wallet], [cancelSubscription(stage.net.programId, parties)]);
    await stage.until(
      'the cancellation is final',
      async () => (await stage.row(leaves)).status === 'cancelled',
    );
    t.match(await stage.row(stays), { status: 'active', failedAttempts: 0, setbacks: 0 });
    t.match(
      await keeper.registry.metrics(),
      /billing_keeper_alerts_total\{.*reason="not_a_puller".*\} 1/,
    );
    // The missed periods are not charged later.
    await setPullers(stage, plan, [stage.keeper.address]);
    await paid(stage, [stays], 2);
    t.equal((await stage.payments(leaves)).length, 1);
  },
);

void t.test('a blocked plan that is closed is unblocked, and its subscriptions end', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan({ periodHours: 24 });
  await setPullers(stage, plan, []);
  const subscription = await stage.subscriber(plan);
  await stage.startKeeper();
  await stage.until('it is blocked', async () => (await blockedReason(stage, plan)) !== null);
  await stage.quiet();
  await stage.net.rpc('surfnet_setAccount', plan.pda, {
    lamports: 0,
    data: '',
    owner: SYSTEM_PROGRAM,
  });
  await stage.sql`update plans set observed_at = null`;
  await stage.until(
    'it has ended',
    async () => (await stage.row(subscription)).status === 'expired',
  );
  t.match(await stage.row(subscription), { endReason: 'plan_closed' });
  const ended = async () =>
    (
      await stage.sql`select 1 from plans where status = 'ended' and collection_blocked_reason is null`
    ).length === 1;
  await stage.until('the plan has ended as well', ended);
});

async function treasuryState(stage: Stage, state: 'frozen' | 'initialized', owner: string) {
  await stage.net.rpc('surfnet_setTokenAccount', owner, stage.net.mint, { state });
  // The keeper reads at commitment confirmed.
  stage.net.mineBlocks(2);
}

/** A stage with a plan of short periods, one subscription, and a keeper with a backup treasury. */
async function withTreasuries(t: Test, named: boolean) {
  const stage = await startStage(t);
  const backup = stage.wallet({ usdc: 1n });
  const plan = await stage.plan({ periodHours: 24, backups: named ? [backup.address] : [] });
  const subscription = await stage.subscriber(plan);
  const treasuries = [stage.treasury.address, backup.address];
  await stage.sql`
    insert into installation (cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds)
    values ('localnet', ${stage.net.mint}, ${stage.net.programId}, ${[stage.keeper.address]}, ${treasuries}, 100, 0)`;
  const keeper = await stage.startKeeper({ treasuries });
  await paid(stage, [subscription], 1);
  await stage.quiet();
  return { stage, backup, plan, subscription, keeper };
}

void t.test(
  'the next treasury that the plan names takes the fee when the first cannot receive',
  async (t) => {
    const { stage, backup, subscription } = await withTreasuries(t, true);
    await treasuryState(stage, 'frozen', stage.treasury.address);
    stage.net.passSeconds(24 * HOUR);
    await paid(stage, [subscription], 2);
    t.match((await stage.payments(subscription))[1], {
      amountGross: 5_000_000n,
      platformFee: 50_000n,
      amountNet: 4_950_000n,
      feeOwed: 0n,
      creditSpent: 0n,
    });
    t.equal(await stage.balance(backup.address), 50_001n);
    await treasuryState(stage, 'initialized', stage.treasury.address);
    stage.net.passSeconds(24 * HOUR);
    await paid(stage, [subscription], 3);
    t.equal(await stage.balance(backup.address), 50_001n, 'the preferred one again');
    t.equal(await stage.balance(stage.treasury.address), 100_001n);
    await stage.quiet();
    t.same(await differences(stage), []);
  },
);

void t.test(
  'without a treasury that can receive, the merchant gets the whole payment and owes the fee',
  async (t) => {
    const { stage, backup, plan, subscription, keeper } = await withTreasuries(t, false);
    const before = await stage.balance(subscription.wallet.address);
    await treasuryState(stage, 'frozen', stage.treasury.address);
    stage.net.passSeconds(24 * HOUR);
    await paid(stage, [subscription], 2);
    t.match((await stage.payments(subscription))[1], {
      amountGross: 5_000_000n,
      platformFee: 0n,
      amountNet: 5_000_000n,
      feeOwed: 50_000n,
    });
    t.equal(await stage.balance(subscription.wallet.address), before - 5_000_000n);
    t.equal(await stage.balance(backup.address), 1n, 'the plan does not name it');
    t.equal(await blockedReason(stage, plan), null);
    t.match(
      await keeper.registry.metrics(),
      /billing_payments_cents_total\{.*kind="fee_owed".*\} 5\n/,
    );
    await treasuryState(stage, 'initialized', stage.treasury.address);
    stage.net.passSeconds(24 * HOUR);
    await paid(stage, [subscription], 3);
    const [, , third] = await stage.payments(subscription);
    t.match(third, { amountGross: 5_000_000n, platformFee: 50_000n, feeOwed: 0n });
    await stage.quiet();
    t.same(await differences(stage), []);
  },
);

void t.test(
  'a payment that another keeper takes over is recorded with the fee that it was signed to owe',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const subscription = await stage.subscriber(plan);
    await treasuryState(stage, 'frozen', stage.treasury.address);
    const { collect, taken } = stage.parts();
    await collect();
    const [signed] = taken;
    t.match(signed?.attempt, { amountGross: 5_000_000n, platformFee: 0n, feeOwed: 50_000n });
    await stage.rpc.sendTransaction(signed!.attempt.transaction);
    await stage.sql`update subscription_work set lease_until = now() - interval '1 second'`;
    await stage.startKeeper();
    await paid(stage, [subscription], 1);
    t.match((await stage.payments(subscription))[0], { platformFee: 0n, feeOwed: 50_000n });
  },
);
