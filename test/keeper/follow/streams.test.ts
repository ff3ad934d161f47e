import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import {
  cancelSubscription,
  closeAuthority,
  initAuthority,
  revokeAuthority,
} from '../../../src/chain/program/instructions.ts';
import { RpcUnreachable } from '../../../src/chain/rpc/errors.ts';
import type { Rpc } from '../../../src/chain/rpc/rpc.ts';
import { followProgram } from '../../../src/chain/streams/program.ts';
import { PlanWatch } from '../../../src/keeper/follow/plan-watch.ts';
import { Notifications } from '../../../src/keeper/follow/streams.ts';
import { Sweep } from '../../../src/keeper/follow/sweep.ts';
import { HOUR, silent, startStage, type Stage } from '../../fixtures/billing.ts';

void t.test('repeated, late and forged notifications only cause reads of the chain', async (t) => {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan());
  const keeper = await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  await stage.quiet();
  await keeper.stop();
  const { context } = stage.parts();
  const sweep = new Sweep(context, { sweepMinutes: 60 });
  let woken = 0;
  const notices = new Notifications(context, {
    sweep,
    plans: new PlanWatch(context),
    inFlight: { explains: () => false, isOwn: () => false },
    onDue: () => (woken += 1),
  });
  const { accounts } = await stage.rpc.getMultipleAccounts([subscription.pda]);
  const live = accounts[0]!;
  const before = await stage.row(subscription);
  const notice = (data: Buffer, address = subscription.pda) => ({
    ...live,
    data,
    address,
    slot: 1n,
  });

  // The unchanged account, repeatedly.
  for (let times = 0; times < 5; times += 1) notices.take(notice(live.data));
  await notices.turn();
  t.equal(woken, 0);
  // Forged: cancelled, pulled in full for a later period, random bytes of every length, accounts
  // of strangers.
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

void t.test('the sweep finds changes that were made while the stream was down', async (t) => {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan());
  // No node listens at this port.
  await stage.startKeeper({ wsUrls: ['ws://127.0.0.1:1'] });
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  await stage.quiet();
  const parties = {
    subscriber: subscription.wallet.address,
    plan: subscription.plan.pda,
    subscription: subscription.pda,
  };
  await stage.send([subscription.wallet], [cancelSubscription(stage.net.programId, parties)]);
  await stage.quiet();
  t.equal((await stage.row(subscription)).cancelRequestedAt, null, 'not before its lap');
  await stage.sql`update sweeps set starts_at = now()`;
  await stage.until(
    'the cancellation is seen',
    async () => (await stage.row(subscription)).cancelRequestedAt !== null,
  );
  stage.net.passSeconds(720 * HOUR + 5);
  await stage.until(
    'it is cancelled',
    async () => (await stage.row(subscription)).status === 'cancelled',
  );
  t.equal((await stage.payments(subscription)).length, 1);
});

/** A paid subscription followed by the stream alone: no sweep runs. */
async function streamAlone(t: Test, replaced: (stage: Stage) => Partial<Rpc> = () => ({})) {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan());
  const keeper = await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  await stage.quiet();
  await keeper.stop();
  const { context, collector } = stage.parts(replaced(stage));
  let gaps = 0;
  const notices = new Notifications(context, {
    sweep: new Sweep(context, { sweepMinutes: 60 }),
    plans: new PlanWatch(context),
    inFlight: { explains: () => false, isOwn: () => false },
    onDue: () => undefined,
  });
  const follower = followProgram({
    urls: [stage.net.wsUrl],
    programId: stage.net.programId,
    onNotification: (notice) => notices.take(notice),
    onTransaction: (notice) => notices.takeTransaction(notice),
    onGap: () => (gaps += 1),
    log: silent,
  });
  t.teardown(() => follower.close());
  await stage.until('the stream is on', async () => gaps > 0);
  const follow = async () => {
    await notices.turn();
    await collector.turn();
  };
  return { stage, subscription, follow };
}

void t.test(
  'a revoked approval or closed authority is found by the stream without a sweep, with one event',
  async (t) => {
    for (const build of [closeAuthority, revokeAuthority]) {
      const { stage, subscription, follow } = await streamAlone(t);
      const { wallet } = subscription;
      await stage.send(
        [wallet],
        [build(stage.net.programId, { user: wallet.address, mint: stage.net.mint })],
      );
      await stage.until('it is seen', async () => {
        await follow();
        return (await stage.row(subscription)).delegationRevokedAt !== null;
      });
      const revoked = (await stage.events(subscription)).filter(
        ({ type }) => type === 'delegation_revoked',
      );
      t.same(
        revoked.map(({ data }) => [data.reason, data.status]),
        [['authority_closed', 'active']],
      );
    }
  },
);

void t.test('a renewed token approval is found by the stream without a sweep', async (t) => {
  const { stage, subscription, follow } = await streamAlone(t);
  const { wallet } = subscription;
  const row = () => stage.row(subscription);
  await stage.sql`update subscriptions set delegation_revoked_at = now() where id = ${subscription.id}`;
  await stage.send(
    [wallet],
    [initAuthority(stage.net.programId, { user: wallet.address, mint: stage.net.mint })],
  );
  await stage.until('it is seen', async () => {
    await follow();
    return (await row()).delegationRevokedAt === null;
  });
  t.match(await row(), { status: 'active', failedAttempts: 0 });
});

void t.test(
  'a notified transaction that the endpoint does not have yet is requested again',
  async (t) => {
    let asked = 0;
    const { stage, subscription, follow } = await streamAlone(t, ({ rpc }) => ({
      getTransaction: async (signature, options) => {
        asked += 1;
        return asked <= 3
          ? { signature, unreadable: 'missing' }
          : rpc.getTransaction(signature, options);
      },
    }));
    const { wallet } = subscription;
    await stage.send(
      [wallet],
      [revokeAuthority(stage.net.programId, { user: wallet.address, mint: stage.net.mint })],
    );
    await stage.until('the revocation is seen', async () => {
      await follow();
      return (await stage.row(subscription)).delegationRevokedAt !== null;
    });
    t.ok(asked > 3);
  },
);

void t.test(
  'a notified account is read again once the endpoint has reached its slot',
  async (t) => {
    let behind = 2;
    const { stage, subscription, follow } = await streamAlone(t, ({ rpc }) => ({
      getMultipleAccounts: async (addresses, options) => {
        if (options?.minSlot !== undefined && behind-- > 0)
          throw new RpcUnreachable('getMultipleAccounts', []);
        return rpc.getMultipleAccounts(addresses, options);
      },
    }));
    const parties = {
      subscriber: subscription.wallet.address,
      plan: subscription.plan.pda,
      subscription: subscription.pda,
    };
    await stage.send([subscription.wallet], [cancelSubscription(stage.net.programId, parties)]);
    await stage.until('the cancellation is seen', async () => {
      await follow().catch((error: unknown) => {
        if (!(error instanceof RpcUnreachable)) throw error;
      });
      return (await stage.row(subscription)).cancelRequestedAt !== null;
    });
    t.ok(behind < 0);
  },
);
