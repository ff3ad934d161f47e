// What goes wrong between signing and settling: whatever it is, every period is paid once, and what is recorded is what the chain moved.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { RpcUnreachable } from '../../src/chain/rpc-errors.ts';
import { cancelSubscription } from '../../src/chain/instructions.ts';
import { programEvents } from '../../src/chain/events.ts';
import { expireKeeperLeases } from '../../src/db/sandbox.ts';
import { claimDue } from '../../src/db/subscriptions.ts';
import { forceCancel } from '../../src/domain/cancel.ts';
import { timeOf } from '../../src/domain/network.ts';
import { createFlight } from '../../src/keeper/flight.ts';
import { HOUR, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';

const AMOUNT = 5_000_000n;

/** What the chain moved under a subscription, by transaction: the judge of everything below. */
async function pullsOnChain(stage: Stage, subscription: Subscription) {
  const found = [];
  for (const { signature, err } of await stage.rpc.getSignaturesForAddress(subscription.pda)) {
    if (err !== null) continue;
    const transaction = (await stage.rpc.getTransaction(signature))!;
    const transfers = programEvents(transaction, stage.net.programId).filter((event) => event.kind === 'transfer');
    if (transfers.length > 0) {
      const amount = transfers.reduce((sum, transfer) => sum + transfer.amount, 0n);
      found.push({ signature, amount, periodStart: transfers[0]!.periodStart });
    }
  }
  return found.reverse();
}

/** The chain and the database tell the same, `count` payments, each told once. */
async function agree(t: Test, stage: Stage, subscription: Subscription, count: number) {
  await stage.quiet(30_000);
  const pulls = await pullsOnChain(stage, subscription);
  const recorded = (await stage.payments(subscription)).filter(({ status }) => status === 'succeeded');
  t.same(
    recorded.map((payment) => ({
      signature: payment.txSignature,
      amount: payment.amountGross,
      periodStart: BigInt(payment.periodStart.getTime() / 1000),
    })),
    pulls,
    'what is recorded is what the chain moved',
  );
  t.equal(pulls.length, count, `${count} payments on chain`);
  t.equal(new Set(pulls.map(({ periodStart }) => periodStart)).size, count, 'one a period');
  const told = (await stage.events(subscription)).filter(({ type }) => type === 'payment_success');
  t.same(
    told.map(({ data }) => data.txSignature),
    pulls.map(({ signature }) => signature),
    'each told once',
  );
}

async function due(t: Test, options = {}) {
  const stage = await startStage(t, options);
  const plan = await stage.plan({ amount: AMOUNT });
  return { stage, plan, subscription: await stage.subscriber(plan) };
}

/** Claims, signs and commits, and then the process is gone. */
async function signAndDie(stage: Stage) {
  const { collector, taken } = stage.parts();
  await collector.turn();
  await expireKeeperLeases(stage.sql);
  return taken;
}

void t.test('crash before the commit: the claim runs out and another keeper collects', async (t) => {
  const { stage, subscription } = await due(t);
  const now = timeOf(BigInt(stage.now() + 1));
  const ids = await claimDue(stage.sql, { claimId: randomUUID(), chainNow: now, limit: 10, leaseSeconds: 3600 });
  t.same(ids, [subscription.id]);
  await stage.startKeeper();
  await pause(1500);
  t.same(await stage.payments(subscription), [], 'not while the lease lasts');
  await expireKeeperLeases(stage.sql);
  await agree(t, stage, subscription, 1);
});

void t.test('crash between commit and send: the next keeper sends the very same transaction', async (t) => {
  const { stage, subscription } = await due(t);
  const [signed] = await signAndDie(stage);
  await stage.startKeeper();
  await agree(t, stage, subscription, 1);
  t.equal((await stage.payments(subscription))[0]?.txSignature, signed?.attempt.signature);
});

void t.test('crash after the send: the next keeper finds it landed', async (t) => {
  const { stage, subscription } = await due(t);
  const [signed] = await signAndDie(stage);
  await stage.rpc.sendTransaction(signed!.attempt.transaction);
  await stage.startKeeper();
  await agree(t, stage, subscription, 1);
  t.equal((await stage.payments(subscription))[0]?.txSignature, signed?.attempt.signature);
});

void t.test('crash after the confirmation, long ago: the next keeper finds it in the history', async (t) => {
  const { stage, subscription } = await due(t);
  const [signed] = await signAndDie(stage);
  await stage.rpc.sendTransaction(signed!.attempt.transaction);
  stage.net.mineBlocks(200);
  stage.net.passSeconds(HOUR);
  await stage.startKeeper();
  await agree(t, stage, subscription, 1);
});

void t.test('crash between commit and send, blockhash expired meanwhile: signed anew, paid once', async (t) => {
  const { stage, subscription } = await due(t);
  const [signed] = await signAndDie(stage);
  stage.net.mineBlocks(200);
  await stage.startKeeper();
  await agree(t, stage, subscription, 1);
  t.not((await stage.payments(subscription))[0]?.txSignature, signed?.attempt.signature);
  const states = await stage.sql<{ state: string }[]>`select state from payment_attempts order by id`;
  t.same(
    states.map(({ state }) => state),
    ['expired', 'landed'],
  );
});

void t.test('a send that times out though it landed', async (t) => {
  const { stage, subscription } = await due(t);
  const parts = stage.parts({
    async sendTransaction(bytes) {
      await stage.rpc.sendTransaction(bytes);
      throw new RpcUnreachable('sendTransaction', []);
    },
  });
  const flight = createFlight(parts.context, parts.landing);
  t.teardown(() => flight.stop(0));
  await parts.collector.turn();
  flight.add(parts.taken);
  await agree(t, stage, subscription, 1);
});

void t.test('dropped silently and expired: never failed before its time, then signed anew', async (t) => {
  const { stage, subscription } = await due(t);
  await stage.net.rpc('localnet_setFault', { kind: 'drop', count: 3 });
  await stage.startKeeper();
  await agree(t, stage, subscription, 1);
  t.same(await stage.sql`select 1 from payments where status = 'failed'`, []);
  t.equal((await stage.row(subscription)).status, 'active');
});

void t.test('a status that is null at first and found later', async (t) => {
  const { stage, subscription } = await due(t);
  let asked = 0;
  const parts = stage.parts({
    async getSignatureStatuses(signatures, options) {
      asked += 1;
      const answer = await stage.rpc.getSignatureStatuses(signatures, options);
      return asked < 8 ? { ...answer, statuses: signatures.map(() => null) } : answer;
    },
  });
  const flight = createFlight(parts.context, parts.landing);
  t.teardown(() => flight.stop(0));
  await parts.collector.turn();
  flight.add(parts.taken);
  await agree(t, stage, subscription, 1);
  t.ok(asked >= 8);
});

void t.test('an endpoint that answers 429, beside a good one', async (t) => {
  const { stage, subscription } = await due(t, { lagPort: 0 });
  await stage.net.rpc('localnet_setFault', { kind: 'status', status: 429, endpoint: 'main', retryAfter: 1 });
  await stage.startKeeper({ rpcUrls: [stage.net.rpcUrl, stage.net.lagUrl!] });
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  await stage.net.rpc('localnet_clearFaults');
  await agree(t, stage, subscription, 1);
});

void t.test('an endpoint that lags 20 blocks behind, preferred to a good one', async (t) => {
  const { stage, subscription } = await due(t, { lagPort: 0 });
  await stage.net.rpc('localnet_setFault', { kind: 'lag', slots: 20 });
  await stage.startKeeper({ rpcUrls: [stage.net.lagUrl!, stage.net.rpcUrl] });
  await agree(t, stage, subscription, 1);
  stage.net.passSeconds(720 * HOUR + 5);
  await stage.until('the second period is paid', async () => (await stage.payments(subscription)).length === 2);
  await agree(t, stage, subscription, 2);
});

for (const keepers of [2, 4]) {
  void t.test(`${keepers} keepers at once: every subscription is paid once`, async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ amount: AMOUNT });
    const subscriptions = await Promise.all(Array.from({ length: 40 }, () => stage.subscriber(plan)));
    await Promise.all(Array.from({ length: keepers }, () => stage.startKeeper()));
    await stage.until('all are paid', async () => {
      const [{ paid }] = await stage.sql<[{ paid: number }]>`select count(*)::int as paid from payments`;
      return paid >= subscriptions.length;
    });
    for (const subscription of subscriptions.slice(0, 5)) await agree(t, stage, subscription, 1);
    const [{ signed, paid }] = await stage.sql<[{ signed: number; paid: number }]>`
      select (select count(*) from payment_attempts)::int as signed, (select count(*) from payments)::int as paid`;
    t.same({ signed, paid }, { signed: 40, paid: 40 });
    t.equal(await stage.balance(stage.treasury.address), 1n + (40n * AMOUNT) / 100n);
  });
}

