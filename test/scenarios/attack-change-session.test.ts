// A merchant offers a change of plan at half the price (`replaces`). The wallet opens the other plan
// with a client of its own, keeps the old subscription, and registers with that checkout session.
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { merchantOf, paid, registered, rowsOf } from '../fixtures/shown-terms.ts';

for (const isKeeperFirst of [true, false])
  void t.test(`no change has landed, a keeper registers first: ${isKeeperFirst}`, async (t) => {
    const scene = await startPlanChanges(t, [5, 25]);
    const { stage, buyer } = scene;
    const [small, large] = scene.plans as [Plan, Plan];
    const merchant = await merchantOf(stage, { ...large, merchant: small.merchant });
    await merchant.patch({ registerUnclaimed: true });
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
    await stage.quiet();
    if (!isKeeperFirst) await keeper.stop();
    const session = await merchant.session({
      ...{ replaces: first.id, changeWhen: 'now', discount: { percentOff: 50 } },
    });
    const subscriptionPda = await stage.open(large, buyer.keypair);
    if (isKeeperFirst) await registered(stage, buyer, 2);
    const { status } = await buyer.post('subscriptions', {
      ...{ appId: large.appId, planId: large.id, subscriptionPda },
      checkoutSessionId: session.id,
    });
    const rows = await rowsOf(stage, buyer);
    t.not(status, 201, `${JSON.stringify(rows.at(-1))}`);
    t.equal((await stage.row(first)).status, 'active');
    t.match(await merchant.read(session), { subscriptionId: null }, 'nothing was changed in it');
  });
