// Keepers that die after each step, transactions that never land, and forks: exactly one
// subscription and one payment, or none, told to the page.
import t, { type Test } from 'tap';
import type { Keypair } from '../../src/chain/keypair.ts';
import {
  cancelSubscription,
  revokeDelegation,
  type SubscriptionParties,
  transferSubscription,
} from '../../src/chain/program/instructions.ts';
import { createRpc } from '../../src/chain/rpc/client.ts';
import type { LocalnetOptions } from '../../src/local/chain/start.ts';
import { knownElsewhere, withoutStatuses } from '../fixtures/agreement.ts';
import { HOUR, type Plan, silent } from '../fixtures/billing.ts';
import {
  type OfferMade,
  type ProgressMade,
  type SponsorStage,
  type SponsorSteps,
  startSponsorStage,
} from '../fixtures/sponsor-stage.ts';

/** The database rows of the wallet's sign-up. */
async function books({ sql }: SponsorStage) {
  const [counts] = await sql<
    [{ subscriptions: number; payments: number; open: number; transactions: number }]
  >`
    select (select count(*)::int from subscriptions) as subscriptions,
      (select count(*)::int from payments) as payments,
      (select count(*)::int from payment_attempts where state = 'open') as open,
      (select count(*)::int from transactions where state = 'landed') as transactions`;
  return counts;
}
const PERIOD = 720 * HOUR;
type Parties = SubscriptionParties & { wallet: Keypair };
const once = { subscriptions: 1, payments: 1, open: 0, transactions: 1 };
const never = { subscriptions: 0, payments: 0, open: 0, transactions: 0 };

async function scene(t: Test, options: LocalnetOptions = {}) {
  const stage = await startSponsorStage(t, options);
  // A fork can only drop blocks that there are.
  stage.net.mineBlocks(20);
  const plan: Plan = await stage.plan();
  stage.net.fund(plan.merchant.address, { usdc: 1n });
  const wallet = stage.poor();
  const offer: OfferMade = await stage.offer(plan, wallet);
  t.match((await stage.sign(offer, wallet)).body.data, { state: 'signed' });
  return { stage, plan, wallet, offer };
}

void t.test(
  'when a keeper dies after the commit of a sign-up, another one sends and settles it',
  async (t) => {
    const { stage, offer } = await scene(t);
    // serve may die as well: the signed transaction is stored.
    const sent: Uint8Array[] = [];
    const dead = stage.sponsor({
      sendTransaction: (bytes) => {
        sent.push(bytes);
        return Promise.reject(new Error('killed'));
      },
    });
    await dead.sponsor.turn(true).catch(() => undefined);
    t.equal(sent.length, 1);
    t.match(await stage.progress(offer), { state: 'signed', signature: String }, 'not sent yet');
    t.match(await books(stage), { ...never, open: 1 }, 'committed before it is sent');
    await stage.orphan();
    const end = await stage.work(stage.sponsor().sponsor, offer, 'final', 'failed', 'lapsed');
    t.match(end, { state: 'final' });
    t.same(await books(stage), once);
  },
);

void t.test('when a keeper dies after the send of a sign-up, another one settles it', async (t) => {
  const { stage, offer } = await scene(t);
  const dead = stage.sponsor();
  await stage.work(dead.sponsor, offer, 'processed', 'confirmed');
  await stage.orphan();
  const end = await stage.work(stage.sponsor().sponsor, offer, 'final', 'failed', 'lapsed');
  t.match(end, { state: 'final' });
  t.same(await books(stage), once);
  // The first one wakes up late and changes nothing.
  await dead.sponsor.turn(true);
  t.same(await books(stage), once);
});

void t.test('if two keepers track the same sponsored sign-up, it is recorded once', async (t) => {
  const { stage, offer } = await scene(t);
  const [one, two] = [stage.sponsor().sponsor, stage.sponsor().sponsor];
  await Promise.all([one.turn(true), two.turn(true)]);
  await stage.orphan();
  let last: ProgressMade = await stage.progress(offer);
  await stage.until('it is final', async () => {
    await stage.orphan();
    await Promise.all([one.turn(true), two.turn(true)]);
    last = await stage.progress(offer);
    return last.state === 'final';
  });
  t.same(await books(stage), once);
  t.same(
    (await stage.sql`select type from events order by sequence`).map(({ type }) => type as string),
    ['subscription_created', 'payment_success'],
  );
});

void t.test(
  'the collect loop does not charge a sponsored sign-up that is not settled',
  async (t) => {
    const { stage, plan, offer } = await scene(t);
    const { sponsor, context } = stage.sponsor();
    await stage.work(sponsor, offer, 'confirmed');
    const buyer = await stage.api.signIn('subscriber', stage.wallet());
    t.match(
      await stage.api.call('POST', '/subscriber/subscriptions', {
        token: buyer.token,
        body: { appId: plan.appId, planId: plan.id, subscriptionPda: offer.subscriptionPda },
      }),
      { status: 403 },
      'nobody else registers it',
    );
    await stage.startKeeper();
    await stage.work(sponsor, offer, 'final');
    await stage.quiet();
    t.same(await books(stage), once);
    t.ok(context.sponsoring);
  },
);

