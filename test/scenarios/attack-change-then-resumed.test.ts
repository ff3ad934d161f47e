// A change of plan of a subscription that was cancelled already: its transaction has nothing to
// cancel. It has landed, and its wallet resumes the old account before it registers the new one.
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges, type ShownChange } from '../fixtures/plan-changes.ts';

void t.test('the change stands, and is charged as it was shown', async (t) => {
  const { stage, plans, buyer, ask, resume, newest, read } = await startPlanChanges(t, [100, 120]);
  const [small, large] = plans as [Plan, Plan];
  const keeper = await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await buyer.cancel(first);
  await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
  await stage.quiet();
  const offer = (await ask(first, large)) as ShownChange & { offerId: string };
  await keeper.stop();
  await stage.land(buyer.keypair, offer.transaction);
  await resume(first);
  const before = await stage.balance(buyer.wallet);
  const { status } = await buyer.post('subscriptions', {
    ...{ appId: small.appId, planId: large.id, offerId: offer.offerId },
    subscriptionPda: offer.subscriptionPda,
  });
  t.equal(status, 201);
  await stage.startKeeper();
  await stage.quiet();
  const charged = before - (await stage.balance(buyer.wallet));
  t.ok(charged - BigInt(offer.today) < 1000n, `${charged} of ${offer.today}`);
  t.match(await read(await newest(large)), { replaces: first.id });
});
