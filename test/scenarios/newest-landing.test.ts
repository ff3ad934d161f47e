// A wallet opens an account by one offer, cancels it, and resumes it by another one with other
// terms, before anyone has registered it: the newest landing decides.
import bs58 from 'bs58';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { cancelInstructions } from '../../src/chain/transactions/subscriptions.ts';
import { type ApiStage, startApiStage } from '../fixtures/api-stage.ts';
import { startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import {
  merchantOf,
  nextBlockhash,
  type Offer,
  offerOf,
  paid,
  post,
  registered,
  rowsOf,
  standingOf,
} from '../fixtures/shown-terms.ts';
import { startSponsorStage } from '../fixtures/sponsor-stage.ts';

/** Puts the newest blockhash into the offered transaction. */
async function withNewBlockhash(stage: ApiStage, { offerId, transaction }: Offer) {
  await nextBlockhash(stage);
  const [{ blockhash: offered }] = await stage.sql<[{ blockhash: string }]>`
    select blockhash from offers where id = ${offerId}`;
  const { blockhash } = await stage.rpc.getLatestBlockhash();
  const bytes = Buffer.from(transaction, 'base64');
  bytes.set(bs58.decode(blockhash), bytes.indexOf(bs58.decode(offered)));
  return bytes.toString('base64');
}

/** An account that was opened at the public price, and resumed in a checkout at half the price. */
async function scene(t: Test, { isChanged = false } = {}) {
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
  const { usdcNeeded: shown } = await standingOf(buyer, { session });
  const half = await offerOf(buyer, { checkoutSessionId: session.id });
  const signed = isChanged ? await withNewBlockhash(stage, half) : half.transaction;
  await stage.land(buyer.keypair, signed);
  /** The rest of the period from the resume, at half the price. */
  const isCharged = async () => {
    await stage.startKeeper();
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length > 0);
    const [amount = 0n] = await paid(stage, buyer);
    t.ok(amount <= BigInt(shown) && amount >= 2_490_000n, `charged ${amount}, shown ${shown}`);
    t.match(await rowsOf(stage, buyer), [{ externalId: 'alice', discountPercent: 50 }]);
  };
  return { stage, buyer, dear, half, opening, isCharged };
}

void t.test(
  'a wallet that names the offer of its newest landing is charged as shown',
  async (t) => {
    const { buyer, half, isCharged } = await scene(t);
    t.equal((await post(buyer, half.subscriptionPda, { offerId: half.offerId })).status, 201);
    await isCharged();
  },
);

for (const isNamed of [true, false])
  void t.test(
    `the newest landing decides even with another blockhash, its offer named by the wallet: ${isNamed}`,
    async (t) => {
      const { buyer, half, isCharged } = await scene(t, { isChanged: true });
      const { subscriptionPda, offerId } = half;
      if (isNamed) t.equal((await post(buyer, subscriptionPda, { offerId })).status, 201);
      await isCharged();
    },
  );

void t.test(
  'when an older landing is sent to the relay again, the newest one is registered',
  async (t) => {
    const { buyer, dear, isCharged } = await scene(t);
    const { body } = await buyer.post<{ status: string }>('transactions', {
      ...{ transaction: addSignature(buyer.keypair, dear.transaction), offerId: dear.offerId },
    });
    t.match(body.data, { status: 'confirmed' });
    await isCharged();
  },
);

void t.test('the newest landing is registered while one of two endpoints lacks it', async (t) => {
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
  await isCharged();
});

void t.test(
  'a keeper registers a relayed subscription that the history did not show to the relay',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const merchant = await merchantOf(stage, plan);
    const buyer = await stage.buyer(plan);
    await offerOf(buyer);
    await nextBlockhash(stage);
    const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
    const { transaction, offerId } = await offerOf(buyer, { checkoutSessionId: session.id });
    const { chain } = stage.api.deps;
    const { getSignaturesForAddress } = chain;
    chain.getSignaturesForAddress = () => Promise.resolve([]);
    const { status, body } = await buyer.post('transactions', {
      ...{ transaction: addSignature(buyer.keypair, transaction), offerId },
    });
    chain.getSignaturesForAddress = getSignaturesForAddress;
    t.equal(status, 200);
    t.match(body.data, { status: 'confirmed', subscription: null });
    await stage.startKeeper();
    await registered(stage, buyer);
    t.match(await rowsOf(stage, buyer), [{ externalId: 'alice', discountPercent: 50 }]);
  },
);

void t.test(
  'an account is not resumed by an offer while its sponsored sign-up is not settled',
  async (t) => {
    const stage = await startSponsorStage(t, { blockMs: 0 });
    stage.net.mineBlocks(20);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    stage.net.fund(plan.merchant.address, { usdc: 1n });
    stage.net.mineBlocks(2);
    const merchant = await merchantOf(stage, plan);
    const wallet = stage.poor(50_000_000n);
    const offer = await stage.offer(plan, wallet);
    await stage.sign(offer, wallet);
    const { sponsor } = stage.sponsor();
    await sponsor.turn(true);
    stage.net.mineBlocks(3);
    stage.net.fund(wallet.address, { lamports: 1_000_000_000n });
    stage.net.mineBlocks(2);
    const { subscriptionPda } = offer;
    const of = { subscriber: wallet.address, plan: plan.pda, subscription: subscriptionPda };
    await stage.send([wallet], cancelInstructions(stage.net.programId, of));
    const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
    const { token } = await stage.api.signIn('subscriber', wallet);
    const body = { checkoutSessionId: session.id };
    const path = `/subscriber/plans/${plan.id}/subscribe`;
    t.equal((await stage.api.call('POST', path, { token, body })).status, 409);
    stage.net.mineBlocks(40);
    await sponsor.turn(true);
    const rows = await stage.sql<{ discountPercent: number | null; externalId: string | null }[]>`
    select discount_percent, external_id from subscriptions`;
    t.match(rows, [{ discountPercent: null, externalId: null }]);
  },
);
