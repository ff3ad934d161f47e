// What landed decides the terms, also if the chain or the checkout session has changed between the
// landing and the registration.
import t from 'tap';
import { type ApiStage, type Buyer, startApiStage } from '../fixtures/api-stage.ts';
import {
  merchantOf,
  nextBlockhash,
  type Offer,
  offerOf,
  paid,
  post,
  registered,
  rowsOf,
  standingOf,
} from '../fixtures/shown-terms.ts';

interface ShownChange extends Offer {
  today: string;
}

/** Two plans of one app, at 5 and 9 USDC, and a keeper. */
async function twoPlans(t: Parameters<typeof startApiStage>[0]) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const { merchant: owner } = plan;
  const dearer = await stage.plan({ amount: 9_000_000n, periodHours: 720, merchant: owner });
  await stage.sql`update plans set app_id = ${plan.appId} where id = ${dearer.id}`;
  const merchant = await merchantOf(stage, plan);
  return { stage, plan, dearer, merchant, keeper: await stage.startKeeper() };
}

async function paidSubscription(stage: ApiStage, buyer: Buyer) {
  const bought = await buyer.buy();
  await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
  await stage.quiet();
  return bought;
}

async function changeOf(buyer: Buyer, { id }: { id: string }, planId: string, when: string) {
  const { body } = await buyer.post<ShownChange>(`subscriptions/${id}/change`, { planId, when });
  return body.data;
}

for (const [when, by] of [
  ['now', 'keeper'],
  ['period_end', 'wallet'],
] as const)
  void t.test(
    `a landed change (${when}) stays registered when the wallet resumes the old account`,
    async (t) => {
      const { stage, plan, dearer, merchant, keeper } = await twoPlans(t);
      const buyer = await stage.buyer(plan);
      const bought = await paidSubscription(stage, buyer);
      await keeper.stop();
      const change = await changeOf(buyer, bought, dearer.id, when);
      await stage.land(buyer.keypair, change.transaction);
      const resume = await buyer.post<Offer>(`subscriptions/${bought.id}/resume`);
      t.equal(resume.status, 200);
      await stage.land(buyer.keypair, resume.body.data.transaction);
      const { usdcNeeded: shown } = await standingOf(buyer, { plan: dearer });
      t.ok(BigInt(shown) <= BigInt(change.today) + 100n, `${shown} of ${change.today}`);
      if (by === 'wallet') {
        const { subscriptionPda, offerId } = change;
        const { status } = await buyer.post('subscriptions', {
          ...{ appId: plan.appId, planId: dearer.id, subscriptionPda, offerId },
        });
        t.equal(status, 201);
      }
      await stage.startKeeper();
      await registered(stage, buyer, 2);
      await stage.quiet();
      const [old, row] = await rowsOf(stage, buyer);
      t.equal(row!.replaces, old!.id);
      const [, second = 0n] = await paid(stage, buyer);
      t.ok(second <= BigInt(change.today) + 100n, `${second} of ${change.today}`);
      await stage.until('the old account is listed', async () => {
        return (await merchant.unregistered()).length === 1;
      });
    },
  );

void t.test(
  'an account that another client opened is listed, not registered, although the wallet has an unsigned change',
  async (t) => {
    const { stage, plan, dearer, merchant } = await twoPlans(t);
    const buyer = await stage.buyer(plan);
    const bought = await paidSubscription(stage, buyer);
    await changeOf(buyer, bought, dearer.id, 'now');
    await stage.open(dearer, buyer.keypair);
    await stage.until('it is listed', async () => (await merchant.unregistered()).length === 1);
    t.equal((await rowsOf(stage, buyer)).length, 1);
    t.same(await paid(stage, buyer), [5_000_000n]);
  },
);

void t.test(
  'a subscription that landed in another wallet’s completed session is listed, not registered',
  async (t) => {
    const { stage, plan, merchant } = await twoPlans(t);
    await merchant.patch({ registerUnclaimed: true });
    const half = { discount: { percentOff: 50 } };

    for (const other of ['without a session', 'in another session', 'none'] as const)
      await t.test(
        `a landing in another wallet's completed session is listed, with the other offer ${other}`,
        async (t) => {
          const session = await merchant.session({ externalId: `alice ${other}`, ...half });
          const bob = await merchant.session({ externalId: 'bob', discount: { percentOff: 10 } });
          const [one, two] = [await stage.buyer(plan), await stage.buyer(plan)];
          if (other === 'without a session') await offerOf(two);
          if (other === 'in another session') await offerOf(two, { checkoutSessionId: bob.id });
          await nextBlockhash(stage);
          t.equal((await standingOf(two, { session })).usdcNeeded, '2500000');
          const signed = await offerOf(two, { checkoutSessionId: session.id });
          const first = await offerOf(one, { checkoutSessionId: session.id });
          await stage.land(one.keypair, first.transaction);
          await registered(stage, one);
          await stage.land(two.keypair, signed.transaction);
          const isListed = async () =>
            (await merchant.unregistered()).some(
              (it) => it.subscriptionPda === signed.subscriptionPda,
            );
          await stage.until('it is listed', isListed);
          await stage.quiet();
          t.same(await rowsOf(stage, two), [], 'not registered with other terms');
          const own = await post(two, signed.subscriptionPda, { checkoutSessionId: session.id });
          t.equal(own.status, 403, 'another wallet has the session');
          const plain = await post(two, signed.subscriptionPda);
          t.equal(plain.status, 201, 'the wallet can take what its page names then');
        },
      );
  },
);
