// The merchant sunsets a plan between the offer of a change to it and the wallet's signature. The
// relay knows that nothing would be registered, and that the change cancels the old subscription.
import t from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges, type ShownChange } from '../fixtures/plan-changes.ts';
import { merchantOf } from '../fixtures/shown-terms.ts';

void t.test('a change to a plan that was sunset since', async (t) => {
  const { stage, plans, buyer, ask, change, read } = await startPlanChanges(t, [100, 10, 20]);
  const [large, small, other] = plans as [Plan, Plan, Plan];
  const merchant = await merchantOf(stage, large);
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  const second = await change(first, small);
  const { credit } = await read(second);
  t.ok(credit > 80_000_000n);
  const offer = (await ask(second, other)) as ShownChange & { offerId: string };
  const path = `${merchant.path}/plans/${other.id}`;
  const sunset = await stage.api.call('PATCH', path, {
    token: merchant.token,
    body: { status: 'sunset' },
  });
  t.equal(sunset.status, 200);
  const sent = await buyer.post('transactions', {
    offerId: offer.offerId,
    transaction: addSignature(buyer.keypair, offer.transaction),
  });
  await stage.quiet();
  t.equal(sent.status, 409, JSON.stringify(sent.body));
  t.equal((await stage.onChain(second))?.expiresAt, 0n, 'the old one goes on');
});
