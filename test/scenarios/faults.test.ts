// Faults between signing and settling: every period is paid once, and the records equal the chain.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { RpcUnreachable } from '../../src/chain/rpc/errors.ts';
import { timeOf } from '../../src/chain/time.ts';
import { transactionFee } from '../../src/chain/transactions/collection.ts';
import { signTransaction } from '../../src/chain/transactions/subscriptions.ts';
import {
  computeUnitLimit,
  computeUnitPrice,
} from '../../src/chain/transactions/system-instructions.ts';
import { expireKeeperLeases } from '../../src/db/operating/sandbox.ts';
import { claimDue } from '../../src/db/subscriptions/leases.ts';
import { recover } from '../../src/keeper/collect/claim.ts';
import { agree, arrived, due, knownElsewhere, sent, signAndDie } from '../fixtures/agreement.ts';
import { HOUR } from '../fixtures/billing.ts';
import { payTokens } from '../fixtures/tokens.ts';
import { readable } from '../fixtures/transactions.ts';

void t.test(
  'after a crash before the commit the claim expires and another keeper collects',
  async (t) => {
    const { stage, subscription } = await due(t);
    const now = timeOf(BigInt(stage.now() + 1));
    const claimed = await claimDue(stage.sql, {
      claimId: randomUUID(),
      chainNow: now,
      limit: 10,
      leaseSeconds: 3600,
    });
    t.match(claimed, [{ id: subscription.id }]);
    await stage.startKeeper();
    await pause(1500);
    t.same(await stage.payments(subscription), [], 'not while the lease lasts');
    await expireKeeperLeases(stage.sql);
    await agree(t, stage, subscription, 1);
  },
);

void t.test(
  'after a crash between commit and send the next keeper sends the same transaction',
  async (t) => {
    const { stage, subscription } = await due(t, { blockMs: 0 });
    const [signed] = await signAndDie(stage);
    await sent(stage, await stage.startKeeper());
    stage.mine();
    await agree(t, stage, subscription, 1);
    t.equal((await stage.payments(subscription))[0]?.txSignature, signed?.attempt.signature);
  },
);

void t.test('after a crash after the send the next keeper finds the landed payment', async (t) => {
  const { stage, subscription } = await due(t, { blockMs: 0 });
  const [signed] = await signAndDie(stage);
  await stage.rpc.sendTransaction(signed!.attempt.transaction);
  stage.mine();
  await stage.startKeeper();
  await agree(t, stage, subscription, 1);
  t.equal((await stage.payments(subscription))[0]?.txSignature, signed?.attempt.signature);
});

void t.test(
  'after a crash long ago the next keeper finds the landed payment in the history',
  async (t) => {
    const { stage, subscription } = await due(t, { blockMs: 0 });
    const [signed] = await signAndDie(stage);
    await stage.rpc.sendTransaction(signed!.attempt.transaction);
    stage.net.mineBlocks(200);
    stage.net.passSeconds(HOUR);
    stage.mine();
    await stage.startKeeper();
    await agree(t, stage, subscription, 1);
  },
);

void t.test(
  'after a crash between commit and send whose blockhash has expired, the payment is signed again and paid once',
  async (t) => {
    const { stage, subscription } = await due(t);
    const [signed] = await signAndDie(stage);
    stage.net.mineBlocks(200);
    await stage.startKeeper();
    await agree(t, stage, subscription, 1);
    t.not((await stage.payments(subscription))[0]?.txSignature, signed?.attempt.signature);
    const states = await stage.sql<
      { state: string }[]
    >`select state from payment_attempts order by id`;
    t.same(
      states.map(({ state }) => state),
      ['expired', 'landed'],
    );
  },
);

void t.test('a payment whose send times out although it landed is paid once', async (t) => {
  const { stage, subscription } = await due(t, { blockMs: 0 });
  const parts = stage.parts({
    async sendTransaction(bytes) {
      await stage.rpc.sendTransaction(bytes);
      throw new RpcUnreachable('sendTransaction', []);
    },
  });
  const flight = parts.track();
  t.teardown(() => flight.stop(0));
  await parts.collector.turn();
  flight.add(parts.taken);
  await arrived(stage, parts.taken);
  stage.mine();
  await agree(t, stage, subscription, 1);
});

void t.test(
  'a transaction that is dropped silently does not fail before its blockhash expires, then it is signed again',
  async (t) => {
    const { stage, subscription } = await due(t);
    await stage.net.rpc('localnet_setFault', { kind: 'drop', count: 3 });
    await stage.startKeeper();
    await agree(t, stage, subscription, 1);
    t.same(await stage.sql`select 1 from payments where status = 'failed'`, []);
    t.equal((await stage.row(subscription)).status, 'active');
  },
);

