// Less than the plan's amount, on a real chain with a real keeper: trials, discounts and pauses.
import t from 'tap';
import { cancelSubscription } from '../../src/chain/program/instructions.ts';
import { updateDiscount } from '../../src/db/subscriptions/merchant-edits.ts';
import { readCollectable } from '../../src/db/subscriptions/work.ts';
import { pause, unpause } from '../../src/domain/change/pausing.ts';
import { HOUR, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';
import { down } from '../fixtures/cents.ts';

const DAY = 24 * HOUR;
const succeeded = async (stage: Stage, subscription: Subscription) =>
  (await stage.payments(subscription)).filter(({ status }) => status === 'succeeded');

/** As the API registers it: the trial ends `hours` after the start of its period. */
async function inTrial(stage: Stage, subscription: Subscription, hours: number): Promise<Date> {
  const { periodStart } = (await stage.onChain(subscription))!;
  const ends = new Date((Number(periodStart) + hours * HOUR) * 1000);
  await stage.sql`
    update subscriptions set trial_ends_at = ${ends}, next_payment_due = ${ends} where id = ${subscription.id}`;
  return ends;
}

void t.test(
  'a trial of a week in a month is free, then the rest of the month is paid, then each whole month',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    const ends = await inTrial(stage, subscription, 168);
    await stage.startKeeper();
    await stage.until(
      'the keeper has looked at it, and will announce the first payment',
      async () =>
        (await stage.row(subscription)).dueAt?.getTime() === ends.getTime() - 3 * DAY * 1000,
    );
    stage.net.passSeconds(ends.getTime() / 1000 - stage.now() - 60);
    await stage.quiet();
    t.equal((await stage.payments(subscription)).length, 0, 'not sooner');
    stage.net.passSeconds(62);
    await stage.until('the first payment lands', async () => {
      return (await succeeded(stage, subscription)).length === 1;
    });
    // 552 of 720 hours, in whole cents.
    const first = 3_830_000n;
    const [payment] = await succeeded(stage, subscription);
    t.equal(payment!.amountGross, first);
    t.equal(payment!.platformFee, first / 100n);
    t.equal((await stage.onChain(subscription))!.amountPulled, first);
    t.equal((await stage.row(subscription)).paidThrough?.getTime(), payment!.periodEnd.getTime());
    stage.net.passSeconds(payment!.periodEnd.getTime() / 1000 - stage.now() + 2);
    await stage.until('the second payment lands', async () => {
      return (await succeeded(stage, subscription)).length === 2;
    });
    t.equal((await succeeded(stage, subscription))[1]!.amountGross, 5_000_000n);
  },
);

void t.test(
  'a subscription that is cancelled on chain during its trial ends with the trial, without a payment',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    const ends = await inTrial(stage, subscription, 168);
    await stage.startKeeper();
    const { wallet, pda, plan } = subscription;
    const parties = { subscriber: wallet.address, plan: plan.pda, subscription: pda };
    await stage.send([wallet], [cancelSubscription(stage.net.programId, parties)]);
    await stage.until(
      'the cancellation is seen',
      async () => (await stage.row(subscription)).cancelRequestedAt !== null,
    );
    t.match(await stage.row(subscription), { status: 'active', dueAt: ends });
    stage.net.passSeconds(168 * HOUR + 2);
    await stage.until(
      'it is cancelled',
      async () => (await stage.row(subscription)).status === 'cancelled',
    );
    t.equal((await stage.payments(subscription)).length, 0);
  },
);

void t.test(
  'a wallet that is empty at the end of its trial is past due from then on',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan(), { usdc: 0n });
    const ends = await inTrial(stage, subscription, 48);
    await stage.startKeeper();
    await stage.quiet();
    t.equal((await stage.row(subscription)).status, 'active');
    stage.net.passSeconds(2 * DAY + 2);
    await stage.until(
      'it is past due',
      async () => (await stage.row(subscription)).status === 'past_due',
    );
    t.ok((await stage.row(subscription)).pastDueSince! >= ends);
  },
);

