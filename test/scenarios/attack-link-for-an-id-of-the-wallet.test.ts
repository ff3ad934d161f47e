// A wallet has named itself by the id of another customer, which nobody has verified. A link for
// that customer does not lift the forced end of the wallet.
import t from 'tap';
import { startApiStage } from '../fixtures/api-stage.ts';
import { merchantOf, post } from '../fixtures/shown-terms.ts';

void t.test('an id that the wallet has set does not lift its forced end', async (t) => {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  await merchant.patch({ ownIdsBySubscriber: true });
  const keeper = await stage.startKeeper();
  const buyer = await stage.buyer(plan);
  const pda = await buyer.subscribe();
  await keeper.stop();
  const { status, body } = await post(buyer, pda, { externalId: 'bob' });
  t.equal(status, 201);
  const path = `${merchant.path}/subscriptions/${body.data.id}/cancel`;
  await stage.api.call('POST', path, { token: merchant.token, body: { mode: 'force' } });
  const barred = async () =>
    (await buyer.get(`plans/${plan.id}/standing`)).body.data.endedByMerchant;
  t.equal(await barred(), true);
  await merchant.session({ externalId: 'bob' });
  t.equal(await barred(), true, 'the link is for another customer');
});