void t.test('a landed payment whose status is null at first is settled later', async (t) => {
  const { stage, subscription } = await due(t, { blockMs: 0 });
  let asked = 0;
  const parts = stage.parts({
    async getSignatureStatuses(signatures, options) {
      asked += 1;
      const answer = await stage.rpc.getSignatureStatuses(signatures, options);
      return asked < 8 ? { ...answer, statuses: signatures.map(() => null) } : answer;
    },
  });
  const flight = parts.track();
  t.teardown(() => flight.stop(0));
  await parts.collector.turn();
  flight.add(parts.taken);
  await arrived(stage, parts.taken);
  stage.mine();
  await agree(t, stage, subscription, 1);
  t.ok(asked >= 8);
});

void t.test(
  'a landed payment is settled although the polled endpoint does not know it',
  async (t) => {
    const { stage, subscription } = await due(t, { blockMs: 0 });
    const [signed] = await signAndDie(stage);
    await stage.rpc.sendTransaction(signed!.attempt.transaction);
    stage.net.mineBlocks(200);
    const parts = stage.parts(knownElsewhere(stage.rpc));
    const flight = parts.track();
    t.teardown(() => flight.stop(0));
    await expireKeeperLeases(stage.sql);
    await recover(parts.context, flight);
    await agree(t, stage, subscription, 1);
    t.equal((await stage.payments(subscription))[0]?.txSignature, signed?.attempt.signature);
  },
);

void t.test('a payment is collected while one endpoint responds with 429', async (t) => {
  const { stage, subscription } = await due(t, { lagPort: 0 });
  await stage.net.rpc('localnet_setFault', {
    kind: 'status',
    status: 429,
    endpoint: 'main',
    retryAfter: 1,
  });
  await stage.startKeeper({ rpcUrls: [stage.net.rpcUrl, stage.net.lagUrl!] });
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  await stage.net.rpc('localnet_clearFaults');
  await agree(t, stage, subscription, 1);
});

void t.test('a payment is collected although the preferred endpoint lags 20 blocks', async (t) => {
  const { stage, subscription } = await due(t, { lagPort: 0 });
  // The endpoint that lags has the treasury's account by now.
  stage.net.mineBlocks(60);
  await stage.net.rpc('localnet_setFault', { kind: 'lag', slots: 20 });
  await stage.startKeeper({ rpcUrls: [stage.net.lagUrl!, stage.net.rpcUrl] });
  await agree(t, stage, subscription, 1);
  stage.net.passSeconds(720 * HOUR + 5);
  await stage.until(
    'the second period is paid',
    async () => (await stage.payments(subscription)).length === 2,
  );
  await agree(t, stage, subscription, 2);
});

void t.test(
  'during a fee spike a payment raises its priority fee up to the cap and lands',
  async (t) => {
    const { stage, plan, subscription } = await due(t, { blockMs: 0 });
    const [rich, mint] = [stage.wallet(), stage.net.mint];
    stage.net.mineBlocks();
    const { blockhash } = await stage.rpc.getLatestBlockhash();
    const bid = async (amount: bigint, price: bigint) => {
      const pay = payTokens({ owner: rich.address, mint, to: stage.treasury.address, amount });
      await stage.rpc.sendTransaction(
        signTransaction(rich, [computeUnitLimit(50_000), computeUnitPrice(price), pay], blockhash)
          .bytes,
      );
      stage.net.mineBlocks();
    };
    const collected = async (count: number) => {
      const parts = stage.parts();
      const flight = parts.track();
      await parts.collector.turn();
      flight.add(parts.taken);
      await arrived(stage, parts.taken);
      await stage.until('it is paid', async () => {
        stage.net.mineBlocks(4);
        return (await stage.payments(subscription)).length === count;
      });
      await flight.stop(0);
      const { signature, transaction } = parts.taken[0]!.attempt;
      const { fee } = readable(await stage.rpc.getTransaction(signature));
      t.equal(fee, transactionFee(transaction));
      return fee - 5_000n;
    };
    for (let amount = 1n; amount <= 90n; amount += 1n) await bid(amount, 20_000_000n);
    t.equal(await collected(1), 5_000n, 'the cap of a payment');
    stage.net.mineBlocks(160);
    stage.net.passSeconds(720 * HOUR + 5);
    const floor = await collected(2);
    t.ok(floor > 0n && floor < 100n, `the floor once it is over, ${floor}`);
    t.equal((await stage.payments(subscription)).at(-1)?.amountGross, plan.terms.amount);
  },
);
