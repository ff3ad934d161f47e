// `serve` keeps a blockhash for a second, so two offers of a wallet may share one. A change of plan
// cancels the old subscription in its transaction: a landing that cancels nothing is not that.
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { type Offer, paid, registered, rowsOf } from '../fixtures/shown-terms.ts';

void t.test(
  'a wallet declines a change, subscribes, and cancels the old subscription',
  async (t) => {
    const scene = await startPlanChanges(t, [5, 25]);
    const { stage, buyer, ask } = scene;
    const [, large] = scene.plans as [Plan, Plan];
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
    await stage.quiet();
    await keeper.stop();
    const { chain } = stage.api.deps;
    const { getLatestBlockhash } = chain;
    const recent = await stage.rpc.getLatestBlockhash();
    chain.getLatestBlockhash = () => Promise.resolve(recent);
    await ask(first, large);
    const { body } = await buyer.post<Offer>(`plans/${large.id}/subscribe`);
    chain.getLatestBlockhash = getLatestBlockhash;
    await stage.land(buyer.keypair, body.data.transaction);
    await buyer.cancel(first);
    await stage.startKeeper();
    await registered(stage, buyer, 2);
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 2);
    const [, row] = await rowsOf(stage, buyer);
    t.equal(row!.replaces, null, 'what landed is no change');
    t.same((await paid(stage, buyer)).map(String), ['5000000', '25000000']);
  },
);
