import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import t from 'tap';
import { SYSTEM_PROGRAM, tokenAccountAddress } from '../../src/chain/program/addresses.ts';
import { transferSubscription } from '../../src/chain/program/instructions.ts';
import { readReceiptLinks, recordPublicUrl } from '../../src/db/money/receipts.ts';
import { claimDue, type DuePlace } from '../../src/db/subscriptions/leases.ts';
import { receiptUrl } from '../../src/domain/accounts/receipts.ts';
import { arrived, sent } from '../fixtures/agreement.ts';
import { HOUR, startStage, type Stage, type Subscription } from '../fixtures/billing.ts';

void t.test(
  'a registered subscription is collected once: net to the merchant, fee to the treasury, one event',
  async (t) => {
    const stage = await startStage(t);
    await recordPublicUrl(stage.sql, 'https://billing.example');
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const subscription = await stage.subscriber(plan);
    const treasuryBefore = await stage.balance(stage.treasury.address);
    const merchantBefore = await stage.balance(plan.merchant.address);
    const account = await stage.onChain(subscription);
    await stage.startKeeper();
    await stage.until(
      'the payment is recorded',
      async () => (await stage.payments(subscription)).length > 0,
    );
    await stage.quiet();

    const [payment, ...more] = await stage.payments(subscription);
    t.same(more, []);
    const start = new Date(Number(account?.periodStart) * 1000);
    const end = new Date(start.getTime() + 720 * HOUR * 1000);
    t.match(payment, {
      status: 'succeeded',
      source: 'keeper',
      amountGross: 5_000_000n,
      platformFee: 50_000n,
      amountNet: 4_950_000n,
      periodStart: start,
      periodEnd: end,
      attempt: 1,
    });
    t.equal((await stage.balance(stage.treasury.address)) - treasuryBefore, 50_000n);
    t.equal((await stage.balance(plan.merchant.address)) - merchantBefore, 4_950_000n);
    t.match(await stage.row(subscription), {
      status: 'active',
      paidThrough: end,
      nextPaymentDue: end,
      dueAt: end,
      claimId: null,
    });
    const events = await stage.events(subscription);
    t.same(
      events.map(({ type }) => type),
      ['subscription_created', 'payment_success'],
    );
    t.match(events[1]?.data, {
      amountGross: '5000000',
      platformFee: '50000',
      amountNet: '4950000',
      txSignature: payment?.txSignature,
      nextPaymentDue: end.toISOString(),
      paidThrough: end.toISOString(),
      status: 'active',
    });
    const links = await readReceiptLinks(stage.sql);
    t.equal(
      events[1]?.data.receiptUrl,
      receiptUrl(links, {
        subscriptionId: subscription.id,
        txSignature: payment?.txSignature ?? null,
        periodStart: start,
      }),
      'the URL of its receipt',
    );
  },
);

void t.test('a payment whose fee rounds to zero has only one transfer', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan({ amount: 99n });
  const subscription = await stage.subscriber(plan);
  await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  t.match((await stage.payments(subscription))[0], {
    amountGross: 99n,
    platformFee: 0n,
    amountNet: 99n,
  });
  t.equal(await stage.balance(stage.treasury.address), 1n);
});

void t.test(
  "a merchant's individual fee takes precedence over the operator's default fee",
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ amount: 1_000_003n, feeBps: 333 });
    const subscription = await stage.subscriber(plan);
    await stage.startKeeper();
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
    t.match((await stage.payments(subscription))[0], {
      amountGross: 1_000_003n,
      platformFee: 33_300n,
      amountNet: 966_703n,
    });
  },
);

void t.test(
  'payments of a merchant without a token account wait until the merchant opens one',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const subscription = await stage.subscriber(plan);
    const merchantTokens = tokenAccountAddress(plan.merchant.address, stage.net.mint).address;
    const closed = { lamports: 0, data: '', owner: SYSTEM_PROGRAM };
    await stage.net.rpc('surfnet_setAccount', merchantTokens, closed);
    const keeper = await stage.startKeeper();
    const blockedReason = async () =>
      (
        await stage.sql<{ reason: string | null }[]>`
          select collection_blocked_reason as reason from plans where id = ${plan.id}`
      )[0]?.reason;
    await stage.until('the plan is blocked', async () => (await blockedReason()) !== null);
    t.equal(await blockedReason(), 'receiver_account_missing');
    t.match(await stage.row(subscription), { status: 'active', failedAttempts: 0, setbacks: 0 });
    t.same(await stage.sql`select 1 from payment_attempts`, [], 'nothing is signed for it');
    t.match(
      await keeper.registry.metrics(),
      /billing_keeper_alerts_total\{.*reason="receiver_account_missing".*\} 1/,
    );
    stage.net.fund(plan.merchant.address, { usdc: 1n });
    // The plan poll is due.
    await stage.sql`update plans set observed_at = null`;
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
    t.equal(await stage.balance(plan.merchant.address), 4_950_001n);
  },
);

