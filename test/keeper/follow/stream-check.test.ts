// Compares what a stream reported with the program's signatures on a real chain.
import t from 'tap';
import { keeperTimes } from '../../../src/keeper/base/times.ts';
import { StreamCheck } from '../../../src/keeper/follow/stream-check.ts';
import { silent, type Stage, startStage } from '../../fixtures/billing.ts';

const HOUR_MS = 3_600_000;

/** A check whose stream begins now, and a clock for it. */
async function startCheck(stage: Stage, rpc = stage.rpc) {
  const { net } = stage;
  let losses = 0;
  let now = 0;
  const check = new StreamCheck(
    { rpc, programId: net.programId, log: silent, times: keeperTimes },
    { onLoss: () => (losses += 1), now: () => now },
  );
  const reachSlot = async () => check.slot(await rpc.getSlot());
  await reachSlot();
  net.mineBlocks(1);
  return {
    check,
    reachSlot,
    losses: () => losses,
    passMs: (ms: number) => (now += ms),
    /** Sends a transaction of the program; resolves with its signature and slot. */
    transact: async () => {
      const before = new Set((await listed()).map(({ signature }) => signature));
      await stage.plan();
      const { signature, slot } = (await listed()).find((one) => !before.has(one.signature))!;
      return { signature, slot };
    },
    /** Makes every signature so far old enough to be compared. */
    settle: async () => {
      net.mineBlocks(40);
      await reachSlot();
    },
  };
  function listed() {
    return rpc.getSignaturesForAddress(net.programId, { commitment: 'confirmed' });
  }
}

void t.test('a transaction that the stream lost is reported once, at the next check', async (t) => {
  const stage = await startStage(t, { blockMs: 0 });
  const { check, transact, settle, losses } = await startCheck(stage);
  for (let each = 0; each < 2; each += 1) {
    const { signature, slot } = await transact();
    check.hear(signature, slot);
  }
  await settle();
  t.equal(await check.turn(), false);
  t.equal(losses(), 0, 'everything was heard');
  const lost = await transact();
  await check.turn();
  t.equal(losses(), 0, 'its notification may be late');
  await settle();
  await check.turn();
  t.equal(losses(), 1, `${lost.signature} was not heard`);
  await settle();
  await check.turn();
  t.equal(losses(), 1, 'and once is enough');
});

void t.test('transactions from before the stream opened are not compared', async (t) => {
  const stage = await startStage(t, { blockMs: 0 });
  await stage.plan();
  const { check, transact, settle, reachSlot, losses } = await startCheck(stage);
  await transact();
  check.reopened();
  await settle();
  await check.turn();
  t.equal(losses(), 0, 'the reconnect starts a sweep of its own');
  await transact();
  await settle();
  await reachSlot();
  await check.turn();
  t.equal(losses(), 1);
});

void t.test(
  'after an hour without a complete check of the stream, all subscriptions are read again',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const { check, passMs, settle, losses } = await startCheck(stage);
    passMs(HOUR_MS - 1);
    await check.turn();
    t.equal(losses(), 0);
    // The stream is silent: no slot comes.
    passMs(1);
    await check.turn();
    t.equal(losses(), 1);
    await check.turn();
    t.equal(losses(), 1, 'once an hour');
    await settle();
    await check.turn();
    passMs(HOUR_MS - 1);
    await check.turn();
    t.equal(losses(), 1, 'a complete check counts');
  },
);

void t.test('transactions beyond the maximum per check are read within an hour', async (t) => {
  const stage = await startStage(t, { blockMs: 0 });
  let isCrowded = true;
  const info = { signature: 'of another', err: null, blockTime: 0, memo: null };
  const rpc = Object.create(stage.rpc, {
    getSignaturesForAddress: {
      value: async (...asked: Parameters<typeof stage.rpc.getSignaturesForAddress>) =>
        isCrowded
          ? Array.from({ length: 1000 }, () => ({ ...info, slot: 1n << 40n }))
          : stage.rpc.getSignaturesForAddress(...asked),
    },
  }) as typeof stage.rpc;
  const { check, passMs, settle, losses } = await startCheck(stage, rpc);
  await settle();
  await check.turn();
  isCrowded = false;
  passMs(HOUR_MS - 1);
  await settle();
  await check.turn();
  t.equal(losses(), 0);
  passMs(1);
  await settle();
  await check.turn();
  t.equal(losses(), 1, 'a later complete check does not make up for it');
  passMs(HOUR_MS - 1);
  await settle();
  await check.turn();
  passMs(1);
  await check.turn();
  t.equal(losses(), 1, 'once');
});
