// The life of an invoice: drawn up with the first try, collected as it stands, and closed.
import t, { type Test } from 'tap';
import { transferSubscription } from '../../src/chain/program/instructions.ts';
import { pauseSubscription, updateDiscount } from '../../src/db/subscriptions/merchant-edits.ts';
import { forceCancel } from '../../src/domain/change/cancel.ts';
import { HOUR, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';

const AMOUNT = 5_000_000n;
const PERIOD = 720 * HOUR;
const halved = { discountPercent: 50, discountAmount: null, discountPeriods: null };

interface Row {
  state: string;
  voidReason: string | null;
  failedTries: number;
  total: bigint;
  amountDue: bigint;
  lines: { kind: string; amount: string }[];
  periodStart: Date;
  coversFrom: Date;
  troubledAt: Date | null;
  /** Payments that name it. */
  payments: string[];
}

const invoicesOf = ({ sql }: Stage, { id }: Subscription) =>
  sql<Row[]>`
    select i.state, i.void_reason, i.failed_tries, i.total, i.amount_due, i.lines, i.period_start,
      i.covers_from, i.troubled_at, array(
        select status from payments p where p.invoice_id = i.id order by occurred_at, id
      ) as payments
    from invoices i where i.subscription_id = ${id} order by i.drawn_up_at, i.id`;

/** A subscription with a paid period whose renewal has failed. */
async function overdue(t: Test) {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan(), { usdc: AMOUNT });
  const keeper = await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  stage.net.passSeconds(PERIOD);
  const isOverdue = async () => (await stage.row(subscription)).status === 'past_due';
  await stage.until('its renewal fails', isOverdue);
  return { stage, subscription, keeper };
}

const PAID = { state: 'paid', failedTries: 0, troubledAt: null, payments: ['succeeded'] };

void t.test('a renewal that fails is drawn up once, and a retry pays what stands', async (t) => {
  const { stage, subscription } = await overdue(t);
  const [first, failed] = await invoicesOf(stage, subscription);
  t.match(first, { ...PAID, total: AMOUNT, lines: [{ kind: 'plan', amount: `${AMOUNT}` }] });
  t.match(failed, { state: 'open', failedTries: 1, payments: ['failed'] });
  t.ok(failed!.troubledAt);
  stage.net.fund(subscription.wallet.address, { usdc: AMOUNT });
  await stage.until('it is paid', async () => (await stage.row(subscription)).status === 'active');
  t.match(await invoicesOf(stage, subscription), [
    PAID,
    { state: 'paid', failedTries: 1, payments: ['failed', 'succeeded'] },
  ]);
});

void t.test('a discount replaces the invoice of an overdue period', async (t) => {
  const { stage, subscription } = await overdue(t);
  await stage.sql.begin((tx) => updateDiscount(tx, subscription.id, halved));
  stage.net.fund(subscription.wallet.address, { usdc: AMOUNT / 2n });
  await stage.until('it is paid', async () => (await stage.row(subscription)).status === 'active');
  const invoices = await invoicesOf(stage, subscription);
  t.match(invoices, [
    PAID,
    { state: 'void', voidReason: 'replaced', payments: ['failed'] },
    { state: 'paid', total: AMOUNT / 2n, payments: ['succeeded'] },
  ]);
  t.same(invoices[2]!.coversFrom, invoices[1]!.coversFrom);
  t.same(invoices[2]!.lines, [
    { kind: 'plan', amount: `${AMOUNT}` },
    { kind: 'discount', amount: `${-AMOUNT / 2n}` },
  ]);
});

void t.test('a pause and an end close the open invoice in the same transaction', async (t) => {
  for (const close of [
    (stage: Stage, { id }: Subscription) => stage.sql.begin((tx) => pauseSubscription(tx, id)),
    (stage: Stage, { id }: Subscription) =>
      stage.sql.begin((tx) => forceCancel(tx, { id, status: 'past_due' })),
  ]) {
    const { stage, subscription, keeper } = await overdue(t);
    await keeper.stop();
    await close(stage, subscription);
    t.match(await invoicesOf(stage, subscription), [PAID, { state: 'void', voidReason: 'ended' }]);
  }
});