void t.test('a period is collected from its start on, not a second before', async (t) => {
  for (const [offset, collected] of [
    [-1, 0],
    [0, 1],
    [1, 1],
  ] as const) {
    const stage = await startStage(t, { blockMs: 0 });
    const plan = await stage.plan({ periodHours: 1 });
    const subscription = await stage.subscriber(plan);
    const first = stage.parts();
    const flight = first.track();
    await first.collector.turn();
    flight.add(first.taken);
    await arrived(stage, first.taken);
    await stage.until('the first payment is recorded', async () => {
      stage.net.mineBlocks(4);
      return (await stage.payments(subscription)).length === 1;
    });
    await flight.stop(0);
    const boundary = Math.floor((await stage.row(subscription)).paidThrough!.getTime() / 1000);
    stage.net.timeTravel({ absoluteTimestamp: (boundary + offset) * 1000 });
    stage.net.mineBlocks();
    t.equal((await stage.rpc.getClock()).unixTimestamp, BigInt(boundary + offset));
    const { collector, taken } = stage.parts();
    await collector.turn();
    t.equal(taken.length, collected, `${offset} s from the boundary`);
    if (collected === 1) t.equal(taken[0]!.attempt.periodStart.getTime() / 1000, boundary);
  }
});

void t.test('after three skipped periods only the current one is paid', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan({ periodHours: 24 });
  const subscription = await stage.subscriber(plan);
  const keeper = await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  await stage.quiet();
  await keeper.stop();
  const { paidThrough } = await stage.row(subscription);
  stage.net.passSeconds(4 * 24 * HOUR + 60);
  await stage.startKeeper();
  await stage.until(
    'it is paid again',
    async () => (await stage.payments(subscription)).length === 2,
  );
  await stage.quiet();
  const payments = await stage.payments(subscription);
  t.equal(payments.length, 2);
  t.equal(payments[1]!.periodStart.getTime() - paidThrough!.getTime(), 3 * 24 * HOUR * 1000);
  t.equal((await stage.row(subscription)).paidThrough?.getTime(), payments[1]!.periodEnd.getTime());
});

void t.test(
  'a failed second transfer reverts the first and does not count as the subscriber’s failure',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const plan = await stage.plan();
    const subscription = await stage.subscriber(plan);
    const merchantBefore = await stage.balance(plan.merchant.address);
    const freeze = (state: string) =>
      stage.net.rpc('surfnet_setTokenAccount', stage.treasury.address, stage.net.mint, { state });
    await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 90, count: 1 });
    await sent(stage, await stage.startKeeper());
    await freeze('frozen');
    stage.net.mineBlocks(90);
    stage.mine();
    await stage.until(
      'the attempt has failed',
      async () =>
        (await stage.sql`select 1 from payment_attempts where state = 'failed'`).length === 1,
    );
    t.equal(await stage.balance(plan.merchant.address), merchantBefore);
    t.match(await stage.row(subscription), { status: 'active', setbacks: 1 });
    t.same(await stage.payments(subscription), []);
    await freeze('initialized');
    stage.net.passSeconds(60);
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
    t.match(await stage.row(subscription), { status: 'active', setbacks: 0 });
  },
);

void t.test(
  'a keeper without SOL signs nothing, shows the reason in its readiness and continues after a refill',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const subscription = await stage.subscriber(plan);
    const refill = (lamports: number) =>
      stage.net.rpc('surfnet_setAccount', stage.keeper.address, { lamports });
    await refill(1_000_000);
    stage.net.mineBlocks();
    const keeper = await stage.startKeeper();
    await stage.until('it is noticed', async () => /out of SOL/.test((await keeper.ready()) ?? ''));
    await new Promise((resolve) => setTimeout(resolve, 1500));
    t.same(await stage.sql`select 1 from payment_attempts`, []);
    t.match(await stage.row(subscription), { status: 'active', failedAttempts: 0 });
    await refill(1_000_000_000);
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
    t.equal(await keeper.ready(), undefined);
  },
);

/** The plan's owner pulls with its own key. */
const ownPull = (stage: Stage, { wallet, plan, pda }: Subscription, amount: bigint) =>
  transferSubscription(stage.net.programId, {
    caller: plan.merchant.address,
    subscriber: wallet.address,
    plan: plan.pda,
    subscription: pda,
    mint: stage.net.mint,
    receiver: plan.merchant.address,
    amount,
  });

