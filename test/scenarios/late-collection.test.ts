// The service is late: a payment is due, and no keeper tries it. The subscriber keeps access for 72
// hours, and pays only for the time from the first try on if that try comes later.
import t from 'tap';
import { unixSeconds } from '../../src/chain/time.ts';
import { type ApiStage, type Buyer, startApiStage } from '../fixtures/api-stage.ts';
import type { Plan, Subscription } from '../fixtures/billing.ts';
import { down } from '../fixtures/cents.ts';

const DAY = 24;

interface Access {
  hasAccess: boolean;
  reason: string;
  accessUntil: string | null;
  checkedAt: string;
  revalidateAfter: string;
}

/** Access of the buyer, as the merchant's server asks for it. */
async function accessOf(stage: ApiStage, { plan, wallet }: Buyer): Promise<Access> {
  const { token } = await stage.seller(plan);
  const path = `/merchant/apps/${plan.appId}/access?wallet=${wallet}`;
  return (await stage.api.call<Access>('GET', path, { token })).body.data;
}

/** Hours from the check to the end of access, rounded. */
const hoursLeft = ({ accessUntil, checkedAt }: Access) =>
  Math.round((Date.parse(accessUntil ?? '') - Date.parse(checkedAt)) / 3_600_000);

const terms = async (stage: ApiStage, { id }: Subscription) => {
  const [row] = await stage.sql<{ billedFrom: Date | null; trialEndsAt: Date | null }[]>`
    select billed_from, trial_ends_at from subscriptions where id = ${id}`;
  return row!;
};

const covers = async (stage: ApiStage, { id }: Subscription) =>
  (
    await stage.sql<{ coversFrom: Date | null }[]>`
      select nullif(i.covers_from, p.period_start) as covers_from
      from payments p left join invoices i on i.id = p.invoice_id
      where p.subscription_id = ${id} order by p.occurred_at, p.id`
  ).map(({ coversFrom }) => coversFrom);

/** The price of the account's running period from `from` on (Unix seconds). */
async function rest(stage: ApiStage, subscription: Subscription, from: bigint): Promise<bigint> {
  const { amount, periodHours } = subscription.plan.terms;
  const { periodStart } = (await stage.onChain(subscription))!;
  const length = periodHours * 3600n;
  return down(amount, (amount * (periodStart + length - from)) / length);
}

const withTrial = async (stage: ApiStage, hours: number): Promise<Plan> => {
  const plan = await stage.plan({ amount: 10_000_000n, periodHours: 720 });
  await stage.sql`update plans set trial_hours = ${hours} where id = ${plan.id}`;
  return plan;
};

void t.test(
  'if no keeper runs for 13 days after a trial, access lasts three days and the first try sets the start',
  async (t) => {
    const stage = await startApiStage(t, { hoursAgo: 20 * DAY + 1 });
    const plan = await withTrial(stage, 7 * DAY);
    const [buyer, poor] = [await stage.buyer(plan), await stage.buyer(plan, { usdc: 1n })];
    const subscription = await buyer.buy();
    const other = await poor.buy();
    stage.passHours(20 * DAY);
    t.match(await accessOf(stage, buyer), { hasAccess: false, reason: 'payment_overdue' });
    await stage.startKeeper();
    await stage.quiet();
    const [payment, ...more] = await stage.payments(subscription);
    const { billedFrom, trialEndsAt } = await terms(stage, subscription);
    const from = unixSeconds(billedFrom!);
    t.same(more, []);
    t.ok(from - unixSeconds(trialEndsAt!) >= 13n * 86_400n - 3600n, 'from the first try on');
    t.equal(payment?.amountGross, await rest(stage, subscription, from));
    t.same(await covers(stage, subscription), [billedFrom]);
    t.match(await accessOf(stage, buyer), { hasAccess: true, reason: 'paid' });
    const { paidThrough } = await stage.row(subscription);
    const { periodStart } = (await stage.onChain(subscription))!;
    t.equal(unixSeconds(paidThrough!), periodStart + 720n * 3600n, 'the period ends as it did');

    const failed = await stage.payments(other);
    const tried = unixSeconds((await terms(stage, other)).billedFrom!);
    const amount = await rest(stage, other, tried);
    t.match(failed, [{ status: 'failed', amountGross: amount }]);
    t.match(await accessOf(stage, poor), { hasAccess: false, reason: 'payment_overdue' });
    const { nextAmount } = (await poor.get(`subscriptions/${other.id}`)).body.data;
    t.equal(nextAmount, String(amount), 'the page shows the amount of the retry');
    stage.net.fund(poor.wallet, { usdc: 10_000_000n });
    stage.passHours(2);
    await stage.until('the retry has paid', async () => (await stage.payments(other)).length > 1);
    t.match((await stage.payments(other))[1], { status: 'succeeded', amountGross: amount });

    stage.passHours(10 * DAY);
    await stage.quiet();
    t.equal((await stage.payments(subscription))[1]?.amountGross, 10_000_000n, 'then in full');
  },
);