void t.test('the subscriber cancels while a payment is on its way: it is recorded, and it is the last', async (t) => {
  const { stage, subscription } = await due(t);
  await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 30, count: 1 });
  await stage.startKeeper();
  await stage.until('a payment is under way', async () => (await stage.sql`select 1 from payment_attempts`).length === 1);
  await pause(100);
  const parties = { subscriber: subscription.wallet.address, plan: subscription.plan.pda, subscription: subscription.pda };
  await stage.send([subscription.wallet], [cancelSubscription(stage.net.programId, parties)]);
  await agree(t, stage, subscription, 1);
  await stage.until('the cancellation is seen', async () => (await stage.row(subscription)).cancelRequestedAt !== null);
  t.match(await stage.row(subscription), { status: 'active', nextPaymentDue: null });
  stage.net.passSeconds(720 * HOUR + 5);
  await stage.until('it is cancelled', async () => (await stage.row(subscription)).status === 'cancelled');
  await agree(t, stage, subscription, 1);
});

void t.test('forced to an end between commit and send: never sent', async (t) => {
  const { stage, subscription } = await due(t);
  await signAndDie(stage);
  await stage.sql.begin((tx) => forceCancel(tx, { id: subscription.id, status: 'active' }));
  await stage.startKeeper();
  await agree(t, stage, subscription, 0);
  t.same(
    (await stage.events(subscription)).map(({ type }) => type),
    ['subscription_created', 'cancel_forced'],
  );
  const [attempt] = await stage.sql<[{ state: string }]>`select state from payment_attempts`;
  t.equal(attempt.state, 'expired');
});

