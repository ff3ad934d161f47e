// Keepers that die after each step, transactions that never land, and forks: exactly one
// subscription and one payment, or none, told to the page.
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import {
  type OfferMade,
  type ProgressMade,
  type SponsorStage,
  startSponsorStage,
} from '../fixtures/sponsor-stage.ts';

/** What the books have of the wallet's sign-up. */
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
const once = { subscriptions: 1, payments: 1, open: 0, transactions: 1 };
const never = { subscriptions: 0, payments: 0, open: 0, transactions: 0 };

async function scene(t: Parameters<typeof startSponsorStage>[0]) {
  const stage = await startSponsorStage(t);
  // A fork can only drop blocks that there are.
  stage.net.mineBlocks(20);
  const plan: Plan = await stage.plan();
  stage.net.fund(plan.merchant.address, { usdc: 1n });
  const wallet = stage.poor();
  const offer: OfferMade = await stage.offer(plan, wallet);
  t.match((await stage.sign(offer, wallet)).body.data, { state: 'signed' });
  return { stage, plan, wallet, offer };
}

void t.test('a keeper dies after the commit: another one sends and settles', async (t) => {
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
  t.match(await stage.progress(offer), { state: 'sent' });
  t.match(await books(stage), { ...never, open: 1 }, 'committed before it is sent');
  await stage.orphan();
  const end = await stage.work(stage.sponsor().sponsor, offer, 'final', 'failed', 'lapsed');
  t.match(end, { state: 'final' });
  t.same(await books(stage), once);
});

void t.test('a keeper dies after the send: another one settles', async (t) => {
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

void t.test('two keepers take one offer, and settle it twice', async (t) => {
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

void t.test('the collect loop leaves the payment to the sponsorship', async (t) => {
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
});

void t.test('a transaction that never lands lapses; the wallet signs another', async (t) => {
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

void t.test('a fork takes the block: the same bytes land again', async (t) => {
  const { stage, offer } = await scene(t);
  const { sponsor } = stage.sponsor();
  await stage.work(sponsor, offer, 'processed', 'confirmed');
  await stage.net.rpc('localnet_forgetBlocks', 10);
  const end = await stage.work(sponsor, offer, 'final', 'lapsed', 'failed');
  const found = await books(stage);
  if (end.state === 'final') t.same(found, once);
  else t.same(found, never);
});

void t.test('an offer that is signed too late is refused before anything is signed', async (t) => {
  const { stage, offer } = await scene(t);
  stage.net.mineBlocks(200);
  const end = await stage.work(stage.sponsor().sponsor, offer, 'refused', 'final', 'lapsed');
  t.match(end, { state: 'refused', signature: null });
  t.same(await books(stage), never);
});
