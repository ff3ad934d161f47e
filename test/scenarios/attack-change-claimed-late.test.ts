// A wallet that has cancelled changes its plan, signs with a newer blockhash and sends the change
// itself. By registerUnclaimed a keeper registers the account without the change, and waits two
// minutes for the wallet, which names its offer.
import bs58 from 'bs58';
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges, type ShownChange } from '../fixtures/plan-changes.ts';
import { merchantOf, nextBlockhash, registered } from '../fixtures/shown-terms.ts';

void t.test('the wallet that names its change is charged what it showed', async (t) => {
  const { stage, plans, buyer, ask } = await startPlanChanges(t, [100, 120]);
  const [small, large] = plans as [Plan, Plan];
  await (await merchantOf(stage, small)).patch({ registerUnclaimed: true });
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await buyer.cancel(first);
  await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
  await stage.quiet();
  const offer = (await ask(first, large)) as ShownChange & { offerId: string };
  const [{ old }] = await stage.sql<[{ old: string }]>`
    select blockhash as old from offers where id = ${offer.offerId}`;
  await nextBlockhash(stage);
  const { blockhash } = await stage.rpc.getLatestBlockhash();
  const bytes = Buffer.from(offer.transaction, 'base64');
  bytes.set(bs58.decode(blockhash), bytes.indexOf(Buffer.from(bs58.decode(old))));
  const before = await stage.balance(buyer.wallet);
  await stage.land(buyer.keypair, bytes.toString('base64'));
  await registered(stage, buyer, 2);
  const { status } = await buyer.post('subscriptions', {
    ...{ appId: small.appId, planId: large.id, offerId: offer.offerId },
    subscriptionPda: offer.subscriptionPda,
  });
  stage.net.passSeconds(130);
  await stage.quiet();
  const charged = before - (await stage.balance(buyer.wallet));
  t.ok(charged - BigInt(offer.today) < 1000n, `${charged} of ${offer.today}, answered ${status}`);
});
