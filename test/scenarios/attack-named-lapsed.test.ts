// An offer whose transaction landed in time, and whose checkout has expired since. Strangers have
// made the history of its account longer than what is read of it.
import t from 'tap';
import { addSignature, unsignedTransaction } from '../../src/chain/transactions/message.ts';
import { type ApiStage, startApiStage } from '../fixtures/api-stage.ts';
import { naming } from '../fixtures/junk.ts';
import { merchantOf, offerOf, paid, post, rowsOf } from '../fixtures/shown-terms.ts';

async function flood(stage: ApiStage, address: string) {
  const stranger = stage.wallet();
  await stage.until(
    'the stranger has SOL',
    async () => (await stage.rpc.getMultipleAccounts([stranger.address])).accounts[0] !== null,
  );
  const { blockhash } = await stage.rpc.getLatestBlockhash();
  for (let place = 0; place < 11; place += 1) {
    const instruction = naming(stranger.address, [address], BigInt(place + 1));
    const unsigned = unsignedTransaction(stranger.address, [instruction], blockhash);
    await stage.rpc.sendTransaction(Buffer.from(addSignature(stranger, unsigned), 'base64'));
  }
  await stage.until(
    'the history is long',
    async () => (await stage.rpc.getSignaturesForAddress(address)).length >= 12,
  );
}

void t.test('a registration that names the offer charges no more than it showed', async (t) => {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
  const buyer = await stage.buyer(plan);
  const { offerId, transaction, subscriptionPda } = await offerOf(buyer, {
    checkoutSessionId: session.id,
  });
  await stage.land(buyer.keypair, transaction);
  await flood(stage, subscriptionPda);
  await stage.sql`update checkout_sessions set expires_at = now() - interval '1 second'`;
  const { status } = await post(buyer, subscriptionPda, { offerId });
  if (status !== 201) {
    t.equal(status, 409, 'the chain does not show what landed');
    return;
  }
  t.match(await rowsOf(stage, buyer), [{ externalId: 'alice', discountPercent: 50 }]);
  await stage.startKeeper();
  await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
  t.same(await paid(stage, buyer), [2_500_000n]);
});