void t.test('a payment that lands after a forced end is recorded truthfully, and is the last', async (t) => {
  const { stage, subscription } = await due(t);
  await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 40, count: 1 });
  await stage.startKeeper();
  await stage.until('a payment is under way', async () => (await stage.sql`select 1 from payment_attempts`).length === 1);
  await pause(200);
  await stage.sql.begin((tx) => forceCancel(tx, { id: subscription.id, status: 'active' }));
  await stage.until('it has landed', async () => (await pullsOnChain(stage, subscription)).length === 1);
  await agree(t, stage, subscription, 1);
  t.match(await stage.row(subscription), { status: 'cancelled', dueAt: null });
  t.same(
    (await stage.events(subscription)).map(({ type, data }) => [type, data.status]),
    [
      ['subscription_created', 'active'],
      ['cancel_forced', 'cancelled'],
      ['payment_success', 'cancelled'],
    ],
  );
  stage.net.passSeconds(720 * HOUR + 5);
  await agree(t, stage, subscription, 1);
});

void t.test('a fork that drops a confirmed payment: the same transaction lands again, and only then it is recorded', async (t) => {
  const { stage, subscription } = await due(t, { blockMs: 60 });
  await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 12, count: 1 });
  await stage.startKeeper();
  await stage.until('the payment is confirmed', async () => {
    const [attempt] = await stage.sql<{ signature: string }[]>`select signature from payment_attempts`;
    if (attempt === undefined) return false;
    const { statuses } = await stage.rpc.getSignatureStatuses([attempt.signature]);
    return statuses[0]?.commitment === 'confirmed';
  });
  t.same(await stage.payments(subscription), [], 'confirmed is not final');
  await stage.net.rpc('localnet_forgetBlocks', 6);
  t.same(await pullsOnChain(stage, subscription), [], 'the payment is gone');
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  await agree(t, stage, subscription, 1);
});

void t.test('a fork that drops a confirmed payment and its blockhash: signed anew, recorded once', async (t) => {
  const { stage, subscription } = await due(t, { blockMs: 30 });
  await stage.startKeeper();
  await stage.until('the payment is confirmed', async () => (await pullsOnChain(stage, subscription)).length === 1);
  await stage.net.rpc('localnet_forgetBlocks', 8);
  t.same(await pullsOnChain(stage, subscription), []);
  await agree(t, stage, subscription, 1);
});

void t.test('killed while a batch is under way, keeper after keeper: every subscription is paid once', async (t) => {
  const stage = await startStage(t);
  const plan = await stage.plan({ amount: AMOUNT });
  const subscriptions = await Promise.all(Array.from({ length: 20 }, () => stage.subscriber(plan)));
  for (let round = 0; round < 3; round += 1) {
    const taken = await signAndDie(stage);
    await Promise.all(taken.slice(0, round * 7).map(({ attempt }) => stage.rpc.sendTransaction(attempt.transaction)));
  }
  await stage.startKeeper();
  for (const subscription of subscriptions) await agree(t, stage, subscription, 1);
});
