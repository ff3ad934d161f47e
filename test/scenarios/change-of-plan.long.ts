// Change of plan on the local chain, by the API: up, back, down, in a trial, past due, with a
// discount. Every amount that was shown is what is paid, and the books add up.
import t from 'tap';
import { unixSeconds } from '../../src/chain/time.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import { type ApiStage, type Buyer, startApiStage } from '../fixtures/api-stage.ts';
import type { Plan, Subscription } from '../fixtures/billing.ts';

const HOURS = 720;
const DAY = 24;
const LENGTH = BigInt(HOURS) * 3600n;
// Not whole cents, so that each second shows.
const [SMALL, LARGE] = [10_000_001n, 25_000_001n];

interface Shown {
  transaction: string;
  offerId: string;
  subscriptionPda: string;
  asOf: string;
  endsAt: string;
  startsAt: string | null;
  credit: string;
  today: string;
  next: { amount: string; dueAt: string } | null;
  after: { amount: string; dueAt: string } | null;
}
type When = 'now' | 'period_end';

/** Two plans of one app. */
async function twoPlans(stage: ApiStage): Promise<{ small: Plan; large: Plan }> {
  const small = await stage.plan({ amount: SMALL, periodHours: HOURS });
  const { merchant, appId } = small;
  const other = await stage.plan({ amount: LARGE, periodHours: HOURS, merchant });
  await stage.sql`update plans set app_id = ${appId} where id = ${other.id}`;
  return { small, large: { ...other, appId } };
}

/** Changes the plan through the relay. Returns the shown amounts and the new subscription. */
async function change(
  stage: ApiStage,
  buyer: Buyer,
  old: Subscription,
  { to, when }: { to: Plan; when: When },
): Promise<{ shown: Shown; fresh: Subscription & { at: bigint } }> {
  const asked = await buyer.post<Shown>(`subscriptions/${old.id}/change`, { planId: to.id, when });
  if (asked.status !== 200) throw new Error(JSON.stringify(asked.body));
  const shown = asked.body.data;
  const transaction = addSignature(buyer.keypair, shown.transaction);
  const sent = await buyer.post<{ status: string; subscription: { id: string } | null }>(
    'transactions',
    { transaction, offerId: shown.offerId },
  );
  const { status, subscription } = sent.body.data;
  if (status !== 'confirmed' || subscription === null) throw new Error(JSON.stringify(sent.body));
  const { id } = subscription;
  const [row] = await stage.sql<{ at: Date }[]>`
    select coalesce(billed_from, chain_period_start) as at from subscriptions where id = ${id}`;
  const fresh = { id, pda: shown.subscriptionPda, wallet: buyer.keypair, plan: to };
  return { shown, fresh: { ...fresh, at: unixSeconds(row!.at) } };
}

/** The unused part of `paid` at `at`, of the period that begins at `start`. */
const unused = (paid: bigint, start: bigint, at: bigint) => (paid * (start + LENGTH - at)) / LENGTH;

async function paidFor(stage: ApiStage, subscription: Subscription): Promise<bigint[][]> {
  await stage.quiet();
  const payments = await stage.payments(subscription);
  return payments
    .filter(({ status }) => status === 'succeeded')
    .map(({ amountGross, creditSpent }) => [amountGross, creditSpent]);
}

/** For each wallet: its credit is spent or left, and no period was pulled twice. */
async function checkBooks(stage: ApiStage): Promise<void> {
  const faults = await listCreditFaults(stage.sql);
  if (faults.length > 0) throw new Error(`credits do not add up: ${faults[0]!.detail}`);
  const twice = await stage.sql`
    select 1 from payments where status = 'succeeded' and source <> 'credit'
    group by subscription_pda, period_start having count(*) > 1`;
  if (twice.length > 0) throw new Error('an on-chain period was pulled twice');
}

