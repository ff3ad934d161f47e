// The relay gets a transaction for the first time after the registration that it led to has ended:
// its wallet had sent it itself. It is a transaction from before the end.
import t from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import { merchantOf, type Offer, paid, registered, rowsOf } from '../fixtures/shown-terms.ts';

void t.test('a resume that landed before the end registers nothing after it', async (t) => {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  await stage.startKeeper();
  const buyer = await stage.buyer(plan, { usdc: 1n });
  const first = await buyer.buy();
  await stage.until('past due', async () => (await stage.row(first)).status === 'past_due');
  await buyer.cancel(first);
  await stage.until('ended', async () => (await stage.row(first)).status === 'cancelled');

  const { body } = await buyer.post<Offer>(`subscriptions/${first.id}/resume`);
  const { offerId, transaction } = body.data;
  await stage.land(buyer.keypair, transaction);
  await registered(stage, buyer, 2);
  const second = { ...first, id: (await rowsOf(stage, buyer))[1]!.id };
  await stage.until('past due', async () => (await stage.row(second)).status === 'past_due');
  const path = `${merchant.path}/subscriptions/${second.id}/cancel`;
  await stage.api.call('POST', path, { token: merchant.token, body: { mode: 'period_end' } });
  await stage.until('ended', async () => (await stage.row(second)).status === 'cancelled');

  stage.net.fund(buyer.wallet, { usdc: 20_000_000n });
  const signed = { offerId, transaction: addSignature(buyer.keypair, transaction) };
  const answer = await buyer.post('transactions', signed);
  t.match(answer.body.data, { status: 'confirmed' });
  await stage.quiet();
  t.equal((await rowsOf(stage, buyer)).length, 2, 'what has ended stays ended');
  t.same(await paid(stage, buyer), [], 'nothing is charged');
});