void t.test('what no retry paid is uncollectible when the dunning is over', async (t) => {
  const { stage, subscription } = await overdue(t);
  await stage.until('it has expired', async () => {
    stage.net.passSeconds(24 * HOUR);
    return (await stage.row(subscription)).status === 'expired';
  });
  const [, last] = await invoicesOf(stage, subscription);
  const tries = (await stage.payments(subscription)).filter(({ status }) => status === 'failed');
  t.match(last, { state: 'uncollectible', failedTries: tries.length });
});

void t.test('an unpaid period is given up when the next one is collected', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan({ periodHours: 24 });
  const subscription = await stage.subscriber(plan, { usdc: AMOUNT });
  const keeper = await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  stage.net.passSeconds(24 * HOUR);
  const isOverdue = async () => (await stage.row(subscription)).status === 'past_due';
  await stage.until('its renewal fails', isOverdue);
  await keeper.stop();
  stage.net.fund(subscription.wallet.address, { usdc: AMOUNT });
  stage.net.passSeconds(24 * HOUR);
  const { collector, taken, track, context } = stage.parts();
  await collector.turn();
  stage.net.passSeconds(5);
  const flight = track();
  t.teardown(() => flight.stop(0));
  flight.add(taken);
  await stage.until('it is paid', async () => (await stage.row(subscription)).status === 'active');
  t.match(await invoicesOf(stage, subscription), [PAID, { state: 'uncollectible' }, PAID]);
  const { values } = await context.metrics.alerts.get();
  t.same(
    values.filter(({ value }) => value > 0),
    [],
  );
});

void t.test('an attempt that expires leaves the invoice, which the next one pays', async (t) => {
  const stage = await startStage(t, { blockMs: 400 });
  const subscription = await stage.subscriber(await stage.plan());
  const { collect, taken } = stage.parts();
  await collect();
  t.equal(taken.length, 1);
  t.match(await invoicesOf(stage, subscription), [{ state: 'open', failedTries: 0 }]);
  await stage.sql`update subscription_work set lease_until = now() - interval '1 second'`;
  stage.net.mineBlocks(200);
  await stage.startKeeper();
  await stage.until('it is paid', async () => {
    stage.net.mineBlocks(10);
    return (await stage.payments(subscription)).length === 1;
  });
  t.match(await invoicesOf(stage, subscription), [PAID]);
  const attempts = await stage.sql`
    select state, invoice_id is not null as named from payment_attempts order by id`;
  t.match(attempts.at(-1), { state: 'landed', named: true });
});

void t.test('a pull by the merchant in a period that a pause ended pays the period', async (t) => {
  const { stage, subscription, keeper } = await overdue(t);
  await keeper.stop();
  await stage.sql.begin((tx) => pauseSubscription(tx, subscription.id));
  stage.net.fund(subscription.wallet.address, { usdc: AMOUNT });
  const { plan, wallet, pda } = subscription;
  const pull = transferSubscription(stage.net.programId, {
    ...{ subscriber: wallet.address, plan: plan.pda, subscription: pda, mint: stage.net.mint },
    ...{ caller: plan.merchant.address, receiver: plan.merchant.address, amount: 1_000_000n },
  });
  const signature = await stage.send([plan.merchant], [pull]);
  stage.net.mineBlocks(40);
  await stage.startKeeper();
  await stage.until('it is recorded', async () =>
    (await stage.payments(subscription)).some(({ txSignature }) => txSignature === signature),
  );
  t.match(await invoicesOf(stage, subscription), [
    PAID,
    { state: 'void', voidReason: 'ended' },
    { ...PAID, total: 1_000_000n, lines: [{ kind: 'plan' }, { kind: 'adjustment' }] },
  ]);
});