void t.test(
  'a discount for two payments reduces both, rounded down, with the fee of what is collected',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ amount: 4_999_999n, periodHours: 24 });
    const subscription = await stage.subscriber(plan);
    await stage.sql`
      update subscriptions set discount_percent = 33, discount_periods = 2,
        discount_id = uuid_v7() where id = ${subscription.id}`;
    await stage.startKeeper();
    const gross = (4_999_999n * 67n) / 100n;
    for (const [count, amount] of [gross, gross, 4_999_999n].entries()) {
      await stage.until(
        `payment ${count + 1} lands`,
        async () => (await succeeded(stage, subscription)).length === count + 1,
      );
      const payment = (await succeeded(stage, subscription))[count]!;
      t.equal(payment.amountGross, amount);
      t.equal(payment.platformFee, amount / 100n);
      t.equal(payment.amountNet, amount - amount / 100n);
      await stage.quiet();
      stage.net.passSeconds(payment.periodEnd.getTime() / 1000 - stage.now() + 2);
    }
    const events = await stage.events(subscription);
    t.equal(events.find(({ type }) => type === 'payment_success')!.data.amountGross, String(gross));
  },
);

void t.test('a discount makes a payment possible that the wallet could not afford', async (t) => {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan(), { usdc: 2_600_000n });
  await stage.startKeeper();
  await stage.until(
    'it is past due',
    async () => (await stage.row(subscription)).status === 'past_due',
  );
  await stage.quiet();
  await stage.sql.begin((tx) =>
    updateDiscount(tx, subscription.id, {
      discountPercent: 50,
      discountAmount: null,
      discountPeriods: null,
    }),
  );
  await stage.until('the payment lands', async () => {
    return (await succeeded(stage, subscription)).length === 1;
  });
  t.equal((await succeeded(stage, subscription))[0]!.amountGross, 2_500_000n);
});

const pauseIt = async (stage: Stage, { id }: Subscription) => {
  const found = { id, status: 'active', cancelRequestedAt: null };
  await stage.sql.begin((tx) => pause(tx, found));
  return found;
};

void t.test(
  'a pause of two periods is never charged, and the rest of the running period is charged at its end',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan({ periodHours: 24 }));
    await stage.startKeeper();
    await stage.until('the first payment lands', async () => {
      return (await succeeded(stage, subscription)).length === 1;
    });
    await stage.quiet();
    const found = await pauseIt(stage, subscription);
    await stage.quiet();
    const [first] = await succeeded(stage, subscription);
    const end = first!.periodEnd.getTime() / 1000;
    stage.net.passSeconds(end + 2.25 * DAY - stage.now());
    await stage.quiet();
    t.equal((await succeeded(stage, subscription)).length, 1, 'nothing while it is paused');
    t.match(await stage.row(subscription), { status: 'active', nextPaymentDue: null });
    const now = BigInt(stage.now());
    await stage.sql.begin((tx) => unpause(tx, found, now));
    await stage.until('the payment lands', async () => {
      return (await succeeded(stage, subscription)).length === 2;
    });
    const [, second] = await succeeded(stage, subscription);
    const rest = BigInt(second!.periodEnd.getTime() / 1000) - now;
    t.equal(second!.periodStart.getTime() / 1000, end + 2 * DAY, 'of the period that runs');
    t.equal(second!.amountGross, down(5_000_000n, (5_000_000n * rest) / BigInt(DAY)));
    t.same(
      (await stage.events(subscription)).map(({ type }) => type),
      [
        'subscription_created',
        'payment_success',
        'subscription_paused',
        'subscription_unpaused',
        'payment_success',
      ],
    );
  },
);

void t.test('a payment that was signed and not sent before a pause is not sent', async (t) => {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan());
  const parts = stage.parts();
  await parts.collect();
  t.equal(parts.taken.length, 1, 'it is signed');
  await pauseIt(stage, subscription);
  t.same(
    await readCollectable(
      stage.sql,
      parts.taken.map(({ id, claimId, notices }) => ({ id, claimId, notices })),
    ),
    [],
  );
  t.equal((await stage.onChain(subscription))!.amountPulled, 0n);
});

void t.test('a subscription that is cancelled on chain while it is paused ends', async (t) => {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan());
  await pauseIt(stage, subscription);
  await stage.startKeeper();
  await stage.quiet();
  const { wallet, pda, plan } = subscription;
  const parties = { subscriber: wallet.address, plan: plan.pda, subscription: pda };
  await stage.send([wallet], [cancelSubscription(stage.net.programId, parties)]);
  await stage.until(
    'it is cancelled',
    async () => (await stage.row(subscription)).status === 'cancelled',
  );
  t.equal((await stage.payments(subscription)).length, 0);
});
