// Offers and checkouts that are over: what landed by them counts, what was only asked for does not.
import t, { type Test } from 'tap';
import { resumeInstructions } from '../../src/chain/transactions/subscriptions.ts';
import { reconcile } from '../../src/cli/operate/reconcile/compare.ts';
import { deleteOldOffers } from '../../src/db/offers/offers.ts';
import { type ApiStage, startApiStage } from '../fixtures/api-stage.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import {
  merchantOf,
  type Offer,
  offerOf,
  paid,
  post,
  registered,
  rowsOf,
} from '../fixtures/shown-terms.ts';

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function passDay(stage: ApiStage): Promise<void> {
  await stage.sql`
    update offers set created_at = created_at - interval '25 hours',
      look_at = look_at - interval '25 hours'`;
  await stage.sql`
    update checkout_sessions set created_at = created_at - interval '25 hours',
      expires_at = expires_at - interval '25 hours'`;
  await deleteOldOffers(stage.sql);
  await stage.sql`update subscriptions set created_at = created_at - interval '60 hours'`;
  stage.passHours(25);
  stage.net.mineBlocks(200);
}

async function scene(t: Test) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 120_000_000n, periodHours: 8760 });
  await stage.sql`update plans set trial_hours = 168 where id = ${plan.id}`;
  const merchant = await merchantOf(stage, plan);
  let keeper = await stage.startKeeper();
  const buyer = await stage.buyer(plan);
  const first = await buyer.buy();
  await stage.quiet();
  await buyer.cancel(first);
  await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
  stage.passHours(169);
  await stage.until('ended', async () => (await stage.row(first)).status === 'cancelled');
  await stage.quiet();
  const days = async (n: number) => {
    await keeper.stop();
    await stage.sql`update offers set created_at = created_at - ${n} * interval '25 hours', look_at = look_at - ${n} * interval '25 hours' where look_at is distinct from 'infinity'`;
    await stage.sql`update checkout_sessions set created_at = created_at - ${n} * interval '25 hours', expires_at = expires_at - ${n} * interval '25 hours'`;
    await stage.sql`update subscriptions set stopped_at = stopped_at - ${n} * interval '25 hours', created_at = created_at - ${n} * interval '25 hours'`;
    stage.passHours(25 * n);
    stage.net.mineBlocks(200);
    keeper = await stage.startKeeper();
    await wait(3000);
    await deleteOldOffers(stage.sql);
  };
  return { stage, plan, merchant, buyer, first, days };
}

void t.test(
  'a checkout that landed while no keeper ran for a day registers an ended subscription again',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const merchant = await merchantOf(stage, plan);
    const keeper = await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const first = await buyer.buy();
    await stage.until('paid', async () => (await paid(stage, buyer)).length === 1);
    await stage.quiet();
    await buyer.cancel(first);
    await stage.until(
      'cancel seen',
      async () => (await stage.row(first)).cancelRequestedAt !== null,
    );
    await stage.quiet();
    await keeper.stop();
    stage.passHours(721);
    stage.net.mineBlocks(2);
    const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
    const offer = await offerOf(buyer, { checkoutSessionId: session.id });
    await stage.land(buyer.keypair, offer.transaction);
    await passDay(stage);
    await stage.startKeeper();
    await stage.until(
      'the first has ended',
      async () => (await stage.row(first)).status === 'cancelled',
    );
    for (let i = 0; i < 40; i += 1) {
      await deleteOldOffers(stage.sql);
      await new Promise((r) => setTimeout(r, 250));
      if ((await rowsOf(stage, buyer)).length === 2) break;
    }
    await stage.quiet();
    t.match(await rowsOf(stage, buyer), [
      { id: first.id },
      { externalId: 'alice', discountPercent: 50 },
    ]);
  },
);

void t.test('a completed checkout does not register its ended subscription again', async (t) => {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  const keeper = await stage.startKeeper();
  const session = await merchant.session({
    externalId: 'alice',
    discount: { percentOff: 50 },
    trialHours: 48,
  });
  const buyer = await stage.buyer(plan);
  const { transaction, subscriptionPda } = await offerOf(buyer, { checkoutSessionId: session.id });
  await stage.land(buyer.keypair, transaction);
  await stage.until('registered', async () => (await rowsOf(stage, buyer)).length === 1);
  await stage.quiet();
  const [row] = await rowsOf(stage, buyer);
  const { id } = row!;
  await stage.api.call('POST', `${merchant.path}/subscriptions/${id}/cancel`, {
    token: merchant.token,
    body: { mode: 'force' },
  });
  await stage.api.call('POST', `${merchant.path}/subscriptions/${id}/reinstate`, {
    token: merchant.token,
    body: {},
  });
  await stage.quiet();
  const { status } = await post(buyer, subscriptionPda, { checkoutSessionId: session.id });
  await new Promise((r) => setTimeout(r, 3000));
  await stage.quiet();
  t.equal(status, 409, 'the session is complete');
  t.same(await paid(stage, buyer), []);
  await keeper.stop();
});

