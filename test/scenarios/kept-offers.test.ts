// Offers whose transactions have landed count however late a keeper registers their accounts: it
// was away for a day, or a pending refund held the registration up.
import t, { type Test } from 'tap';
import { deleteOldOffers } from '../../src/db/offers/offers.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import { type ApiStage, startApiStage } from '../fixtures/api-stage.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { merchantOf, offerOf, paid, post, registered, rowsOf } from '../fixtures/shown-terms.ts';

/** Lets 25 hours and 200 blocks pass, in which `serve` deletes old offers. */
async function passDay(stage: ApiStage): Promise<void> {
  await stage.sql`
    update offers set created_at = created_at - interval '25 hours',
      look_at = look_at - interval '25 hours'`;
  await stage.sql`
    update checkout_sessions set created_at = created_at - interval '25 hours',
      expires_at = expires_at - interval '25 hours'`;
  await stage.sql`
    update refunds set created_at = created_at - interval '25 hours',
      look_at = look_at - interval '25 hours'`;
  await deleteOldOffers(stage.sql);
  stage.passHours(25);
  stage.net.mineBlocks(200);
}

async function changing(t: Test) {
  const scene = await startPlanChanges(t, [5, 25]);
  const { stage, buyer, ask } = scene;
  const [small, large] = scene.plans as [Plan, Plan];
  const keeper = await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  const merchant = await merchantOf(stage, small);
  await merchant.patch({ registerUnclaimed: true });
  const shown = await ask(first, large);
  const before = await stage.balance(buyer.wallet);
  const isChanged = async () => (await rowsOf(stage, buyer)).length === 2;
  const charged = async () => before - (await stage.balance(buyer.wallet));
  /** A charge for the change, but for the cent to which the credit is rounded. */
  const chargesAsShown = async () => {
    await stage.until('it is registered', isChanged);
    await stage.until('it is charged', async () => (await charged()) > 0n);
    await stage.quiet();
    const amount = await charged();
    t.ok(amount <= BigInt(shown.today) + 1000n, `shown ${shown.today}, charged ${amount}`);
    t.same(await listCreditFaults(stage.sql), []);
  };
  /** The merchant asks for a refund of the first payment, and signs nothing. */
  const askRefund = async () => {
    const { merchant: seller } = small;
    stage.net.fund(seller.address, { usdc: 50_000_000n, lamports: 1_000_000_000n });
    const [payment] = await stage.sql<{ id: string }[]>`
      select id from payments where subscription_id = ${first.id}`;
    const { path, token } = merchant;
    const body = { amount: '2000000' };
    const refunds = `${path}/transactions/${payment!.id}/refunds`;
    return stage.api.call('POST', refunds, { token, body });
  };
  return { stage, buyer, keeper, shown, chargesAsShown, askRefund };
}

void t.test('a change that landed while no keeper ran for a day is charged as shown', async (t) => {
  const { stage, buyer, keeper, shown, chargesAsShown } = await changing(t);
  await keeper.stop();
  await stage.land(buyer.keypair, shown.transaction);
  await passDay(stage);
  await stage.startKeeper();
  await chargesAsShown();
});

void t.test('a change that a pending refund delayed for a day is charged as shown', async (t) => {
  const { stage, buyer, keeper, shown, chargesAsShown, askRefund } = await changing(t);
  t.equal((await askRefund()).status, 201);
  await stage.land(buyer.keypair, shown.transaction);
  await stage.quiet();
  t.equal((await rowsOf(stage, buyer)).length, 1, 'the refund may still land');
  await keeper.stop();
  await passDay(stage);
  await stage.startKeeper();
  await chargesAsShown();
  t.match(await stage.sql`select status from refunds`, [{ status: 'expired' }]);
});

