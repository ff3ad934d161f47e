import { randomBytes } from 'node:crypto';
import t from 'tap';
import { cancelSubscription } from '../../src/chain/instructions.ts';
import { createNotices } from '../../src/keeper/follow.ts';
import { createSweep } from '../../src/keeper/sweep.ts';
import { createPlanWatch } from '../../src/keeper/watch-plans.ts';
import { HOUR, startStage } from '../fixtures/billing.ts';

void t.test('repeated, late and forged notices change nothing: they only lead to a look at the chain', async (t) => {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan());
  const keeper = await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  await stage.quiet();
  await keeper.stop();
  const { context, clock } = stage.parts();
  const sweep = createSweep(context, clock);
  let woken = 0;
  const notices = createNotices(context, { sweep, plans: createPlanWatch(context, clock), wake: () => (woken += 1) });
  const { accounts } = await stage.rpc.getMultipleAccounts([subscription.pda]);
  const live = accounts[0]!;
  const before = await stage.row(subscription);
  const notice = (data: Buffer, address = subscription.pda) => ({ ...live, data, address, slot: 1n });

  // As it is, again and again.
  for (let times = 0; times < 5; times += 1) notices.take(notice(live.data));
  await notices.turn();
  t.equal(woken, 0);
  // Forged: cancelled, pulled in full for a later period, nonsense of every length, strangers' accounts.
  const cancelled = Buffer.from(live.data);
  cancelled.writeBigInt64LE(1n, 147);
  notices.take(notice(cancelled));
  await notices.turn();
  const pulled = Buffer.from(live.data);
  pulled.writeBigInt64LE(pulled.readBigInt64LE(139) + 720n * 3600n, 139);
  notices.take(notice(pulled));
  await notices.turn();
  for (const size of [0, 106, 155, 155, 491, 1000]) notices.take(notice(randomBytes(size)));
  notices.take(notice(live.data, 'So11111111111111111111111111111111111111112'));
  await notices.turn();
  t.same(await stage.row(subscription), before, 'the row is as it was');
  t.same(
    (await stage.events(subscription)).map(({ type }) => type),
    ['subscription_created', 'payment_success'],
  );
});

void t.test('what happens while the stream is down is found by the sweep', async (t) => {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan());
  // Nothing listens there.
  await stage.startKeeper({ wsUrls: ['ws://127.0.0.1:1'] });
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  await stage.quiet();
  const parties = { subscriber: subscription.wallet.address, plan: subscription.plan.pda, subscription: subscription.pda };
  await stage.send([subscription.wallet], [cancelSubscription(stage.net.programId, parties)]);
  await stage.until('the cancellation is seen', async () => (await stage.row(subscription)).cancelRequestedAt !== null, 30_000);
  stage.net.passSeconds(720 * HOUR + 5);
  await stage.until('it is cancelled', async () => (await stage.row(subscription)).status === 'cancelled');
  t.equal((await stage.payments(subscription)).length, 1);
});
