// Two changes of one cancelled subscription are offered, each with its credit. The relay takes the
// second one although the first has replaced the subscription: its wallet pays more than was shown.
import t from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges, type ShownChange } from '../fixtures/plan-changes.ts';

void t.test('the relay takes no change of a replaced subscription', async (t) => {
  const { stage, plans, buyer, ask } = await startPlanChanges(t, [100, 150, 120]);
  const [, one, other] = plans as [Plan, Plan, Plan];
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await buyer.cancel(first);
  await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
  await stage.quiet();
  const offers = [];
  for (const to of [one, other])
    offers.push((await ask(first, to)) as ShownChange & { offerId: string });
  const relay = ({ offerId, transaction }: { offerId: string; transaction: string }) =>
    buyer.post<{ status: string }>('transactions', {
      offerId,
      transaction: addSignature(buyer.keypair, transaction),
    });
  t.match((await relay(offers[0]!)).body.data, { status: 'confirmed' });
  await stage.quiet();
  const before = await stage.balance(buyer.wallet);
  const second = await relay(offers[1]!);
  await stage.quiet();
  const charged = before - (await stage.balance(buyer.wallet));
  t.equal(second.status, 409);
  t.equal(charged, 0n, `shown was ${offers[1]!.today}`);
});
