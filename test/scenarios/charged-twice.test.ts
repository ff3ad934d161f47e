// Two payments of the keeper in one period: it lost the commit of one that was in flight, and at 60
// % off both fit in the period.
import bs58 from 'bs58';
import { type Logger, pino } from 'pino';
import t, { type Test } from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { reconcile } from '../../src/cli/operate/reconcile/compare.ts';
import { creditOf } from '../../src/db/invoices/credits.ts';
import { readInvoices } from '../../src/db/invoices/invoices.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import { askRefund, readRefundGround, recordRefunds } from '../../src/domain/offers/refunds.ts';
import type { InFlightPayment } from '../../src/keeper/track/in-flight.ts';
import { AMOUNT, due, paidOnce, pullsOnChain, sent, signAndDie } from '../fixtures/agreement.ts';
import { HOUR, type Stage, type Subscription } from '../fixtures/billing.ts';
import { insertInvoice } from '../fixtures/rows.ts';

const GROSS = (AMOUNT * 2n) / 5n;
const FEE = GROSS / 100n;

/** Signs and commits a payment at 60 % off, then drops the commit. */
async function forgotten(t: Test) {
  const { stage, subscription } = await due(t, { blockMs: 400 });
  await stage.sql`update subscriptions set discount_percent = 60, discount_id = uuid_v7() where id = ${subscription.id}`;
  const [lost] = await signAndDie(stage);
  // Another blockhash makes the next signature differ.
  stage.net.mineBlocks(2);
  await stage.sql`delete from payment_attempts`;
  await stage.sql`delete from invoices`;
  await stage.sql`delete from transactions`;
  await stage.sql`update subscription_work set claim_id = null, lease_until = null`;
  return { stage, subscription, lost: lost! };
}

/** A keeper signs again, and its payment is final and recorded. */
async function paidAnew(stage: Stage, subscription: Subscription, log?: Logger) {
  const keeper = await stage.startKeeper({}, { ...(log && { log }) });
  await sent(stage, keeper);
  stage.net.mineBlocks(40);
  await paidOnce(stage, subscription);
  return keeper;
}

async function land(stage: Stage, { attempt }: InFlightPayment) {
  await stage.rpc.sendTransaction(attempt.transaction);
  await stage.until('the forgotten payment is final', async () => {
    stage.net.mineBlocks(10);
    const { statuses } = await stage.rpc.getSignatureStatuses([attempt.signature]);
    return statuses[0]?.err === null && statuses[0].commitment === 'finalized';
  });
}

const compared = ({ sql, rpc, net, keeper }: Stage, repair: boolean) =>
  reconcile(
    { sql, rpc, programId: net.programId, keepers: [keeper.address] },
    { since: new Date(0), until: new Date('2100-01-01'), repair },
  );

interface Recorded {
  id: string;
  appId: string;
  status: string;
  txSignature: string;
  further: boolean;
}

async function creditLeft({ sql }: Stage, { id }: Subscription): Promise<bigint> {
  const [row] = await sql<[{ credit: bigint }]>`
    select ${creditOf(sql)} as credit from subscriptions s where s.id = ${id}`;
  return row.credit;
}

/**
 * Checks the two payments, one event, and books that equal the chain; returns the further payment.
 */
async function bothBooked(t: Test, stage: Stage, subscription: Subscription): Promise<Recorded> {
  const rows = await stage.sql<Recorded[]>`select * from payments order by further`;
  const whole = { status: 'succeeded', source: 'keeper', amountGross: GROSS, platformFee: FEE };
  t.match(rows, [
    { ...whole, further: false, amountNet: GROSS - FEE, feeOwed: 0n },
    { ...whole, further: true, amountNet: GROSS - FEE, feeOwed: 0n },
  ]);
  t.same(
    rows.map(({ txSignature }) => txSignature).sort(),
    (await pullsOnChain(stage, subscription)).map(({ signature }) => signature).sort(),
  );
  t.same(
    (await stage.events(subscription)).map(({ type }) => type),
    ['subscription_created', 'payment_success'],
    'one a period',
  );
  t.same(await compared(stage, false), {
    recorded: 2,
    onChain: 2,
    elsewhere: { pulls: 0, plans: 0 },
    differences: [],
    unregistered: [],
  });
  return rows[1]!;
}

