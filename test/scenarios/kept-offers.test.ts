// Offers whose transactions have landed count however late a keeper registers their accounts: it
// was away for a day, or a pending refund held the registration up.
import t, { type Test } from 'tap';
import { deleteOldOffers } from '../../src/db/offers/offered-transactions.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import type { ApiStage } from '../fixtures/api-stage.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { merchantOf, rowsOf } from '../fixtures/shown-terms.ts';

/** Lets 25 hours pass, in which `serve` deletes old offers. */
async function passDay(stage: ApiStage): Promise<void> {
  await stage.sql`
    update offered_transactions set created_at = created_at - interval '25 hours',
      look_at = look_at - interval '25 hours'`;
  await stage.sql`
    update checkout_sessions set created_at = created_at - interval '25 hours',
      expires_at = expires_at - interval '25 hours'`;
  await deleteOldOffers(stage.sql);
  stage.passHours(25);
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
  return { stage, buyer, keeper, shown, chargesAsShown };
}

void t.test('a change of plan landed while no keeper ran for a day', async (t) => {
  const { stage, buyer, keeper, shown, chargesAsShown } = await changing(t);
  await keeper.stop();
  await stage.land(buyer.keypair, shown.transaction);
  await passDay(stage);
  await stage.startKeeper();
  await chargesAsShown();
});