void t.test(
  'an upgrade, a change back and a downgrade in one period cost the amounts shown, and books add up',
  async (t) => {
    const stage = await startApiStage(t);
    const { small, large } = await twoPlans(stage);
    await stage.startKeeper();
    const buyer = await stage.buyer(small, { usdc: 1_000_000_000n });
    const first = await buyer.buy();
    await stage.quiet();
    const start = (await stage.onChain(first))!.periodStart;
    stage.passHours(10 * DAY);

    const [preview] = await Promise.all([
      buyer.get<Shown>(`subscriptions/${first.id}/change?planId=${large.id}&when=now`),
    ]);
    t.equal(preview.status, 200);
    const up = await change(stage, buyer, first, { to: large, when: 'now' });
    const credit = unused(SMALL, start, up.fresh.at);
    t.equal(
      BigInt(up.shown.credit),
      unused(SMALL, start, BigInt(Date.parse(up.shown.asOf) / 1000)),
    );
    t.ok(BigInt(up.shown.credit) - credit < 200n, 'as shown, less the seconds to landing');
    t.equal(BigInt(up.shown.today), LARGE - BigInt(up.shown.credit));
    t.equal(up.shown.next?.amount, String(LARGE));
    t.same(await paidFor(stage, up.fresh), [[LARGE - credit, credit]]);
    const old = await stage.row(first);
    t.equal(old.status, 'active', 'until its on-chain period is over');
    const events = await stage.events(up.fresh);
    t.match(events[0], {
      type: 'subscription_created',
      data: { replaces: first.id, credit: String(credit), startsAt: null },
    });
    t.match((await stage.events(first)).at(-1), {
      type: 'cancel_requested',
      data: { cancelRequestedBy: 'subscriber' },
    });
    const read = await buyer.get(`subscriptions/${first.id}`);
    const replacedAt = new Date(Number(up.fresh.at) * 1000).toISOString();
    t.match(read.body.data, { replacedBy: up.fresh.id, replacedAt });
    t.equal(
      read.body.data.accessUntil,
      new Date(Date.parse(replacedAt) + 72 * 3_600_000).toISOString(),
      'the old one gives access until then and for the grace',
    );
    t.equal((await buyer.post(`subscriptions/${first.id}/resume`)).status, 409, 'not regained');
    t.equal(
      (await buyer.post(`subscriptions/${first.id}/change`, { planId: large.id, when: 'now' }))
        .status,
      409,
      'changed once',
    );
    const seller = await stage.seller(small);
    const [paid] = await stage.sql<{ id: string }[]>`
    select id from payments where subscription_id = ${first.id}`;
    const refund = (amount: bigint) =>
      stage.api.call('POST', `/merchant/apps/${small.appId}/transactions/${paid!.id}/refunds`, {
        token: seller.token,
        body: { amount: String(amount) },
      });
    const fee = SMALL / 100n;
    t.equal((await refund(SMALL - fee - credit + 1n)).status, 400, 'the credit is not refunded');

    // A change back at once: the whole value of the large plan becomes credit, which pays the rest
    // of the small plan.
    const back = await change(stage, buyer, up.fresh, { to: small, when: 'now' });
    t.equal(back.fresh.pda, first.pda, 'the account is resumed');
    const whole = unused(LARGE, up.fresh.at, back.fresh.at);
    const rest = unused(SMALL, start, back.fresh.at);
    t.same(await paidFor(stage, back.fresh), [[0n, rest]], 'nothing is pulled again');
    t.match((await stage.events(first)).at(-1), {
      type: 'cancel_finalized',
      data: { endReason: 'replaced', replacedBy: up.fresh.id, accountClosed: false },
    });
    t.match(
      (await stage.events(back.fresh)).map(({ type }) => type),
      ['subscription_created', 'payment_success'],
    );
    await checkBooks(stage);
    stage.passHours(20 * DAY);
    t.same((await paidFor(stage, back.fresh)).at(-1), [0n, SMALL], 'a period by credit');
    t.equal((await stage.row(up.fresh)).status, 'active', 'its on-chain period runs on');
    stage.passHours(30 * DAY);
    const left = whole - rest - SMALL;
    t.same((await paidFor(stage, back.fresh)).at(-1), [SMALL - left, left], 'what is left of it');
    t.match(await stage.row(up.fresh), { status: 'cancelled', endReason: 'replaced' });
    await checkBooks(stage);

    // A change from the large plan, at the end of the paid time.
    const again = await change(stage, buyer, back.fresh, { to: large, when: 'now' });
    await stage.quiet();
    const paidThrough = (await stage.row(again.fresh)).paidThrough!;
    stage.passHours(5 * DAY);
    const down = await change(stage, buyer, again.fresh, { to: small, when: 'period_end' });
    t.equal(down.shown.startsAt, paidThrough.toISOString());
    t.match(down.shown, { today: '0', credit: '0', endsAt: paidThrough.toISOString() });
    t.same(await paidFor(stage, down.fresh), [], 'nothing before that');
    stage.passHours(25 * DAY + 1);
    const found = await paidFor(stage, down.fresh);
    t.same(found, [[BigInt(down.shown.next!.amount), 0n]], 'as shown');
    await checkBooks(stage);
    await stage.sql`update credit_balances set balance = balance + 1`;
    const [fault] = await listCreditFaults(stage.sql);
    t.match(fault, { detail: /the balance is \d+, the movements make \d+/ }, 'reconcile names it');
    await stage.sql`update credit_balances set balance = balance - 1`;
  },
);

