// A wallet subscribes in a checkout with a trial. It signs with another blockhash, sends the
// transaction itself, and the checkout expires before it registers and names its offer. It was
// shown a trial, so nothing is charged in its place.
import bs58 from 'bs58';
import t from 'tap';
import { startApiStage } from '../fixtures/api-stage.ts';
import { merchantOf, nextBlockhash, offerOf, paid, post } from '../fixtures/shown-terms.ts';

void t.test('a named offer that does not fit is not left out in silence', async (t) => {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  const session = await merchant.session({ trialHours: 168 });
  const buyer = await stage.buyer(plan);
  const { offerId, transaction, subscriptionPda } = await offerOf(buyer, {
    checkoutSessionId: session.id,
  });
  const [{ old }] = await stage.sql<[{ old: string }]>`select blockhash as old from offers`;
  await nextBlockhash(stage);
  const { blockhash } = await stage.rpc.getLatestBlockhash();
  const bytes = Buffer.from(transaction, 'base64');
  bytes.set(bs58.decode(blockhash), bytes.indexOf(Buffer.from(bs58.decode(old))));
  await stage.land(buyer.keypair, bytes.toString('base64'));
  await stage.sql`update checkout_sessions set expires_at = now() - interval '1 minute'`;
  const { status } = await post(buyer, subscriptionPda, { offerId });
  await stage.startKeeper();
  await stage.quiet();
  t.comment(`answered ${status}`);
  t.same(await paid(stage, buyer), [], 'the trial that was shown, or CONFLICT');
});
