// Pulls by a plan's owner while no keeper reads: each is recorded, however the subscription
// continues. (The plain case is in collect.test.ts.)
import t, { type Test } from 'tap';
import {
  cancelSubscription,
  revokeDelegation,
  transferSubscription,
} from '../../src/chain/program/instructions.ts';
import { timeOf } from '../../src/chain/time.ts';
import { forceCancel } from '../../src/domain/change/cancel.ts';
import {
  checkRegistration,
  storeRegistration,
} from '../../src/domain/registration/registration.ts';
import { AMOUNT, agree, due, sent, signAndDie } from '../fixtures/agreement.ts';
import { HOUR, type Stage, type Subscription } from '../fixtures/billing.ts';

const PERIOD = 720 * HOUR;

const partiesOf = ({ wallet, plan, pda }: Subscription) => ({
  subscriber: wallet.address,
  plan: plan.pda,
  subscription: pda,
});

async function ownerPulls(stage: Stage, subscription: Subscription) {
  const { merchant } = subscription.plan;
  const pull = {
    ...partiesOf(subscription),
    caller: merchant.address,
    receiver: merchant.address,
    mint: stage.net.mint,
    amount: AMOUNT,
  };
  await stage.send([merchant], [transferSubscription(stage.net.programId, pull)]);
}

/** The subscriber closes the account after its cancellation has taken effect. */
async function closeAccount(stage: Stage, { wallet, plan, pda }: Subscription) {
  const closing = { authority: wallet.address, plan: plan.pda, subscription: pda };
  await stage.send([wallet], [revokeDelegation(stage.net.programId, closing)]);
}

const sourcesOf = async (stage: Stage, subscription: Subscription) =>
  (await stage.payments(subscription)).map(({ source, platformFee }) => ({ source, platformFee }));
const typesOf = async (stage: Stage, subscription: Subscription) =>
  (await stage.events(subscription)).map(({ type }) => type);

/** A subscription that a keeper paid once before it was stopped; the next period has begun. */
async function paidAndLeft(t: Test) {
  const { stage, subscription } = await due(t);
  const keeper = await stage.startKeeper();
  await stage.until(
    'the first payment is settled',
    async () => (await stage.payments(subscription)).length === 1,
  );
  await stage.quiet();
  await keeper.stop();
  stage.net.passSeconds(PERIOD + 5);
  return { stage, subscription };
}

const OURS = { source: 'keeper', platformFee: AMOUNT / 100n };
const THEIRS = { source: 'foreign', platformFee: 0n };

void t.test(
  'a pull by the plan’s owner and the keeper’s payment that lands a period later are both recorded',
  async (t) => {
    const { stage, subscription } = await due(t, { blockMs: 0 });
    // The keeper has read, signed and sent; the payment is not on chain yet.
    await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 90, count: 1 });
    await sent(stage, await stage.startKeeper());
    await ownerPulls(stage, subscription);
    stage.net.passSeconds(PERIOD + 5);
    stage.net.mineBlocks(90);
    stage.mine();
    await agree(t, stage, subscription, 2);
    t.same(await sourcesOf(stage, subscription), [THEIRS, OURS]);
  },
);

void t.test('a pull by the plan’s owner before a forced cancellation is recorded', async (t) => {
  const { stage, subscription } = await paidAndLeft(t);
  await ownerPulls(stage, subscription);
  await stage.sql.begin((tx) => forceCancel(tx, { id: subscription.id, status: 'active' }));
  await stage.startKeeper();
  await stage.until(
    'there is nothing left to do',
    async () => (await stage.row(subscription)).dueAt === null,
  );
  await agree(t, stage, subscription, 2);
  t.same(await sourcesOf(stage, subscription), [OURS, THEIRS]);
  t.same(await typesOf(stage, subscription), [
    'subscription_created',
    'payment_success',
    'cancel_forced',
    'payment_success',
  ]);
  t.equal((await stage.row(subscription)).status, 'cancelled');
});

void t.test(
  'a pull by the plan’s owner before the subscriber closed the account is recorded before the end',
  async (t) => {
    const { stage, subscription } = await paidAndLeft(t);
    const { wallet } = subscription;
    await ownerPulls(stage, subscription);
    await stage.send([wallet], [cancelSubscription(stage.net.programId, partiesOf(subscription))]);
    stage.net.passSeconds(PERIOD + 5);
    await closeAccount(stage, subscription);
    await stage.startKeeper();
    await stage.until(
      'it is cancelled',
      async () => (await stage.row(subscription)).status === 'cancelled',
    );
    await agree(t, stage, subscription, 2);
    t.same(await sourcesOf(stage, subscription), [OURS, THEIRS]);
    t.same(await typesOf(stage, subscription), [
      'subscription_created',
      'payment_success',
      'cancel_requested',
      'payment_success',
      'cancel_finalized',
    ]);
  },
);

