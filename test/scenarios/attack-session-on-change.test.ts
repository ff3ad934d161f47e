// A change of plan landed, at the price that its preview showed. The wallet then registers it with
// the checkout session of a welcome offer, in which it has asked for nothing.
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { merchantOf, type Offer, paid, rowsOf } from '../fixtures/shown-terms.ts';

for (const isKeeperFirst of [true, false])
  void t.test(`what landed decides, a keeper registers first: ${isKeeperFirst}`, async (t) => {
    const scene = await startPlanChanges(t, [5, 25]);
    const { stage, buyer, ask, registered } = scene;
    const [small, large] = scene.plans as [Plan, Plan];
    const merchant = await merchantOf(stage, { ...large, merchant: small.merchant });
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
    await stage.quiet();
    const welcome = await merchant.session({ discount: { percentOff: 50 } });
    const shown = (await ask(first, large)) as unknown as Offer & { today: string };
    if (!isKeeperFirst) await keeper.stop();
    await stage.land(buyer.keypair, shown.transaction);
    if (isKeeperFirst) await registered(first, large);
    const { subscriptionPda } = shown;
    await buyer.post('subscriptions', {
      ...{ appId: large.appId, planId: large.id, subscriptionPda },
      checkoutSessionId: welcome.id,
    });
    if (!isKeeperFirst) await stage.startKeeper();
    await registered(first, large);
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 2);
    const [, amount = 0n] = await paid(stage, buyer);
    t.ok(amount >= BigInt(shown.today) - 1000n, `charged ${amount}, shown ${shown.today}`);
    t.match((await rowsOf(stage, buyer))[1], { replaces: first.id, discountPercent: null });
  });
