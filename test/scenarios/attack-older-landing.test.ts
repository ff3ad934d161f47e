// A wallet opens an account by one offer, cancels it, and resumes it by another one with other
// terms, before anyone has registered it: the newest landing decides.
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { cancelInstructions } from '../../src/chain/transactions/subscriptions.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import { startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { merchantOf, nextBlockhash, offerOf, paid, post, rowsOf } from '../fixtures/shown-terms.ts';

/** An account that was opened at the public price, and resumed in a checkout at half of it. */
async function scene(t: Test) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  const buyer = await stage.buyer(plan);
  const dear = await offerOf(buyer);
  const opening = await stage.land(buyer.keypair, dear.transaction);
  await stage.send(
    [buyer.keypair],
    cancelInstructions(stage.net.programId, {
      ...{ subscriber: buyer.wallet, plan: plan.pda, subscription: dear.subscriptionPda },
    }),
  );
  await nextBlockhash(stage);
  const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
  const half = await offerOf(buyer, { checkoutSessionId: session.id });
  await stage.land(buyer.keypair, half.transaction);
  const isCharged = async (amount: bigint) => {
    await stage.startKeeper();
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length > 0);
    t.same(await paid(stage, buyer), [amount]);
    t.match(await rowsOf(stage, buyer), [{ externalId: 'alice', discountPercent: 50 }]);
  };
  return { stage, buyer, dear, half, opening, isCharged };
}

void t.test('the wallet registers with an honest endpoint', async (t) => {
  const { buyer, half, isCharged } = await scene(t);
  const own = await post(buyer, half.subscriptionPda, { offerId: half.offerId });
  t.equal(own.status, 201);
  await isCharged(2_500_000n);
});

void t.test('an older tab sends the opening transaction to the relay again', async (t) => {
  const { buyer, dear, isCharged } = await scene(t);
  const { body } = await buyer.post<{ status: string }>('transactions', {
    ...{ transaction: addSignature(buyer.keypair, dear.transaction), offerId: dear.offerId },
  });
  t.match(body.data, { status: 'confirmed' });
  await isCharged(2_500_000n);
});

void t.test('the history of one of two endpoints lags behind the newest landing', async (t) => {
  const { stage, buyer, half, opening, isCharged } = await scene(t);
  const lagging = await startRewritingEndpoint(stage.net.rpcUrl, (method, _params, result) =>
    method === 'getSignaturesForAddress'
      ? (result as { signature: string }[]).filter(({ signature }) => signature === opening)
      : result,
  );
  const honest = await startRewritingEndpoint(
    stage.net.rpcUrl,
    (_method, _params, result) => result,
  );
  const urls = [lagging.url, honest.url];
  const rpc = createRpc({ urls, log: pino({ enabled: false }), probeMs: Infinity });
  t.teardown(async () => {
    await rpc.close();
    lagging.close();
    honest.close();
  });
  Object.assign(stage.api.deps.chain, rpc);
  const own = await post(buyer, half.subscriptionPda, { offerId: half.offerId });
  t.equal(own.status, 201);
  await isCharged(2_500_000n);
});