void t.test('a sign-up that never lands lapses, and the wallet can sign another', async (t) => {
  const { stage, plan, wallet, offer } = await scene(t);
  const deaf = stage.sponsor({ sendTransaction: () => Promise.resolve('') }).sponsor;
  t.match(await stage.work(deaf, offer, 'lapsed', 'failed', 'final'), { state: 'lapsed' });
  t.same(await books(stage), never);
  t.equal(await stage.balance(wallet.address), 5_000_000n);
  const again = await stage.offer(plan, wallet);
  await stage.sign(again, wallet);
  const { sponsor } = stage.sponsor();
  t.match(await stage.work(sponsor, again, 'lapsed', 'failed', 'final'), { state: 'final' });
  t.same(await books(stage), once);
});

/**
 * A sign-up lands while the keepers are down. They are back after `meanwhile`, in the next period:
 * its signature is then known nowhere.
 */
async function landedUnseen(
  t: Test,
  meanwhile: (stage: SponsorStage, plan: Plan, subscription: Parties) => Promise<unknown>,
) {
  const { stage, plan, wallet, offer } = await scene(t, { blockMs: 0 });
  await stage.sponsor().sponsor.turn(true);
  stage.net.mineBlocks(40);
  const parties = {
    subscriber: wallet.address,
    plan: plan.pda,
    subscription: offer.subscriptionPda,
  };
  stage.net.fund(wallet.address, { lamports: 10_000_000n, usdc: 5_000_000n });
  await meanwhile(stage, plan, { wallet, ...parties });
  stage.net.mineBlocks(200);
  await stage.orphan();
  const { sponsor } = stage.sponsor(withoutStatuses(stage.rpc));
  return { stage, offer, end: await stage.work(sponsor, offer, 'final', 'lapsed') };
}

for (const opensAgain of [false, true])
  void t.test(
    `a landed sign-up whose account is closed is recorded${opensAgain ? ', and not as the account opened afterwards' : ''}`,
    async (t) => {
      const { stage, offer, end } = await landedUnseen(
        t,
        async (stage, plan, { wallet, ...parties }) => {
          const { programId } = stage.net;
          await stage.send([wallet], [cancelSubscription(programId, parties)]);
          stage.net.passSeconds(PERIOD);
          const closing = { ...parties, authority: wallet.address, receiver: stage.keeper.address };
          await stage.send([wallet], [revokeDelegation(programId, closing)]);
          stage.net.passSeconds(100);
          if (opensAgain) await stage.open(plan, wallet);
        },
      );
      t.match(end, { state: 'final', subscriptionId: String });
      const { accounts } = await stage.rpc.getMultipleAccounts([offer.subscriptionPda]);
      t.equal(accounts[0] !== null, opensAgain);
      t.same(await books(stage), once);
      t.match(await stage.sql`select id, status from subscriptions`, [
        { id: end.subscriptionId, status: 'cancelled' },
      ]);
    },
  );

void t.test(
  'a sign-up is settled although the polled endpoint does not know its transaction',
  async (t) => {
    const { stage, offer } = await scene(t, { blockMs: 0 });
    await stage.sponsor().sponsor.turn(true);
    stage.net.mineBlocks(200);
    await stage.orphan();
    const { sponsor } = stage.sponsor(knownElsewhere(stage.rpc));
    await stage.work(sponsor, offer, 'final', 'lapsed');
    t.same(await books(stage), once);
  },
);

void t.test(
  'a sponsored sign-up that is found late pays the period in which it landed',
  async (t) => {
    const { stage, end } = await landedUnseen(
      t,
      async (stage, plan, { subscriber, subscription }) => {
        stage.net.passSeconds(PERIOD);
        const pull = transferSubscription(stage.net.programId, {
          ...{ subscriber, plan: plan.pda, subscription, mint: stage.net.mint },
          ...{ caller: plan.merchant.address, receiver: plan.merchant.address, amount: 1_000_000n },
        });
        await stage.send([plan.merchant], [pull]);
      },
    );
    t.match(end, { state: 'final' });
    const [{ first, paid }] = await stage.sql<[{ first: Date; paid: Date }]>`
    select a.period_start as first, p.period_start as paid from payments p, payment_attempts a`;
    t.ok(Math.abs(paid.getTime() - first.getTime()) < 120_000, paid.toISOString());
  },
);

/** Has the chain confirm the transaction, and then drop its block. */
async function forked(stage: SponsorStage, sponsor: SponsorSteps, offer: OfferMade) {
  await sponsor.turn(true);
  t.match(await stage.progress(offer), { state: 'processed' });
  stage.net.mineBlocks(2);
  await stage.work(sponsor, offer, 'confirmed');
  await stage.net.rpc('localnet_forgetBlocks', 2);
}