void t.test(
  'a change by an expired checkout that its wallet registers is charged as shown',
  async (t) => {
    const scene = await startPlanChanges(t, [5, 25]);
    const { stage, buyer } = scene;
    const [, large] = scene.plans as [Plan, Plan];
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    await keeper.stop();
    const merchant = await merchantOf(stage, large);
    const session = await merchant.session({
      replaces: first.id,
      changeWhen: 'now',
      discount: { percentOff: 50 },
    });
    t.ok(session.id);
    const offered = await buyer.post<Offer & { change: { today: string } }>(
      `plans/${large.id}/subscribe`,
      { checkoutSessionId: session.id },
    );
    const { transaction, subscriptionPda, change } = offered.body.data;
    const before = await stage.balance(buyer.wallet);
    await stage.land(buyer.keypair, transaction);
    await stage.sql`update offers set created_at = created_at - interval '25 hours'`;
    await stage.sql`update checkout_sessions set created_at = created_at - interval '25 hours', expires_at = expires_at - interval '25 hours'`;
    await deleteOldOffers(stage.sql);
    const { status } = await buyer.post('subscriptions', {
      appId: large.appId,
      planId: large.id,
      subscriptionPda,
    });
    t.equal(status, 201);
    await stage.startKeeper();
    await stage.until('paid', async () => (await paid(stage, buyer)).length === 2);
    await stage.quiet();
    const charged = before - (await stage.balance(buyer.wallet));
    t.ok(charged <= BigInt(change.today) + 1000n, `shown ${change.today}, charged ${charged}`);
    t.match((await rowsOf(stage, buyer))[1], { replaces: first.id, discountPercent: 50 });
  },
);

for (const hours of [1, 25])
  void t.test(
    `reconcile --repair ${hours} hours after the offer keeps the terms of its checkout`,
    async (t) => {
      const stage = await startApiStage(t);
      const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
      const merchant = await merchantOf(stage, plan);
      const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
      const buyer = await stage.buyer(plan);
      const { transaction } = await offerOf(buyer, { checkoutSessionId: session.id });
      const keeper = await stage.startKeeper();
      await stage.land(buyer.keypair, transaction);
      await registered(stage, buyer);
      await stage.until('paid', async () => (await paid(stage, buyer)).length === 1);
      await stage.quiet();
      await keeper.stop();
      t.same(await paid(stage, buyer), [2_500_000n]);
      await stage.sql.begin(async (tx) => {
        await tx`set local session_replication_role = replica`;
        await tx`update checkout_sessions set subscription_id = null, subscriber_wallet = null`;
        for (const table of [
          'deliveries',
          'events',
          'payment_attempts',
          'payments',
          'invoices',
          'subscriptions',
        ])
          await tx`delete from ${tx(table)}`.catch(() => undefined);
        await tx`update offers set registered_at = null`;
      });
      await stage.sql`update offers set created_at = created_at - ${hours} * interval '1 hour', registered_at = null`;
      await stage.sql`update checkout_sessions set created_at = created_at - ${hours} * interval '1 hour', expires_at = expires_at - ${hours} * interval '1 hour'`;
      const parts = {
        sql: stage.sql,
        rpc: stage.rpc,
        programId: stage.net.programId,
        keepers: [stage.keeper.address],
      };
      const range = { since: new Date(0), until: new Date('2100-01-01') };
      const done = await reconcile(parts, { ...range, repair: true });
      t.match(done.unregistered, [{ registered: true }]);
      stage.passHours(721);
      await stage.startKeeper();
      await stage.until('the renewal is paid', async () => (await paid(stage, buyer)).length >= 2);
      t.match(
        await rowsOf(stage, buyer),
        [{ externalId: 'alice', discountPercent: 50 }],
        `paid ${String(await paid(stage, buyer))}`,
      );
    },
  );

void t.test(
  'an unsigned offer of another customer does not block the registration of a landed offer',
  async (t) => {
    const { stage, merchant, buyer, days } = await scene(t);
    const old = await merchant.session({ externalId: 'alice' });
    await offerOf(buyer, { checkoutSessionId: old.id });
    await days(1);
    const session = await merchant.session({ externalId: 'bob', discount: { percentOff: 50 } });
    const { transaction } = await offerOf(buyer, { checkoutSessionId: session.id });
    await stage.land(buyer.keypair, transaction);
    await wait(3000);
    await stage.quiet();
    t.match(
      await rowsOf(stage, buyer),
      [{}, { externalId: 'bob', discountPercent: 50 }],
      `listed ${(await merchant.unregistered()).length}`,
    );
  },
);

void t.test(
  'an unsigned offer of 20 days ago does not register an account that its wallet resumed',
  async (t) => {
    const { stage, plan, buyer, first, days } = await scene(t);
    await offerOf(buyer);
    await days(1);
    await days(19);
    const { expiresAt } = (await stage.onChain(first))!;
    await stage.send(
      [buyer.keypair],
      resumeInstructions(stage.net.programId, {
        subscriber: buyer.wallet,
        plan: plan.pda,
        subscription: first.pda,
        mint: stage.net.mint,
        expiresAt,
      }),
    );
    await wait(3000);
    await stage.quiet();
    t.equal(
      (await rowsOf(stage, buyer)).length,
      1,
      `registered without registerUnclaimed; charged ${String(await paid(stage, buyer))}`,
    );
  },
);