void t.test(
  "if no keeper runs for two days after a trial, access continues and the trial's end sets the start",
  async (t) => {
    const stage = await startApiStage(t, { hoursAgo: 9 * DAY + 1 });
    const plan = await withTrial(stage, 7 * DAY);
    const buyer = await stage.buyer(plan);
    const subscription = await buyer.buy();
    stage.passHours(9 * DAY);
    const access = await accessOf(stage, buyer);
    t.match(access, { hasAccess: true, reason: 'collection_late' });
    t.equal(hoursLeft(access), 23);
    await stage.startKeeper();
    await stage.quiet();
    const { billedFrom, trialEndsAt } = await terms(stage, subscription);
    t.equal(billedFrom, null);
    const amount = await rest(stage, subscription, unixSeconds(trialEndsAt!));
    t.match(await stage.payments(subscription), [{ amountGross: amount }]);
  },
);

void t.test(
  'after three hours without a keeper, access continues and renewals are charged in full; a failure ends access',
  async (t) => {
    const stage = await startApiStage(t, { hoursAgo: 28 });
    const plan = await stage.plan({ periodHours: 24 });
    const keeper = await stage.startKeeper();
    const [buyer, poor] = [await stage.buyer(plan), await stage.buyer(plan, { usdc: 5_000_000n })];
    const subscriptions = [await buyer.buy(), await poor.buy()] as const;
    await stage.until('both are paid', async () => {
      const rows = await Promise.all(subscriptions.map((one) => stage.row(one)));
      return rows.every(({ paidThrough }) => paidThrough !== null);
    });
    await keeper.stop();
    stage.passHours(28);
    for (const one of [buyer, poor]) {
      const access = await accessOf(stage, one);
      t.match(access, { hasAccess: true, reason: 'collection_late' });
      t.equal(hoursLeft(access), 68);
      t.equal(Date.parse(access.revalidateAfter) - Date.parse(access.checkedAt), 60_000);
    }
    const shown = await buyer.get<{ accessUntil: string; paidThrough: string }>(
      `subscriptions/${subscriptions[0].id}`,
    );
    const { accessUntil, paidThrough } = shown.body.data;
    t.equal(Date.parse(accessUntil) - Date.parse(paidThrough), 2.4 * 3_600_000, 'as it was');

    await stage.startKeeper();
    await stage.quiet();
    t.equal((await stage.payments(subscriptions[0]))[1]?.amountGross, 5_000_000n);
    t.match(await accessOf(stage, buyer), { hasAccess: true, reason: 'paid' });
    t.match((await stage.payments(subscriptions[1]))[1], { status: 'failed' });
    t.match(await accessOf(stage, poor), { hasAccess: false, reason: 'payment_overdue' });
  },
);

void t.test(
  'a first payment within ten minutes is in full, later only for the time from its first try',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 7_200_000n, periodHours: 720 });
    const late = await stage.buyer(plan);
    const first = await late.buy();
    t.match(await accessOf(stage, late), { hasAccess: false, reason: 'first_payment_pending' });
    stage.passHours(30);
    const prompt = await stage.buyer(plan);
    const second = await prompt.buy();
    await stage.startKeeper();
    await stage.quiet();
    const from = unixSeconds((await terms(stage, first)).billedFrom!);
    const { periodStart } = (await stage.onChain(first))!;
    t.ok(from - periodStart >= 30n * 3600n);
    t.match(await stage.payments(first), [{ amountGross: await rest(stage, first, from) }]);
    t.equal((await terms(stage, second)).billedFrom, null);
    t.match(await stage.payments(second), [{ amountGross: 7_200_000n }]);
  },
);

void t.test(
  'an attempt that expires because of the service is followed by an attempt of the same amount',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 7_200_000n, periodHours: 720 });
    const { collect, taken } = stage.parts();
    /** Commits an attempt, which is never sent and expires. */
    const tryInVain = async () => {
      await collect();
      await stage.sql`update payment_attempts set state = 'expired', resolved_at = now()`;
      await stage.sql`update subscription_work set claim_id = null, lease_until = null`;
    };
    const inTime = await stage.subscriber(plan);
    await tryInVain();
    stage.passHours(30);
    const late = await stage.subscriber(plan);
    stage.passHours(20);
    await tryInVain();
    const amounts = taken.map(({ row: { id }, attempt }) => [id, attempt.amountGross] as const);
    const from = unixSeconds((await terms(stage, late)).billedFrom!);
    const lateAmount = await rest(stage, late, from);
    const { periodStart } = (await stage.onChain(late))!;
    t.ok(from - periodStart >= 20n * 3600n);
    t.same(
      new Map(amounts),
      new Map([
        [inTime.id, 7_200_000n],
        [late.id, lateAmount],
      ]),
    );
    stage.passHours(20);
    await stage.startKeeper();
    await stage.quiet();
    t.match(await stage.payments(inTime), [{ status: 'succeeded', amountGross: 7_200_000n }]);
    t.match(await stage.payments(late), [{ status: 'succeeded', amountGross: lateAmount }]);
    t.equal((await terms(stage, inTime)).billedFrom, null);
    t.equal(unixSeconds((await terms(stage, late)).billedFrom!), from);
  },
);