void t.test(
  'a sign-up that a fork drops is reported as sent again and lands with the same bytes',
  async (t) => {
    const { stage, offer } = await scene(t, { blockMs: 0 });
    const { sponsor } = stage.sponsor();
    await forked(stage, sponsor, offer);
    await stage.work(sponsor, offer, 'sent');
    await stage.work(sponsor, offer, 'processed');
    stage.net.mineBlocks(40);
    await stage.work(sponsor, offer, 'final');
    t.same(await books(stage), once);
    const history = await stage.rpc.getSignaturesForAddress(offer.subscriptionPda);
    t.equal(history.length, 1);
  },
);

void t.test(
  'a sign-up that a fork drops and whose blockhash expires charges nothing',
  async (t) => {
    const { stage, wallet, offer } = await scene(t, { blockMs: 0 });
    const sends: Uint8Array[] = [];
    const { sponsor } = stage.sponsor({
      sendTransaction(bytes) {
        sends.push(bytes);
        return sends.length === 1 ? stage.rpc.sendTransaction(bytes) : Promise.resolve('');
      },
    });
    await forked(stage, sponsor, offer);
    await stage.work(sponsor, offer, 'sent');
    stage.net.mineBlocks(200);
    await stage.work(sponsor, offer, 'lapsed');
    t.ok(sends.length > 1, 'it was sent again');
    t.same(await books(stage), never);
    t.equal(await stage.balance(wallet.address), 5_000_000n);
  },
);

void t.test('an endpoint that lags and does not know the blockhash ends no offer', async (t) => {
  const stage = await startSponsorStage(t, { blockMs: 0, lagPort: 0 });
  const { net } = stage;
  const plan = await stage.plan();
  net.fund(plan.merchant.address, { usdc: 1n });
  const wallets = [stage.poor(), stage.poor(), stage.poor()];
  // An endpoint that lags has all accounts, and no recent block.
  net.mineBlocks(60);
  await net.rpc('localnet_setFault', { kind: 'lag', slots: 30 });
  const endpoints = (...urls: string[]) => {
    const rpc = createRpc({ urls, log: silent });
    t.teardown(() => rpc.close());
    return stage.sponsor(rpc).sponsor;
  };
  const signed = async () => {
    const wallet = wallets.pop()!;
    const offer = await stage.offer(plan, wallet);
    await stage.sign(offer, wallet);
    return offer;
  };
  const preferred = endpoints(net.lagUrl!, net.rpcUrl);
  const first = await signed();
  await preferred.turn(true);
  t.match(await stage.progress(first), { state: 'processed' }, 'another endpoint is asked');

  const alone = endpoints(net.lagUrl!);
  const second = await signed();
  await alone.turn(true);
  t.match(await stage.progress(second), { state: 'signed' }, 'it waits');
  await net.rpc('localnet_clearFaults');
  await stage.work(alone, second, 'processed', 'confirmed');

  const third = await signed();
  net.mineBlocks(200);
  await net.rpc('localnet_setFault', { kind: 'lag', slots: 30 });
  const end = await stage.work(preferred, third, 'lapsed', 'processed', 'final');
  t.match(end, { state: 'lapsed', refusal: 'lapsed' });
});

void t.test('an offer that is signed too late lapses before a keeper signs it', async (t) => {
  const { stage, offer } = await scene(t);
  stage.net.mineBlocks(200);
  const end = await stage.work(stage.sponsor().sponsor, offer, 'refused', 'final', 'lapsed');
  t.match(end, { state: 'lapsed', signature: null });
  t.same(await books(stage), never);
});

void t.test('an offer that no keeper decides within ten minutes lapses', async (t) => {
  const { stage, plan, offer } = await scene(t, { blockMs: 0 });
  const signedBefore = (time: string, { offerId }: OfferMade) =>
    stage.sql`update offers set signed_at = now() - ${time}::interval where id = ${offerId}`;
  await signedBefore('601 seconds', offer);
  t.match(await stage.progress(offer), { state: 'signed' }, 'a commit may just be under way');
  await signedBefore('661 seconds', offer);
  t.match(await stage.progress(offer), { state: 'lapsed' }, 'told although no keeper runs');

  await signedBefore('601 seconds', offer);
  await stage.sponsor().sponsor.turn(true);
  t.match(await stage.progress(offer), {
    ...{ state: 'lapsed', refusal: 'lapsed', reason: /not signed in time/ },
  });
  t.match(await stage.sql`select state, reason from sponsorships`, [
    { state: 'refused', reason: 'lapsed' },
  ]);

  // Ten minutes pass while a keeper decides: it signs nothing.
  const buyer = stage.poor();
  const slow = await stage.offer(plan, buyer);
  await stage.sign(slow, buyer);
  const { sponsor } = stage.sponsor({
    async simulateTransaction(...args) {
      await signedBefore('601 seconds', slow);
      return stage.rpc.simulateTransaction(...args);
    },
  });
  await sponsor.turn(true);
  t.same(await books(stage), never);
  await stage.sponsor().sponsor.turn(true);
  t.match(await stage.progress(slow), { state: 'lapsed' });
  t.equal((await stage.sign(slow, buyer)).body.data.token, null);
});