void t.test(
  'a pull by the plan owner pays the period, with its signature and no fee',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const subscription = await stage.subscriber(plan);
    const pull = ownPull(stage, subscription, plan.terms.amount);
    const signature = await stage.send([plan.merchant], [pull]);
    stage.net.mineBlocks(40);
    await stage.startKeeper();
    await stage.until(
      'it is recorded',
      async () => (await stage.payments(subscription)).length === 1,
    );
    await stage.quiet();
    t.same(
      (await stage.payments(subscription)).map(
        ({ source, txSignature, amountGross, platformFee }) => ({
          source,
          txSignature,
          amountGross,
          platformFee,
        }),
      ),
      [{ source: 'foreign', txSignature: signature, amountGross: 5_000_000n, platformFee: 0n }],
    );
    t.same(
      await stage.sql`select 1 from payment_attempts`,
      [],
      'the keeper does not pull in addition',
    );
    // The owner also pulls in the middle of a later period, before the keeper does.
    const keeperBefore = (await stage.row(subscription)).paidThrough!;
    stage.net.passSeconds(720 * HOUR + 5);
    await stage.until(
      'the keeper collects the next period',
      async () => (await stage.payments(subscription)).length === 2,
    );
    t.match((await stage.payments(subscription))[1], {
      source: 'keeper',
      periodStart: keeperBefore,
    });
  },
);

void t.test(
  'a further pull by the plan owner in a paid period is recorded and logged, and pays no period',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const subscription = await stage.subscriber(plan);
    const signatures = [
      await stage.send([plan.merchant], [ownPull(stage, subscription, 1_000_000n)]),
    ];
    const said: string[] = [];
    const log = pino(
      { level: 'warn' },
      { write: (line: string) => void said.push((JSON.parse(line) as { msg: string }).msg) },
    );
    const keeper = await stage.startKeeper({}, { log });
    const recorded = async (count: number) => {
      await stage.until(`${count} are recorded`, async () => {
        // Pulls that are not final yet are looked up again after some seconds.
        stage.net.passSeconds(11);
        return (await stage.payments(subscription)).length === count;
      });
      await stage.quiet();
    };
    await recorded(1);
    const paid = await stage.row(subscription);
    for (const amount of [500_000n, 3_500_000n]) {
      signatures.push(await stage.send([plan.merchant], [ownPull(stage, subscription, amount)]));
      await recorded(signatures.length);
    }
    t.match(
      await stage.sql`select tx_signature, amount_gross, platform_fee, fee_owed, source, further from payments order by occurred_at, id`,
      [1_000_000n, 500_000n, 3_500_000n].map((amountGross, index) => ({
        txSignature: signatures[index],
        amountGross,
        platformFee: 0n,
        feeOwed: amountGross / 100n,
        source: 'foreign',
        further: index > 0,
      })),
    );
    t.same((await stage.row(subscription)).paidThrough, paid.paidThrough);
    t.same((await stage.row(subscription)).nextPaymentDue, paid.nextPaymentDue);
    t.same(
      (await stage.events(subscription)).map(({ type }) => type),
      ['subscription_created', 'payment_success'],
      'one a paid period',
    );
    t.match(
      await keeper.registry.metrics(),
      /billing_payments_total\{(?=.*outcome="succeeded")(?=.*source="foreign").*\} 3/,
    );
    t.match(said, [/its fee is owed/, /paid already/, /paid already/]);
    stage.net.passSeconds(720 * HOUR + 5);
    await recorded(4);
    t.match((await stage.payments(subscription)).at(-1), {
      source: 'keeper',
      amountGross: 5_000_000n,
    });
  },
);

void t.test(
  'each claim continues in due order after the previous claim, and skips no due subscription',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    await stage.sql`
    with made as (
      insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours)
      select ${plan.appId}, ${plan.id}, 'pda' || n, 'wallet' || n, 1, 1 from generate_series(0, 19) as n
      returning id, app_id, substr(subscription_pda, 4)::int as n
    )
    insert into subscription_work (subscription_id, app_id, due_at)
    select id, app_id, '2026-01-01'::timestamptz + n / 4 * interval '1 second' from made`;
    const claim = async (limit: number, after?: DuePlace) => {
      const claimed = await claimDue(stage.sql, {
        claimId: randomUUID(),
        chainNow: new Date('2026-01-02'),
        limit,
        leaseSeconds: 60,
        after,
      });
      return claimed.sort(
        (a, b) => a.dueAt.getTime() - b.dueAt.getTime() || (a.id < b.id ? -1 : 1),
      );
    };
    const first = await claim(6);
    const second = await claim(6, first.at(-1));
    t.ok(second[0]!.dueAt >= first.at(-1)!.dueAt);
    t.equal(new Set([...first, ...second].map(({ id }) => id)).size, 12);
    await stage.sql`update subscription_work set lease_until = null, claim_id = null where subscription_id = ${first[0]!.id}`;
    t.equal((await claim(20, second.at(-1))).length, 8, 'what has come back before it is passed');
    t.same(
      (await claim(20)).map(({ id }) => id),
      [first[0]!.id],
      'and found by whoever begins anew',
    );
  },
);
