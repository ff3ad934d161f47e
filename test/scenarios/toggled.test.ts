// Wallets that are emptied between the keeper's read and the transaction, and topped up again. Each
// failed transaction costs the keeper its fee: their number per period is bounded, whatever the
// number of top-ups.
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import { RpcUnreachable } from '../../src/chain/rpc/errors.ts';
import type { Rpc } from '../../src/chain/rpc/rpc.ts';
import { transactionFee } from '../../src/chain/transactions/collection.ts';
import { Sweep } from '../../src/keeper/follow/sweep.ts';
import { startStage, HOUR } from '../fixtures/billing.ts';

const AMOUNT = 5_000_000;

/** Subscribed wallets, and acts of their owner. `rpc` replaces methods of the keeper's client. */
async function toggling(t: Test, count: number, rpc: Partial<Rpc> = {}) {
  const stage = await startStage(t, { blockMs: 0 });
  const plan = await stage.plan({ amount: BigInt(AMOUNT) });
  const wallets = await Promise.all(Array.from({ length: count }, () => stage.subscriber(plan)));
  const set = async (amount: number) => {
    for (const { wallet } of wallets)
      await stage.net.rpc('surfnet_setTokenAccount', wallet.address, stage.net.mint, { amount });
    stage.net.mineBlocks();
  };
  const failures: { lamports: number; payments: number }[] = [];
  const parts = stage.parts({
    // The owner empties the wallet before the transaction arrives.
    async sendTransaction(bytes, options) {
      await set(1);
      return stage.rpc.sendTransaction(bytes, options);
    },
    ...rpc,
  });
  const sweep = new Sweep(parts.context, { sweepMinutes: 60 });
  const ids = wallets.map(({ id }) => id);
  /** Runs one round: reads after a top-up, then collects until nothing is due. */
  const round = async () => {
    await sweep.readNow(ids);
    for (;;) {
      await parts.collect();
      if (parts.taken.length === 0) return;
      const sent = new Map(
        parts.taken.map(({ attempt }) => [
          attempt.signature,
          { lamports: Number(transactionFee(attempt.transaction)), payments: attempt.payments },
        ]),
      );
      const tracker = parts.track();
      tracker.add(parts.taken.splice(0));
      await stage.until('every attempt has ended', async () => {
        stage.net.mineBlocks(4);
        return (await stage.sql`select 1 from payment_attempts where state = 'open'`).length === 0;
      });
      await tracker.stop(0);
      // An expired transaction costs nothing.
      const failed = await stage.sql<{ signature: Buffer }[]>`
        select signature from transactions where state = 'failed'`;
      for (const { signature } of failed) {
        const transaction = sent.get(bs58.encode(signature));
        if (transaction !== undefined) failures.push(transaction);
      }
      await set(AMOUNT);
    }
  };
  const solOf = async () => Number(await stage.rpc.getBalance(stage.keeper.address));
  return { stage, wallets, set, round, failures, solOf };
}

void t.test(
  'thirty top-ups of ten wallets cause at most three failed transactions a wallet and one per retry',
  async (t) => {
    const { stage, wallets, set, round, failures, solOf } = await toggling(t, 10);
    const before = await solOf();
    for (let times = 0; times < 30; times += 1) {
      await set(AMOUNT);
      await round();
    }
    // The first failure of each wallet may share a transaction; the two early tries are sent alone.
    t.ok(failures.length <= 3 * wallets.length, `${failures.length} failed transactions`);
    const alone = failures.filter(({ payments }) => payments === 1).length;
    t.ok(alone >= 2 * wallets.length, `${alone} alone`);
    const lamports = failures.reduce((sum, one) => sum + one.lamports, 0);
    t.equal(before - (await solOf()), lamports, 'nothing else was paid for');
    t.ok(lamports <= 3 * wallets.length * 10_000, `${lamports} lamports`);

    const sofar = failures.length;
    stage.net.passSeconds(HOUR + 60);
    for (let times = 0; times < 5; times += 1) {
      await set(AMOUNT);
      await round();
    }
    t.equal(failures.length - sofar, wallets.length, 'the retry, and nothing early');
    for (const one of wallets) {
      t.match(await stage.row(one), { status: 'past_due', failedAttempts: 4 });
      t.equal((await stage.payments(one)).length, 4, 'each failure is recorded once');
    }
  },
);

void t.test(
  'for a wallet emptied before the simulation, no payment is sent and no failure recorded until its retry',
  async (t) => {
    let isFast = false;
    const made = toggling(t, 2, {
      async simulateTransaction(...args) {
        const { stage, set } = await made;
        if (isFast) await set(1);
        return stage.rpc.simulateTransaction(...args);
      },
    });
    const { stage, wallets, set, round, failures } = await made;
    await round();
    const first = failures.length;
    isFast = true;
    for (let times = 0; times < 5; times += 1) {
      await set(AMOUNT);
      await round();
    }
    t.equal(failures.length, first);
    for (const one of wallets)
      t.equal((await stage.payments(one)).length, (await stage.row(one)).failedAttempts);
    const announced = await stage.sql`select 1 from payments where tx_signature is null`;
    t.equal(announced.length, 0);
    const counted = await stage.sql`select early_tries from subscriptions`;
    t.same(counted, [{ earlyTries: 2 }, { earlyTries: 2 }]);

    stage.net.passSeconds(HOUR + 60);
    await set(AMOUNT);
    await round();
    t.equal(failures.length, first, 'the retry costs nothing either');
    for (const one of wallets)
      t.match((await stage.payments(one)).at(-1), {
        status: 'failed',
        txSignature: null,
        failureReason: 'insufficient_funds',
      });
  },
);

void t.test(
  'a payment whose simulation gets no answer is not sent but tried again, and the top-up is not counted',
  async (t) => {
    let [isAway, isHostile] = [false, true];
    const made = toggling(t, 1, {
      async simulateTransaction(...args) {
        if (isAway) throw new RpcUnreachable('simulateTransaction', []);
        return (await made).stage.rpc.simulateTransaction(...args);
      },
      async sendTransaction(...args) {
        const { stage, set } = await made;
        if (isHostile) await set(1);
        return stage.rpc.sendTransaction(...args);
      },
    });
    const { stage, wallets, set, round } = await made;
    const [one] = wallets;
    await round();
    [isAway, isHostile] = [true, false];
    await set(AMOUNT);
    await round();
    t.match(await stage.row(one!), { status: 'past_due', setbacks: 1 });
    isAway = false;
    stage.net.passSeconds(15);
    await round();
    t.match(await stage.row(one!), { status: 'active', setbacks: 0 });
    t.equal((await stage.payments(one!)).filter((p) => p.status === 'succeeded').length, 1);
  },
);
