// A change of plan of a subscription that was cancelled already: its transaction has nothing to
// cancel. It has landed, and its wallet resumes the old account before the new one is registered.
import t, { type Test } from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges, type ShownChange } from '../fixtures/plan-changes.ts';

/** The change has landed, the old account is resumed, and no keeper runs. */
async function landedAndResumed(t: Test) {
  const scene = await startPlanChanges(t, [100, 120]);
  const { stage, plans, buyer, ask, resume } = scene;
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
  return { ...scene, small, large, first, offer };
}

void t.test('its wallet names the offer, and is charged what it showed', async (t) => {
  const { stage, small, large, buyer, first, offer, newest, read } = await landedAndResumed(t);
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

void t.test('a keeper registers it', async (t) => {
  const { stage, large, first } = await landedAndResumed(t);
  await stage.startKeeper();
  await stage.until('it is registered or listed', async () => {
    const rows = await stage.sql`
      select subscription_pda from unregistered_subscriptions union all
      select subscription_pda from subscriptions where plan_id = ${large.id}`;
    return rows.length > 0;
  });
  await stage.quiet();
  const rows = await stage.sql`select replaces from subscriptions where plan_id = ${large.id}`;
  t.match(rows, [{ replaces: first.id }]);
});