void t.test(
  'a checkout that landed while no keeper ran for a day keeps its discount and its ids',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const merchant = await merchantOf(stage, plan);
    const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
    const buyer = await stage.buyer(plan);
    const { transaction } = await offerOf(buyer, { checkoutSessionId: session.id });
    await stage.land(buyer.keypair, transaction);
    await passDay(stage);
    await stage.startKeeper();
    await registered(stage, buyer);
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length > 0);
    // The half of the price, for the 695 hours that are left of the 720.
    t.same(await paid(stage, buyer), [2_410_000n]);
    t.match(await rowsOf(stage, buyer), [{ externalId: 'alice', discountPercent: 50 }]);
    const [row] = await rowsOf(stage, buyer);
    t.match(await merchant.read(session), { subscriptionId: row!.id });
  },
);

void t.test(
  'a wallet that paid in a checkout session registers with its terms, although it has expired since',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const merchant = await merchantOf(stage, plan);
    for (const names of ['nothing', 'the offer', 'the session']) {
      const session = await merchant.session({ externalId: names, discount: { percentOff: 50 } });
      const buyer = await stage.buyer(plan);
      const { offerId, transaction, subscriptionPda } = await offerOf(buyer, {
        checkoutSessionId: session.id,
      });
      await stage.land(buyer.keypair, transaction);
      await passDay(stage);
      const more = {
        nothing: {},
        'the offer': { offerId },
        'the session': { checkoutSessionId: session.id },
      }[names];
      const { status, body } = await post(buyer, subscriptionPda, more);
      t.equal(status, 201, `${names}: ${JSON.stringify(body)}`);
      t.match(await rowsOf(stage, buyer), [{ externalId: names, discountPercent: 50 }]);
    }
  },
);

void t.test(
  'a wallet whose offer did not land cannot register with the terms of an expired checkout',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const merchant = await merchantOf(stage, plan);
    const session = await merchant.session({ discount: { percentOff: 50 } });
    const [buyer, other] = [await stage.buyer(plan), await stage.buyer(plan)];
    await offerOf(buyer, { checkoutSessionId: session.id });
    await passDay(stage);
    for (const one of [buyer, other]) {
      const pda = await stage.open(plan, one.keypair);
      t.equal((await post(one, pda, { checkoutSessionId: session.id })).status, 409);
      t.equal((await post(one, pda)).status, 201);
      t.match(await rowsOf(stage, one), [{ discountPercent: null }], 'nor by an unsigned offer');
    }
  },
);

void t.test(
  'an account that is registered again from a new checkout gets the terms of the new checkout',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 24 });
    await stage.sql`update plans set trial_hours = 168 where id = ${plan.id}`;
    const merchant = await merchantOf(stage, plan);
    await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const first = await buyer.buy();
    await stage.quiet();
    await buyer.cancel(first);
    await stage.until(
      'its cancellation is seen',
      async () => (await stage.row(first)).cancelRequestedAt !== null,
    );
    await stage.quiet();
    // The account has ended on chain, and its trial runs here.
    stage.passHours(30);
    stage.net.mineBlocks(2);
    const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
    const { transaction } = await offerOf(buyer, { checkoutSessionId: session.id });
    await stage.land(buyer.keypair, transaction);
    await registered(stage, buyer, 2);
    t.match(await rowsOf(stage, buyer), [
      { id: first.id, status: 'cancelled' },
      { externalId: 'alice', discountPercent: 50 },
    ]);
  },
);

void t.test(
  'an unsigned offer is considered for a day, then given up, also for an account that still runs',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 120_000_000n, periodHours: 8760 });
    await stage.sql`update plans set trial_hours = 168 where id = ${plan.id}`;
    const keeper = await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const first = await buyer.buy();
    await stage.quiet();
    await buyer.cancel(first);
    await stage.until(
      'its cancellation is seen',
      async () => (await stage.row(first)).cancelRequestedAt !== null,
    );
    stage.passHours(169);
    await stage.until('it has ended', async () => (await stage.row(first)).status === 'cancelled');
    await stage.quiet();
    await offerOf(buyer);
    await keeper.stop();
    await passDay(stage);
    await stage.startKeeper();
    await stage.until('the offer is given up', async () => {
      const given = await stage.sql`
      select 1 from offers where registered_at is null and look_at = 'infinity'`;
      return given.length === 1;
    });
  },
);
