// Renewals wait for the end of their window, in the database: restarts, a second keeper, notices
// from the chain and a jump of the clock change nothing.
import t from 'tap';
import { HOUR, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';

const WINDOW = 900;

async function startWindows(t: Parameters<typeof startStage>[0]) {
  const stage = await startStage(t);
  const { net, keeper, treasury } = stage;
  await stage.sql`
    insert into installation
      (cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds)
    values ('localnet', ${net.mint}, ${net.programId}, ${[keeper.address]},
      ${[treasury.address]}, 100, ${WINDOW})`;
  return stage;
}

const paidTimes = async (stage: Stage, subscription: Subscription) =>
  (await stage.payments(subscription)).filter(({ status }) => status === 'succeeded').length;

/** Waits until each subscription has this many payments. */
const paid = (stage: Stage, subscriptions: readonly Subscription[], count: number) =>
  stage.until(`each has ${count} payments`, async () => {
    const counts = await Promise.all(subscriptions.map((one) => paidTimes(stage, one)));
    return counts.every((times) => times === count);
  });

/** Moves the clock to this chain time (Unix seconds). */
const passTo = (stage: Stage, at: number) => stage.net.passSeconds(at - stage.now());

/** Moves the clock into the middle of a window, so that the phases below are in one window. */
function startOfWindow(stage: Stage): void {
  passTo(stage, Math.ceil(stage.now() / WINDOW + 1) * WINDOW + 10);
}

void t.test(
  'renewals due in one window are collected together at the window’s end, despite restarts and notices',
  async (t) => {
    const stage = await startWindows(t);
    const plan = await stage.plan();
    startOfWindow(stage);
    const subscriptions: Subscription[] = [];
    for (let each = 0; each < 6; each += 1) {
      subscriptions.push(await stage.subscriber(plan));
      stage.net.passSeconds(20);
    }
    const first = await stage.startKeeper();
    await paid(stage, subscriptions, 1);
    const starts = await Promise.all(subscriptions.map((one) => stage.row(one)));
    const dues = starts.map(({ paidThrough }) => paidThrough!.getTime() / 1000);
    const end = Math.ceil(dues[0]! / WINDOW) * WINDOW;
    t.ok(
      dues.every((due) => due <= end && due > end - WINDOW),
      'all fall due in one window',
    );

    // The announcement, then into the window.
    passTo(stage, dues[0]! - 48 * HOUR);
    await stage.quiet();
    passTo(stage, dues.at(-1)! + 1);
    await stage.quiet();
    await first.stop();
    // A restart and a second keeper.
    await Promise.all([stage.startKeeper(), stage.startKeeper()]);
    // Changes each wallet's token account, and reads each subscription.
    for (const { wallet } of subscriptions) stage.net.fund(wallet.address, { usdc: 77_000_000n });
    await stage.sql`
      update subscription_work set notices = notices + 1, due_at = ${new Date(stage.now() * 1000)}`;
    await stage.quiet();
    for (const one of subscriptions) {
      const { nextPaymentDue, dueAt, status } = await stage.row(one);
      t.equal(await paidTimes(stage, one), 1, 'nothing is collected before the window ends');
      t.equal(status, 'active');
      t.ok(dues.includes(nextPaymentDue!.getTime() / 1000), 'the due time stays the period start');
      t.equal(dueAt!.getTime() / 1000, end, 'the database holds the end of the window');
    }

    passTo(stage, end);
    await paid(stage, subscriptions, 2);
    const signatures = new Set<string>();
    for (const [index, one] of subscriptions.entries()) {
      const renewal = (await stage.payments(one)).at(-1)!;
      t.equal(renewal.periodStart.getTime() / 1000, dues[index], 'of the whole period');
      signatures.add(renewal.txSignature!);
    }
    t.ok(signatures.size < subscriptions.length, `in ${signatures.size} transactions`);
  },
);

void t.test('a jump of the clock over a window misses nothing and collects once', async (t) => {
  const stage = await startWindows(t);
  const subscription = await stage.subscriber(await stage.plan());
  await stage.startKeeper();
  await paid(stage, [subscription], 1);
  const due = (await stage.row(subscription)).paidThrough!.getTime() / 1000;
  passTo(stage, due + 1);
  await stage.quiet();
  t.equal(await paidTimes(stage, subscription), 1);
  // Three days later: the window is over, its period is not.
  passTo(stage, due + 72 * HOUR);
  await paid(stage, [subscription], 2);
  await stage.quiet();
  t.equal(await paidTimes(stage, subscription), 2, 'once');
  const { paidThrough } = await stage.row(subscription);
  t.equal(paidThrough!.getTime() / 1000, due + 720 * HOUR);
});

void t.test('a retry and a first payment do not wait for a window', async (t) => {
  const stage = await startWindows(t);
  const plan = await stage.plan();
  startOfWindow(stage);
  await stage.startKeeper();
  const poor = await stage.subscriber(plan, { usdc: 0n });
  await stage.until(
    'the first payment fails at once',
    async () => (await stage.row(poor)).status === 'past_due',
  );
  stage.net.fund(poor.wallet.address, { usdc: 50_000_000n });
  await paid(stage, [poor], 1);
  const late = await stage.subscriber(plan);
  await paid(stage, [late], 1);
});