void t.test(
  'a second pull in a period is recorded with an alert, is credit, and can be refunded',
  async (t) => {
    const { stage, subscription, lost } = await forgotten(t);
    const said: Record<string, unknown>[] = [];
    const write = (line: string) => void said.push(JSON.parse(line) as Record<string, unknown>);
    const keeper = await paidAnew(stage, subscription, pino({ level: 'error' }, { write }));
    await land(stage, lost);
    await stage.until('both are recorded', async () => {
      // Pulls that are not final yet are looked up again after some seconds.
      stage.net.passSeconds(11);
      return (await stage.payments(subscription)).length === 2;
    });
    await stage.quiet();
    const further = await bothBooked(t, stage, subscription);
    t.match(
      await keeper.registry.metrics(),
      /billing_keeper_alerts_total\{(?=.*reason="charged_twice").*\} 1\n/,
    );
    const charged = said.filter(({ msg }) => msg === 'charged twice');
    t.equal(charged.length, 1);
    t.match(charged, [
      {
        level: 50,
        subscription: subscription.id,
        subscriptionPda: subscription.pda,
        signature: further.txSignature,
        amount: GROSS.toString(),
        reason: 'charged_twice',
      },
    ]);
    t.equal(await creditLeft(stage, subscription), GROSS, 'it is credit');
    await keeper.stop();

    const { wallet, plan } = subscription;
    const [mint, merchant, subscriber] = [stage.net.mint, plan.merchant.address, wallet.address];
    const ground = await readRefundGround(stage.rpc, { mint, merchant, subscriber });
    const [{ pda: subscriptionPda }, { id: planId }] = [subscription, plan];
    const asked = { ...further, planId, subscriptionId: subscription.id, subscriptionPda };
    const { offer, refund } = await stage.sql.begin((tx) =>
      askRefund(tx, { ...asked, subscriberWallet: subscriber }, null, ground),
    );
    t.equal(await creditLeft(stage, subscription), FEE, 'the refund takes the credit');
    await stage.sql`update refunds set status = 'expired' where id = ${refund.id}`;
    t.equal(await creditLeft(stage, subscription), GROSS, 'and gives it again if it expires');
    const before = await stage.balance(subscriber);
    await stage.rpc.sendTransaction(
      Buffer.from(addSignature(plan.merchant, offer.transaction), 'base64'),
    );
    const { context } = stage.parts();
    await stage.until('the refund is recorded', async () => {
      stage.net.mineBlocks(10);
      await stage.sql`update refunds set look_at = now() where look_at is not null`;
      await recordRefunds(context);
      return (await stage.sql`select 1 from refunds where status = 'succeeded'`).length === 1;
    });
    t.equal((await stage.balance(subscriber)) - before, GROSS - FEE);
    t.match(await stage.sql`select amount_refunded from payments where further`, [
      { amountRefunded: GROSS - FEE },
    ]);
    t.equal(await creditLeft(stage, subscription), FEE, 'found after all');
    stage.net.passSeconds(720 * HOUR);
    await stage.startKeeper();
    await stage.until('the next period is paid', async () => {
      stage.net.mineBlocks(10);
      return (await stage.payments(subscription)).length === 3;
    });
    t.match((await stage.payments(subscription)).at(-1), {
      amountGross: GROSS - FEE,
      creditSpent: FEE,
    });
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test('a second pull whose credit has paid the next period is not refunded', async (t) => {
  const { stage, subscription, lost } = await forgotten(t);
  const keeper = await paidAnew(stage, subscription);
  await land(stage, lost);
  await stage.until('both are recorded', async () => {
    stage.net.passSeconds(11);
    return (await stage.payments(subscription)).length === 2;
  });
  await stage.quiet();
  const further = await bothBooked(t, stage, subscription);
  stage.net.passSeconds(720 * HOUR);
  await stage.until('the next period is paid', async () => {
    stage.net.mineBlocks(10);
    return (await stage.payments(subscription)).length === 3;
  });
  t.match((await stage.payments(subscription)).at(-1), { source: 'credit', creditSpent: GROSS });
  await keeper.stop();
  const { wallet, plan } = subscription;
  const [mint, merchant, subscriber] = [stage.net.mint, plan.merchant.address, wallet.address];
  const ground = await readRefundGround(stage.rpc, { mint, merchant, subscriber });
  const whose = { subscriptionPda: subscription.pda, subscriberWallet: subscriber };
  const asked = { ...further, planId: plan.id, subscriptionId: subscription.id, ...whose };
  await t.rejects(
    stage.sql.begin((tx) => askRefund(tx, asked, null, ground)),
    { code: 'CONFLICT', message: /of which 0 base units are not spent yet/ },
  );
});

void t.test('reconcile records a second payment that no keeper has read, once', async (t) => {
  const { stage, subscription, lost } = await forgotten(t);
  await (await paidAnew(stage, subscription)).stop();
  await land(stage, lost);
  const { signature } = lost.attempt;
  const found = { kind: 'charged_twice', signature, subscriptionPda: subscription.pda };
  t.match((await compared(stage, false)).differences, [{ ...found, repaired: false }]);
  t.match((await compared(stage, true)).differences, [{ ...found, repaired: true }]);
  await bothBooked(t, stage, subscription);
  t.match(await stage.row(subscription), { status: 'active', claimId: null });
});

void t.test('a landed attempt of a paid period is settled as a further payment', async (t) => {
  const { stage, subscription, lost } = await forgotten(t);
  await (await paidAnew(stage, subscription)).stop();
  const { paidThrough } = await stage.row(subscription);
  const parts = stage.parts();
  // Inserts the lost attempt again, as after a restore of both halves of a history.
  const { signature, transaction, lastValidBlockHeight, periodStart } = lost.attempt;
  await stage.sql`update subscription_work set claim_id = ${lost.claimId}, lease_until = now() + interval '1 hour'`;
  const [{ id: transactionId }] = await stage.sql<[{ id: string }]>`
      insert into transactions (signature, bytes, last_valid_block_height)
      select signature, ${Buffer.from(transaction)}, ${lastValidBlockHeight}
      from (values (decode(${Buffer.from(bs58.decode(signature)).toString('hex')}, 'hex'))) as v (signature) returning id`;
  // The lost invoice covered the same time, which the one that was paid covers now.
  const from = new Date(periodStart.getTime() + 1000);
  const invoiceId = await insertInvoice(stage.sql, subscription.id, { amount: GROSS, from });
  const invoice = (await readInvoices(stage.sql, [invoiceId]))(invoiceId);
  await stage.sql`
      insert into payment_attempts (id, subscription_id, invoice_id, subscription_pda, transaction_id, period_start, claim_id, amount_gross, platform_fee, amount_net)
      values (${lost.attempt.id}, ${subscription.id}, ${invoiceId}, ${subscription.pda}, ${transactionId}, ${periodStart}, ${lost.claimId}, ${GROSS}, ${FEE}, ${GROSS - FEE})`;
  await land(stage, lost);
  const { statuses } = await stage.rpc.getSignatureStatuses([signature]);
  const { done, unknown } = await parts.resolver.landed([
    { ...lost, attempt: { ...lost.attempt, invoice }, status: statuses[0]! },
  ]);
  t.same([done.length, unknown.length], [1, 0]);
  await bothBooked(t, stage, subscription);
  t.match(await stage.sql`select state from payment_attempts where id = ${lost.attempt.id}`, [
    { state: 'landed' },
  ]);
  t.match(await stage.row(subscription), { status: 'active', paidThrough });
});
