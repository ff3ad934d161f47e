// Three endpoints, of which the first, which is asked first, says something else than the chain. It
// ends no transaction that may still land, and it stops none from being settled.
import t, { type Test } from 'tap';
import { keeperTimes } from '../../src/keeper/base/times.ts';
import { findDead } from '../../src/keeper/read/dead.ts';
import { due, pullsOnChain } from '../fixtures/agreement.ts';
import { type Rewrite, rewritingRpc } from '../fixtures/bad-endpoint.ts';
import type { Stage } from '../fixtures/billing.ts';
import { startSponsorStage } from '../fixtures/sponsor-stage.ts';
import { revokeApproval } from '../fixtures/tokens.ts';

/** A client of a sick endpoint and two honest ones. */
const sickRpc = (t: Test, { net }: Stage, rewrite: Rewrite) =>
  rewritingRpc(t, net.rpcUrl, [rewrite, honest, honest]);

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

interface Status {
  slot: number;
  err: unknown;
  confirmations: number | null;
  confirmationStatus: string;
}
type Change = (status: Status | null, slot: number, signature: string) => Status | null;

/** Changes the status of each signature. `told` is the number of statuses that were asked for. */
function statuses(change: Change) {
  let asked = 0;
  const rewrite: Rewrite = (method, [signatures], result) => {
    if (method !== 'getSignatureStatuses') return result;
    const { context, value } = result as { context: { slot: number }; value: (Status | null)[] };
    asked += value.length;
    const told = value.map((status, index) =>
      change(status, context.slot, (signatures as string[])[index]!),
    );
    return { context, value: told };
  };
  return { rewrite, told: () => asked };
}

const finalAt = (slot: number, err: unknown = null): Status => ({
  ...{ slot, err, confirmations: null, confirmationStatus: 'finalized' },
});

/** Invents a final failure of each transaction that it does not have. */
const inventedFailure = () =>
  statuses((status, slot) => status ?? finalAt(slot, { InstructionError: [4, { Custom: 400 }] }));

/** Shows every transaction as processed, forever. */
const stuck = () =>
  statuses((status) => status && { ...status, confirmations: 0, confirmationStatus: 'processed' });

/** Shows each transaction as final at the first question, and then as it is. */
function finalOnce() {
  const known = new Set<string>();
  return statuses((status, slot, signature) => {
    if (known.has(signature)) return status;
    known.add(signature);
    return status ?? finalAt(slot);
  });
}

/** A payment of 40 % of the plan's amount, signed and not sent. */
async function signed(t: Test, rewrite: Rewrite) {
  const { stage, subscription } = await due(t, { blockMs: 0 });
  await stage.sql`update subscriptions set discount_percent = 60, discount_id = uuid_v7()`;
  stage.net.mineBlocks(60);
  const rpc = await sickRpc(t, stage, rewrite);
  const parts = stage.parts(rpc);
  await parts.collector.turn();
  t.equal(parts.taken.length, 1);
  const state = async () =>
    (await stage.sql<{ state: string }[]>`select state from payment_attempts`)
      .map((one) => one.state)
      .join();
  const settled = (as: string) => stage.until(`it is ${as}`, async () => (await state()) === as);
  const follow = () => {
    const tracker = parts.track();
    t.teardown(() => tracker.stop(0));
    tracker.add(parts.taken);
    return tracker;
  };
  return { stage, subscription, rpc, state, settled, follow, ...parts };
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

void t.test('a blockhash with a slot that is too low expires no payment early', async (t) => {
  const { stage, rpc, taken } = await signed(t, staleBlockhash);
  const deadAfter = async (blocks: number) => {
    stage.net.mineBlocks(blocks);
    return (await findDead(rpc, taken)).dead.length;
  };
  t.equal(await deadAfter(0), 0, 'no endpoint has finalized the blockhash');
  t.equal(await deadAfter(100), 0);
  t.equal(await deadAfter(100), 1);
});

void t.test(
  'a blockhash with a slot that is too low lapses no sponsored sign-up early',
  async (t) => {
    const { stage, offer, sponsor } = await signUp(t, staleBlockhash);
    await stage.net.rpc('localnet_setFault', { kind: 'drop' });
    await sponsor.turn(true);
    t.match(await stage.progress(offer), { state: 'sent' });
    stage.net.mineBlocks(200);
    await stage.work(sponsor, offer, 'lapsed');
  },
);

void t.test('a failure that only one endpoint reports ends no payment', async (t) => {
  const { rewrite, told } = inventedFailure();
  const { stage, subscription, state, settled, follow } = await signed(t, rewrite);
  await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 10 });
  follow();
  await stage.until('it is told of', async () => told() >= 10);
  t.equal(await state(), 'open');
  stage.net.mineBlocks(60);
  await settled('landed');
  t.equal((await pullsOnChain(stage, subscription)).length, 1);
});

void t.test('a failure that only one endpoint reports ends no sponsored sign-up', async (t) => {
  const { rewrite, told } = inventedFailure();
  const { stage, offer, sponsor } = await signUp(t, rewrite);
  await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 10 });
  while (told() < 5) await sponsor.turn(true);
  t.match(await stage.progress(offer), { state: 'sent' });
  stage.net.mineBlocks(60);
  await stage.work(sponsor, offer, 'final');
});

void t.test(
  'a failure that only one endpoint reports does not keep a dead payment open',
  async (t) => {
    const { stage, settled, follow } = await signed(t, inventedFailure().rewrite);
    await stage.net.rpc('localnet_setFault', { kind: 'drop' });
    follow();
    stage.net.mineBlocks(200);
    await settled('expired');
  },
);

void t.test('a failure that two endpoints report settles the payment as failed', async (t) => {
  const { stage, subscription, settled, follow } = await signed(t, statuses(() => null).rewrite);
  const { wallet } = subscription;
  stage.mine();
  await stage.send([wallet], [revokeApproval({ owner: wallet.address, mint: stage.net.mint })]);
  follow();
  await settled('failed');
  t.match(await stage.row(subscription), { status: 'past_due' });
});

void t.test(
  'a payment is settled even if one endpoint never shows more than processed',
  async (t) => {
    const { stage, settled, follow } = await signed(t, stuck().rewrite);
    const tracker = follow();
    const flying = () => [...tracker.inFlight.transactions.values()][0];
    await stage.until('it has arrived', async () => (flying()?.status ?? null) !== null);
    stage.net.mineBlocks(200);
    Object.assign(flying()!, { takenAt: performance.now() - keeperTimes.poll.overdueMs });
    await settled('landed');
  },
);

void t.test('a payment that one endpoint wrongly reported as final can expire', async (t) => {
  const { stage, settled, follow } = await signed(t, finalOnce().rewrite);
  await stage.net.rpc('localnet_setFault', { kind: 'drop' });
  follow();
  stage.net.mineBlocks(200);
  await settled('expired');
});
