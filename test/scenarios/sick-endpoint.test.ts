// Three endpoints, of which the first, which is asked first, says something else than the chain. It
// ends no transaction that may still land, and it stops none from being settled.
import t, { type Test } from 'tap';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { findDead } from '../../src/keeper/dead.ts';
import { due } from '../fixtures/agreement.ts';
import { startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { silent, type Stage } from '../fixtures/billing.ts';
import { startSponsorStage } from '../fixtures/sponsor-stage.ts';

type Rewrite = Parameters<typeof startRewritingEndpoint>[1];

/** A client of a sick endpoint and two honest ones. */
async function sickRpc(t: Test, { net }: Stage, rewrite: Rewrite) {
  const endpoints = await Promise.all(
    [rewrite, honest, honest].map((each) => startRewritingEndpoint(net.rpcUrl, each)),
  );
  const urls = endpoints.map(({ url }) => url);
  const rpc = createRpc({ urls, log: silent, probeMs: Infinity });
  t.teardown(async () => {
    await rpc.close();
    for (const endpoint of endpoints) endpoint.close();
  });
  return rpc;
}

const honest: Rewrite = (_method, _params, result) => result;

/** Names the newest blockhash with a slot and a height that are long past. */
const staleBlockhash: Rewrite = (method, _params, result) => {
  if (method !== 'getLatestBlockhash') return result;
  const { value } = result as { value: { blockhash: string } };
  return {
    context: { slot: 1 },
    value: { blockhash: value.blockhash, lastValidBlockHeight: 1 },
  };
};

/** A payment of 40 % of the plan's amount, signed and not sent. */
async function signed(t: Test, rewrite: Rewrite) {
  const { stage, subscription } = await due(t, { blockMs: 0 });
  await stage.sql`update subscriptions set discount_percent = 60`;
  stage.net.mineBlocks(60);
  const rpc = await sickRpc(t, stage, rewrite);
  const parts = stage.parts(rpc);
  await parts.collector.turn();
  t.equal(parts.taken.length, 1);
  const state = async () =>
    (await stage.sql<{ state: string }[]>`select state from payment_attempts`)
      .map((one) => one.state)
      .join();
  return { stage, subscription, rpc, state, ...parts };
}

/** A sponsored sign-up whose wallet has signed it. */
async function signUp(t: Test, rewrite: Rewrite) {
  const stage = await startSponsorStage(t, { blockMs: 0 });
  stage.net.mineBlocks(60);
  const plan = await stage.plan();
  stage.net.fund(plan.merchant.address, { usdc: 1n });
  const wallet = stage.poor();
  const offer = await stage.offer(plan, wallet);
  await stage.sign(offer, wallet);
  const { sponsor } = stage.sponsor(await sickRpc(t, stage, rewrite));
  t.teardown(() => sponsor.stop());
  return { stage, offer, sponsor };
}

void t.test('a blockhash with a slot that is too low ends no payment early', async (t) => {
  const { stage, rpc, taken } = await signed(t, staleBlockhash);
  const deadAfter = async (blocks: number) => {
    stage.net.mineBlocks(blocks);
    return (await findDead(rpc, taken)).dead.length;
  };
  t.equal(await deadAfter(0), 0, 'no endpoint has finalized the blockhash');
  t.equal(await deadAfter(100), 0);
  t.equal(await deadAfter(100), 1);
});

void t.test('nor a sponsored sign-up', async (t) => {
  const { stage, offer, sponsor } = await signUp(t, staleBlockhash);
  await stage.net.rpc('localnet_setFault', { kind: 'drop' });
  await sponsor.turn(true);
  t.match(await stage.progress(offer), { state: 'sent' });
  stage.net.mineBlocks(200);
  await stage.work(sponsor, offer, 'lapsed');
});
