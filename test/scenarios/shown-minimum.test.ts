// The charged amount is the amount that `standing` names, also where PLAN_MINIMUM_AMOUNT decides
// it.
import t, { type Test } from 'tap';
import { type Buyer, startApiStage } from '../fixtures/api-stage.ts';
import { type Offer, standingOf } from '../fixtures/shown-terms.ts';

const MINIMUM = 100_000n;

async function scene(t: Test) {
  const stage = await startApiStage(t, {}, { planMinimumAmount: MINIMUM });
  // Not whole cents, so that a credit of all but a few seconds leaves something to pay.
  const terms = { amount: 100_000_001n, periodHours: 720 };
  const plan = await stage.plan(terms);
  const other = await stage.plan({ ...terms, merchant: plan.merchant });
  await stage.sql`update plans set app_id = ${plan.appId} where id = ${other.id}`;
  const buyer = await stage.buyer(plan, { usdc: 1_000_000_000n });
  /**
   * Registers the account. Returns the charged amount, and the amount that standing named before.
   */
  const register = async (of: { id: string }, subscriptionPda: string) => {
    const { usdcNeeded, schedule } = await standingOf(buyer, { plan: of });
    const before = await stage.balance(buyer.wallet);
    const { status } = await buyer.post('subscriptions', {
      ...{ appId: plan.appId, planId: of.id, subscriptionPda },
    });
    t.equal(status, 201);
    await stage.startKeeper();
    await stage.quiet();
    return { named: usdcNeeded, schedule, charged: before - (await stage.balance(buyer.wallet)) };
  };
  return { stage, plan, other, buyer, register };
}

const changeOf = async (buyer: Buyer, { id }: { id: string }, planId: string) =>
  (await buyer.post<Offer>(`subscriptions/${id}/change`, { planId, when: 'now' })).body.data;

void t.test(
  'a credit that would pay almost everything leaves the minimum amount to be charged',
  async (t) => {
    const { stage, other, buyer, register } = await scene(t);
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    await keeper.stop();
    const { transaction, subscriptionPda } = await changeOf(buyer, first, other.id);
    await stage.land(buyer.keypair, transaction);
    const { named, schedule, charged } = await register(other, subscriptionPda);
    t.equal(named, String(MINIMUM));
    t.equal(schedule[0]!.amount, named);
    t.equal(charged, MINIMUM);
  },
);

void t.test('the rest of a period that costs less than the minimum is not charged', async (t) => {
  const { stage, plan, buyer, register } = await scene(t);
  const subscriptionPda = await stage.open(plan, buyer.keypair);
  stage.net.passSeconds(720 * 3600 - 2000);
  const { named, charged } = await register(plan, subscriptionPda);
  t.equal(named, '0', 'about 0.077 USDC');
  t.equal(charged, 0n);
});
