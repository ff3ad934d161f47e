// The end of an attempt whose account is gone, from histories with a hole: what may have landed is
// not called expired.
import t, { type Test } from 'tap';
import { planAddress } from '../../../src/chain/program/addresses.ts';
import {
  cancelSubscriptionNow,
  type Instruction,
  revokeDelegation,
  subscribe,
} from '../../../src/chain/program/instructions.ts';
import type { SignatureInfo } from '../../../src/chain/rpc/responses.ts';
import type { Rpc } from '../../../src/chain/rpc/rpc.ts';
import { addSignature, unsignedTransaction } from '../../../src/chain/transactions/message.ts';
import { withoutStatuses } from '../../fixtures/agreement.ts';
import { startStage } from '../../fixtures/billing.ts';

/**
 * A first payment that is signed, and an endpoint without statuses whose histories have what
 * `listed` keeps of them. The account is opened early in a second, so that more fits into it.
 */
async function signed(t: Test, replaced: (rpc: Rpc) => Partial<Rpc> = withoutStatuses) {
  const stage = await startStage(t, { blockMs: 0 });
  const { net, rpc } = stage;
  const plan = await stage.plan({ amount: 5_000_000n });
  const wallet = stage.wallet();
  net.mineBlocks(40);
  while (net.now() % 1000 >= 250) net.mineBlocks();
  await stage.open(plan, wallet);
  const subscription = await stage.register(plan, wallet);
  const history = { keeps: (page: SignatureInfo[]) => page };
  const parts = stage.parts({
    ...replaced(rpc),
    getSignaturesForAddress: async (...args) =>
      history.keeps(await rpc.getSignaturesForAddress(...args)),
  });
  await parts.collector.turn();
  const [flying] = parts.taken;
  const [{ slot: openedIn }] = (await rpc.getSignaturesForAddress(subscription.pda)) as [
    SignatureInfo,
  ];
  const parties = { subscriber: wallet.address, plan: plan.pda, subscription: subscription.pda };
  const { merchant } = plan;
  /** Closes the account, and opens it again in the same transaction. */
  const close = async ({ reopens = false } = {}) => {
    const { periodStart, initId } = (await stage.onChain(subscription))!;
    const { planId, amount, periodHours } = plan.terms;
    const planBump = planAddress(net.programId, merchant.address, planId).bump;
    const terms = { planId, planBump, mint: net.mint, amount, periodHours };
    const instructions: Instruction[] = [
      cancelSubscriptionNow(net.programId, { ...parties, merchant: merchant.address, periodStart }),
      revokeDelegation(net.programId, { authority: wallet.address, ...parties }),
      ...(reopens
        ? [
            subscribe(net.programId, {
              ...{ ...parties, merchant: merchant.address },
              terms: { ...terms, createdAt: plan.createdAt, initId },
            }),
          ]
        : []),
    ];
    const { blockhash } = await rpc.getLatestBlockhash();
    const unsigned = unsignedTransaction(wallet.address, instructions, blockhash);
    const base64 = addSignature(merchant, addSignature(wallet, unsigned));
    await rpc.sendTransaction(Buffer.from(base64, 'base64'));
    const closedIn = BigInt(net.slot());
    net.mineBlocks();
    return closedIn;
  };
  const send = async () => {
    await rpc.sendTransaction(flying!.attempt.transaction);
    net.mineBlocks();
  };
  // The blockhash of a first payment may be older than the opening.
  const early = { ...flying!.attempt, blockhashSlot: openedIn - 1n };
  const end = async (settleTries: number, attempt = early) => {
    await parts.resolver.expired([{ ...flying!, attempt, settleTries }]);
    const [{ state }] = await stage.sql<[{ state: string }]>`
      select state from payment_attempts order by id limit 1`;
    return state;
  };
  return {
    stage,
    plan,
    subscription,
    wallet,
    history,
    openedIn,
    close,
    send,
    end,
    flying: flying!,
  };
}

void t.test('a history that lacks the closing of the account does not prove an end', async (t) => {
  const { stage, subscription, history, openedIn, close, send, end } = await signed(t);
  await send();
  stage.net.passSeconds(5);
  await close();
  stage.net.mineBlocks(200);
  // The endpoint's index of addresses has stalled after the opening.
  history.keeps = (page) => page.filter(({ slot }) => slot <= openedIn);
  t.equal(await end(4), 'open');
  history.keeps = (page) => page;
  t.equal(await end(4), 'landed');
  t.equal((await stage.payments(subscription)).length, 1);
});

void t.test('nor does one that lacks what is between two openings', async (t) => {
  const { stage, plan, subscription, wallet, history, openedIn, close, send, end } =
    await signed(t);
  await send();
  stage.net.passSeconds(5);
  await close();
  stage.net.passSeconds(100);
  await stage.open(plan, wallet);
  const reopenedIn = (await stage.rpc.getSignaturesForAddress(subscription.pda))[0]!.slot;
  stage.net.mineBlocks(200);
  history.keeps = (page) => page.filter(({ slot }) => slot <= openedIn || slot >= reopenedIn);
  t.equal(await end(4), 'open');
});

void t.test('nor does one that begins with a later opening in the same second', async (t) => {
  const { stage, flying, history, close, send, end } = await signed(t);
  await send();
  const reopenedIn = await close({ reopens: true });
  stage.net.passSeconds(5);
  await close();
  stage.net.mineBlocks(200);
  history.keeps = (page) => page.filter(({ slot }) => slot >= reopenedIn);
  t.equal(await end(4, flying.attempt), 'open');
});

void t.test('an opening that is listed without a block time proves it all the same', async (t) => {
  const { stage, history, openedIn, close, end } = await signed(t, () => ({}));
  stage.net.passSeconds(5);
  await close();
  stage.net.mineBlocks(200);
  history.keeps = (page) =>
    page.map((one) => (one.slot === openedIn ? { ...one, blockTime: null } : one));
  t.equal(await end(4), 'expired');
});

void t.test('an opening that a fork moved to another second proves it too', async (t) => {
  const { stage, plan, wallet, subscription, openedIn, end } = await signed(t);
  const before = (await stage.onChain(subscription))!;
  await stage.net.rpc('localnet_forgetBlocks', Number(BigInt(stage.net.slot()) - openedIn) + 1);
  stage.net.passSeconds(3);
  await stage.open(plan, wallet);
  stage.net.mineBlocks(200);
  const after = (await stage.onChain(subscription))!;
  t.not(after.periodStart, before.periodStart);
  t.equal(await end(3), 'open');
  t.equal(await end(4), 'expired');
});
