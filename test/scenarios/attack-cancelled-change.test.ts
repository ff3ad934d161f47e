// A change of plan of a subscription that its wallet had cancelled on chain before: its transaction
// cancels nothing. It landed, and the wallet has resumed the old account before the registration.
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { merchantOf, type Offer, paid, registered, rowsOf } from '../fixtures/shown-terms.ts';

for (const [by, isResumed] of [
  ['its wallet, which names the offer', false],
  ['its wallet, which names the offer', true],
  ['a keeper', false],
  ['a keeper', true],
] as const)
  void t.test(`it stands as it was shown, registered by ${by}, resumed ${isResumed}`, async (t) => {
    const scene = await startPlanChanges(t, [5, 25]);
    const { stage, buyer, ask, resume } = scene;
    const [small, large] = scene.plans as [Plan, Plan];
    const merchant = await merchantOf(stage, small);
    await merchant.patch({ registerUnclaimed: true });
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
    await stage.quiet();
    await buyer.cancel(first);
    await stage.until(
      'its cancellation is seen',
      async () => (await stage.row(first)).cancelRequestedAt !== null,
    );
    await stage.quiet();
    await keeper.stop();
    const before = await stage.balance(buyer.wallet);
    const shown = (await ask(first, large)) as unknown as Offer & { today: string };
    await stage.land(buyer.keypair, shown.transaction);
    if (isResumed) await resume(first);
    if (by !== 'a keeper') {
      const { subscriptionPda, offerId } = shown;
      const of = { appId: large.appId, planId: large.id, subscriptionPda, offerId };
      t.equal((await buyer.post('subscriptions', of)).status, 201);
    }
    await stage.startKeeper();
    await registered(stage, buyer, 2);
    stage.net.passSeconds(130);
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 2);
    const charged = before - (await stage.balance(buyer.wallet));
    const [, row] = await rowsOf(stage, buyer);
    t.equal(row!.replaces, first.id, 'the change that landed');
    t.ok(charged <= BigInt(shown.today) + 1000n, `charged ${charged}, shown ${shown.today}`);
  });