void t.test(
  'changes in a trial, while past due, and by an abandoned discount session are charged as shown',
  async (t) => {
    const stage = await startApiStage(t);
    const { small, large } = await twoPlans(stage);
    await stage.startKeeper();

    await t.test(
      'a change while past due credits nothing, and the debt is never charged',
      async (t) => {
        const buyer = await stage.buyer(small, { usdc: 1n });
        const first = await buyer.buy();
        await stage.until('past due', async () => (await stage.row(first)).status === 'past_due');
        const { shown, fresh } = await change(stage, buyer, first, {
          to: large,
          when: 'period_end',
        });
        t.match(shown, { credit: '0', today: String(LARGE), startsAt: null });
        await stage.until('the new one is past due', async () => {
          return (await stage.row(fresh)).status === 'past_due';
        });
        stage.net.fund(buyer.wallet, { usdc: 1_000_000_000n });
        stage.passHours(2);
        t.same(await paidFor(stage, fresh), [[LARGE, 0n]]);
        t.match(await stage.row(first), { status: 'cancelled', endReason: 'replaced' });
        t.same(await paidFor(stage, first), []);
      },
    );

    await t.test(
      'a keeper registers a change from an abandoned session with its discount and its ids',
      async (t) => {
        const buyer = await stage.buyer(small, { usdc: 1_000_000_000n });
        const first = await buyer.buy();
        await stage.quiet();
        await stage.sql`update subscriptions set external_id = 'alice' where id = ${first.id}`;
        const start = (await stage.onChain(first))!.periodStart;
        stage.passHours(15 * DAY);
        const { token } = await stage.seller(small);
        const made = await stage.api.call<{ id: string; subscriberWallet: string }>(
          'POST',
          `/merchant/apps/${small.appId}/checkout-sessions`,
          {
            token,
            body: {
              planId: large.id,
              replaces: first.id,
              discount: { percentOff: 50, periods: 1 },
            },
          },
        );
        t.equal(made.status, 201, JSON.stringify(made.body));
        t.match(made.body.data, {
          replaces: first.id,
          changeWhen: 'now',
          subscriberWallet: buyer.wallet,
        });
        const checkoutSessionId = made.body.data.id;
        const asked = await buyer.post<{
          transaction: string;
          change: Shown;
          subscriptionPda: string;
        }>(`plans/${large.id}/subscribe`, { checkoutSessionId });
        t.equal(asked.status, 200, JSON.stringify(asked.body));
        t.ok(BigInt(asked.body.data.change.today) < LARGE / 2n);
        await stage.land(buyer.keypair, asked.body.data.transaction);
        const { subscriptionPda: pda } = asked.body.data;
        const found = () => stage.sql<{ id: string; externalId: string; at: Date }[]>`
      select id, external_id, chain_period_start as at from subscriptions
      where subscription_pda = ${pda}`;
        await stage.until('the keeper registers it', async () => (await found()).length === 1);
        const [row] = await found();
        t.equal(row!.externalId, 'alice');
        const fresh = { id: row!.id, pda, wallet: buyer.keypair, plan: large };
        const credit = unused(SMALL, start, unixSeconds(row!.at));
        t.same(await paidFor(stage, fresh), [[LARGE / 2n - credit, credit]]);
        stage.passHours(30 * DAY);
        t.same((await paidFor(stage, fresh)).at(-1), [LARGE, 0n], 'the discount is over');
        t.match(await stage.row(first), { status: 'cancelled', endReason: 'replaced' });
      },
    );

    await t.test(
      'a change in a trial starts at the end of the trial, without a second trial',
      async (t) => {
        await stage.sql`update plans set trial_hours = 168`;
        const buyer = await stage.buyer(small, { usdc: 1_000_000_000n });
        const first = await buyer.buy();
        await stage.quiet();
        const [{ trialEndsAt } = { trialEndsAt: null }] = await stage.sql<{ trialEndsAt: Date }[]>`
      select trial_ends_at from subscriptions where id = ${first.id}`;
        stage.passHours(2 * DAY);
        const { shown, fresh } = await change(stage, buyer, first, {
          to: large,
          when: 'period_end',
        });
        t.equal(shown.startsAt, trialEndsAt!.toISOString());
        const [row] = await stage.sql<{ trialEndsAt: Date | null; startsAt: Date }[]>`
      select trial_ends_at, starts_at from subscriptions where id = ${fresh.id}`;
        t.same(row, { trialEndsAt: null, startsAt: trialEndsAt });
        t.same(await paidFor(stage, fresh), []);
        stage.passHours(5 * DAY + 1);
        // The change landed after the shown amount was computed, perhaps in a later second.
        const due = unused(LARGE, fresh.at, unixSeconds(trialEndsAt!));
        t.same(await paidFor(stage, fresh), [[due, 0n]]);
        t.ok(due >= BigInt(shown.next!.amount));
        t.match(await stage.row(first), { status: 'cancelled', endReason: 'replaced' });
        const now = await change(stage, buyer, fresh, { to: small, when: 'now' });
        t.ok(BigInt(now.shown.credit) > 0n);
        await stage.quiet();
      },
    );
    await checkBooks(stage);
  },
);