/**
 * Closes the account, opens another at its address some minutes later, and registers it as the API
 * does.
 */
async function openAnew(stage: Stage, subscription: Subscription): Promise<Subscription> {
  const { wallet, plan, pda } = subscription;
  const { net, sql, rpc, keeper, treasury } = stage;
  await closeAccount(stage, subscription);
  net.passSeconds(600);
  await stage.open(plan, wallet);
  const network = {
    programId: net.programId,
    mint: net.mint,
    puller: keeper.address,
    treasury: treasury.address,
  };
  const request = {
    appId: plan.appId,
    planId: plan.id,
    subscriptionPda: pda,
    wallet: wallet.address,
  };
  const registration = await checkRegistration(sql, rpc, network, request);
  const id = await sql.begin((tx) => storeRegistration(tx, registration));
  return { id, pda, wallet, plan };
}

for (const isForced of [false, true])
  void t.test(
    `a pull by the plan’s owner before an account was ${isForced ? 'force-cancelled, ' : ''}closed and reopened is recorded for its own registration`,
    async (t) => {
      const { stage, subscription: old } = await paidAndLeft(t);
      const { initId, periodStart } = (await stage.onChain(old))!;
      await stage.sql`
        update subscriptions set chain_init_id = ${initId}, chain_period_start = ${timeOf(periodStart)} where id = ${old.id}`;
      await ownerPulls(stage, old);
      if (isForced)
        await stage.sql.begin((tx) => forceCancel(tx, { id: old.id, status: 'active' }));
      await stage.send([old.wallet], [cancelSubscription(stage.net.programId, partiesOf(old))]);
      stage.net.passSeconds(PERIOD + 5);
      const anew = await openAnew(stage, old);
      await stage.startKeeper();
      await stage.until(
        'there is nothing left to do for the old one',
        async () => (await stage.row(old)).dueAt === null,
      );
      await stage.quiet();
      t.same(await sourcesOf(stage, old), [OURS, THEIRS]);
      t.same(await typesOf(stage, old), [
        'subscription_created',
        'payment_success',
        isForced ? 'cancel_forced' : 'cancel_finalized',
        'payment_success',
      ]);
      t.same(await sourcesOf(stage, anew), [OURS]);
    },
  );

/**
 * A paid subscription that was force-cancelled and registered again, a period later. Both rows are
 * due, and the ended one is claimed by a keeper that is gone.
 */
async function registeredAgain(t: Test) {
  const { stage, subscription: old, plan } = await due(t);
  const keeper = await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(old)).length === 1);
  await stage.quiet();
  await stage.sql.begin((tx) => forceCancel(tx, { id: old.id, status: 'active' }));
  const again = await stage.register(plan, old.wallet);
  await stage.until(
    'the payment counts',
    async () => (await stage.row(again)).paidThrough !== null,
  );
  await keeper.stop();
  const { paidThrough } = await stage.row(old);
  stage.net.passSeconds(PERIOD + 5);
  // A keeper has read it at its end. It is due again, for another keeper that holds its lease.
  await stage.sql`
    update subscription_work set due_at = ${new Date(stage.now() * 1000)},
      claim_id = gen_random_uuid(), lease_until = now() + interval '1 hour'
    where subscription_id = ${old.id}`;
  const untouched = async () => {
    t.match(await stage.row(old), { status: 'cancelled', paidThrough });
    t.equal((await stage.payments(old)).length, 1);
    t.same(await typesOf(stage, old), ['subscription_created', 'payment_success', 'cancel_forced']);
    t.match(await sourcesOf(stage, again), [OURS]);
    t.same(await typesOf(stage, again), ['subscription_created', 'payment_success']);
  };
  return { stage, old, again, untouched };
}

void t.test(
  'a payment of an account’s new registration is not recorded under the ended one',
  async (t) => {
    const { stage, old, again, untouched } = await registeredAgain(t);
    await stage.startKeeper();
    await stage.until('it is paid again', async () => (await stage.payments(again)).length === 1);
    await stage.sql`update subscription_work set lease_until = now() - interval '1 second' where subscription_id = ${old.id}`;
    await stage.until(
      'the ended one is looked at',
      async () => (await stage.row(old)).dueAt === null,
    );
    await untouched();
  },
);

void t.test(
  'a payment in flight of a new registration is not recorded under the ended one',
  async (t) => {
    const { stage, old, untouched } = await registeredAgain(t);
    const [flying] = await signAndDie(stage);
    await stage.rpc.sendTransaction(flying!.attempt.transaction);
    stage.net.mineBlocks(40);
    const { claimId } = await stage.row(old);
    await stage.parts().collector.turn();
    t.match(await stage.row(old), { claimId }, 'the address has an open attempt');
    await stage.startKeeper();
    await stage.quiet();
    await untouched();
  },
);
