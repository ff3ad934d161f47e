// The end of an attempt: nothing is signed again while the earlier signature may still land.
import t, { type Test } from 'tap';
import {
  cancelSubscription,
  revokeDelegation,
  transferSubscription,
} from '../../../src/chain/program/instructions.ts';
import { createAbsenceJudge } from '../../../src/chain/rpc/absence.ts';
import type { Rpc } from '../../../src/chain/rpc/rpc.ts';
import { reconcile } from '../../../src/cli/operate/reconcile/compare.ts';
import { Resolver } from '../../../src/keeper/track/resolve.ts';
import { AMOUNT, due, signAndDie, withoutStatuses } from '../../fixtures/agreement.ts';
import {
  HOUR,
  type Plan,
  type Stage,
  startStage,
  type Subscription,
} from '../../fixtures/billing.ts';

const nothing = { done: [], unknown: [], isDue: false, seen: new Map() };

/** A payment that was signed `blocks` blocks ago and never sent. */
async function signed(t: Test, blocks: number, replaced: (rpc: Rpc) => Partial<Rpc> = () => ({})) {
  const { stage, plan, subscription } = await due(t, { blockMs: 0 });
  const parts = stage.parts(replaced(stage.rpc));
  await parts.collector.turn();
  const [flying] = parts.taken;
  stage.net.mineBlocks(blocks);
  const attempt = async () =>
    (
      await stage.sql<[{ state: string }]>`select state from payment_attempts order by id limit 1`
    )[0].state;
  return { stage, plan, subscription, flying: flying!, attempt, ...parts };
}

/** The subscriber cancels, closes the account when its period is over, and subscribes again. */
async function reopen(stage: Stage, plan: Plan, { pda, wallet }: Subscription) {
  const { programId } = stage.net;
  const parties = { subscriber: wallet.address, plan: plan.pda, subscription: pda };
  await stage.send([wallet], [cancelSubscription(programId, parties)]);
  stage.net.passSeconds(720 * HOUR);
  const close = { authority: wallet.address, plan: plan.pda, subscription: pda };
  await stage.send([wallet], [revokeDelegation(programId, close)]);
  stage.net.passSeconds(100);
  await stage.open(plan, wallet);
  stage.net.mineBlocks(200);
}

void t.test(
  'an attempt that was never sent expires with its blockhash, without an event, and its payment stays due',
  async (t) => {
    const { stage, subscription, flying, resolver, attempt } = await signed(t, 200);
    const before = await stage.row(subscription);
    t.same(
      (await resolver.expired([flying])).done.map(({ id }) => id),
      [subscription.id],
    );
    t.equal(await attempt(), 'expired');
    t.match(await stage.row(subscription), {
      status: 'active',
      dueAt: before.dueAt,
      claimId: null,
      failedAttempts: 0,
    });
    t.same(await stage.payments(subscription), []);
    t.same(
      (await stage.events(subscription)).map(({ type }) => type),
      ['subscription_created'],
    );
  },
);

void t.test(
  'an attempt does not expire until its blockhash is dead, nor while an endpoint knows its signature',
  async (t) => {
    const young = await signed(t, 100);
    t.same(await young.resolver.expired([young.flying]), nothing);
    t.equal(await young.attempt(), 'open');

    const confirmedOnly = await signed(t, 160);
    t.same(
      await confirmedOnly.resolver.expired([confirmedOnly.flying]),
      nothing,
      'the confirmed height is past it, the finalized is not',
    );

    const status = { slot: 1n, err: null, commitment: 'processed' as const };
    const known = await signed(t, 200, (rpc) => ({
      getSignatureStatuses: async (signatures, options) => ({
        ...(await rpc.getSignatureStatuses(signatures, options)),
        // One of several endpoints, not the first one asked, has it in its history only.
        statuses: signatures.map(() =>
          options?.everywhere === true && options.history === true ? status : null,
        ),
      }),
    }));
    const seen = new Map([[known.flying.attempt.signature, status]]);
    t.same(await known.resolver.expired([known.flying]), { ...nothing, seen });
    t.equal(await known.attempt(), 'open');
  },
);

void t.test(
  'an attempt of an account that was reopened expires once the history reaches the new account',
  async (t) => {
    let isListed = false;
    const listing = (rpc: Rpc): Partial<Rpc> => ({
      getSignaturesForAddress: async (...args) =>
        isListed ? rpc.getSignaturesForAddress(...args) : [],
    });
    const { stage, plan, subscription, flying, attempt, ...parts } = await signed(t, 0, listing);
    await reopen(stage, plan, subscription);
    // The judge of a public cluster. The address has an account again.
    const absence = createAbsenceJudge(stage.rpc, { onAlarm: () => undefined });
    const resolver = new Resolver({ ...parts.context, absence });
    const look = async (settleTries: number) =>
      (await resolver.expired([{ ...flying, settleTries }])).done.length;
    t.equal(await look(4), 0);
    t.equal(await attempt(), 'open', 'the history has not even the new account');
    isListed = true;
    t.equal(await look(3), 0);
    t.equal(await look(4), 1);
    t.equal(await attempt(), 'expired');
    t.same(await stage.payments(subscription), []);
    await parts.collect();
    t.match(await stage.row(subscription), { cancelRequestedBy: 'subscriber' });
  },
);

void t.test(
  'an attempt with a blockhash from before its account was opened expires once that account is gone',
  async (t) => {
    const { stage, plan, subscription, flying, resolver, attempt } = await signed(t, 0);
    const [opened] = await stage.rpc.getSignaturesForAddress(subscription.pda, { limit: 1 });
    await reopen(stage, plan, subscription);
    // A first payment may be signed with a blockhash that was read before the account was opened.
    const early = { ...flying.attempt, blockhashSlot: opened!.slot - 1n };
    const { done } = await resolver.expired([{ ...flying, attempt: early, settleTries: 4 }]);
    t.equal(done.length, 1);
    t.equal(await attempt(), 'expired');
  },
);

void t.test(
  'a payment that landed before its account was closed and reopened is recorded',
  async (t) => {
    // A node that was started from a snapshot has no history before it.
    let lostUpTo = -1n;
    const { stage, plan, subscription, flying, attempt, ...parts } = await signed(t, 0, (rpc) => ({
      ...withoutStatuses(rpc),
      getSignaturesForAddress: async (...args) =>
        (await rpc.getSignaturesForAddress(...args)).filter(({ slot }) => slot > lostUpTo),
    }));
    const { signature, transaction } = flying.attempt;
    await stage.rpc.sendTransaction(transaction);
    stage.net.mineBlocks();
    const { statuses } = await stage.rpc.getSignatureStatuses([signature]);
    await reopen(stage, plan, subscription);
    lostUpTo = statuses[0]!.slot;
    t.equal((await parts.resolver.expired([{ ...flying, settleTries: 4 }])).done.length, 0);
    lostUpTo = -1n;
    t.equal((await parts.resolver.expired([flying])).done.length, 1);
    t.equal(await attempt(), 'landed');
    t.match(await stage.payments(subscription), [{ txSignature: flying.attempt.signature }]);
  },
);

void t.test(
  'an attempt stays open while its account counts a pull that no endpoint shows',
  async (t) => {
    let blind = true;
    const { stage, plan, subscription, flying, resolver, attempt } = await signed(t, 0, (rpc) => ({
      getSignaturesForAddress: async (...args) =>
        blind ? [] : rpc.getSignaturesForAddress(...args),
    }));
    const pull = transferSubscription(stage.net.programId, {
      caller: plan.merchant.address,
      subscriber: subscription.wallet.address,
      plan: plan.pda,
      subscription: subscription.pda,
      mint: stage.net.mint,
      receiver: plan.merchant.address,
      amount: AMOUNT,
    });
    await stage.send([plan.merchant], [pull]);
    stage.net.mineBlocks(200);
    t.same(await resolver.expired([flying]), { ...nothing, unknown: [flying] });
    t.equal(await attempt(), 'open');
    blind = false;
    t.equal((await resolver.expired([flying])).done.length, 1, 'it was somebody else');
    t.equal(await attempt(), 'expired');
  },
);

void t.test(
  'an attempt with an unknown signature is recorded as paid when the history shows its pull',
  async (t) => {
    const { stage, subscription, flying, resolver, attempt } = await signed(t, 0, withoutStatuses);
    await stage.rpc.sendTransaction(flying.attempt.transaction);
    stage.net.mineBlocks(200);
    t.equal((await resolver.expired([flying])).done.length, 1);
    t.equal(await attempt(), 'landed');
    t.match(await stage.payments(subscription), [
      { status: 'succeeded', txSignature: flying.attempt.signature, amountGross: AMOUNT },
    ]);
  },
);

void t.test(
  'a payment that another keeper takes over is recorded with the fee in its signed transaction',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    stage.net.fund(stage.treasury.address, { lamports: 10_000_000_000n, usdc: 1n });
    const plan = await stage.plan({ amount: AMOUNT, merchant: stage.treasury });
    const subscription = await stage.subscriber(plan);
    const [flying] = await signAndDie(stage);
    await stage.rpc.sendTransaction(flying!.attempt.transaction);
    stage.mine();
    await stage.startKeeper();
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
    t.match(await stage.payments(subscription), [
      { source: 'keeper', amountGross: AMOUNT, platformFee: AMOUNT / 100n },
    ]);
    const reconciler = {
      sql: stage.sql,
      rpc: stage.rpc,
      programId: stage.net.programId,
      keepers: [stage.keeper.address],
    };
    const range = { since: new Date(0), until: new Date('2100-01-01'), repair: false };
    t.same((await reconcile(reconciler, range)).differences, []);
  },
);
