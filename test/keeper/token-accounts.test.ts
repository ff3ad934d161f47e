import t, { type Test } from 'tap';
import { initAuthority } from '../../src/chain/program/instructions.ts';
import { TokenAccounts } from '../../src/chain/streams/token-accounts.ts';
import { readSubscriptions } from '../../src/db/subscriptions/work.ts';
import { amountPastDue } from '../../src/domain/invoices/upcoming.ts';
import { PlanWatch } from '../../src/keeper/follow/plan-watch.ts';
import { Notifications } from '../../src/keeper/follow/streams.ts';
import { Sweep } from '../../src/keeper/follow/sweep.ts';
import { startStage, type Stage, type Subscription } from '../fixtures/billing.ts';
import { payTokens, revokeApproval } from '../fixtures/tokens.ts';

/** A revocation that does not name the Subscriptions program. */
const revoke = (stage: Stage, { wallet }: Subscription) =>
  revokeApproval({ owner: wallet.address, mint: stage.net.mint });

/** Paid subscriptions whose token accounts are followed; no sweep runs. */
async function followed(t: Test, { most = 100, count = 1 } = {}) {
  const stage = await startStage(t);
  const plan = await stage.plan();
  const subscriptions: Subscription[] = [];
  for (let made = 0; made < count; made += 1) subscriptions.push(await stage.subscriber(plan));
  const keeper = await stage.startKeeper({ wsAccounts: 0 });
  await stage.until(
    'all are paid',
    async () => (await stage.sql`select 1 from payments`).length === count,
  );
  await stage.quiet();
  await keeper.stop();
  const { context, collector } = stage.parts();
  const sweep = new Sweep(context, { sweepMinutes: 60 });
  const notices = new Notifications(context, {
    sweep,
    plans: new PlanWatch(context),
    inFlight: { explains: () => false, isOwn: () => false },
    onDue: () => undefined,
  });
  const changes: string[] = [];
  let gaps = 0;
  const approvals = new TokenAccounts({
    ...context,
    wsUrls: [stage.net.wsUrl],
    maxAccounts: most,
    onChange: (wallet, slot) => {
      changes.push(wallet);
      notices.takeWallet(wallet, slot);
    },
    onGap: () => (gaps += 1),
  });
  t.teardown(() => approvals.close());
  const watch = async () =>
    approvals.watch(
      (
        await readSubscriptions(
          stage.sql,
          subscriptions.map(({ id }) => id),
        )
      ).map((row) => ({ ...row, pastDue: amountPastDue(row, row.invoice) })),
    );
  const following = async (wanted: number) =>
    stage.until(`${wanted} are followed`, async () => {
      await watch();
      return approvals.followed() === wanted;
    });
  const turn = async () => {
    await notices.turn();
    await collector.turn();
  };
  return { stage, subscriptions, changes, following, turn, gaps: () => gaps };
}

void t.test(
  'a revoked and a renewed token approval are reported, an ordinary transfer is not',
  async (t) => {
    const { stage, subscriptions, changes, following, turn } = await followed(t);
    const subscription = subscriptions[0]!;
    const { wallet } = subscription;
    await following(1);
    await stage.send(
      [wallet],
      [
        payTokens({
          owner: wallet.address,
          mint: stage.net.mint,
          to: stage.treasury.address,
          amount: 1n,
        }),
      ],
    );
    await stage.send([wallet], [revoke(stage, subscription)]);
    await stage.until('the revocation is told', async () => {
      await turn();
      return (await stage.row(subscription)).delegationRevokedAt !== null;
    });
    t.same(changes, [wallet.address], 'the transfer before it is not looked into');
    const [told] = (await stage.events(subscription)).slice(-1);
    t.match(told, {
      type: 'delegation_revoked',
      data: { reason: 'delegate_replaced', status: 'active' },
    });
    await stage.send(
      [wallet],
      [initAuthority(stage.net.programId, { user: wallet.address, mint: stage.net.mint })],
    );
    await stage.until('the repair is seen', async () => {
      await turn();
      return (await stage.row(subscription)).delegationRevokedAt === null;
    });
    t.same(changes, [wallet.address, wallet.address]);
  },
);

void t.test(
  'token accounts are followed up to a limit, and ended subscriptions free places',
  async (t) => {
    const { stage, subscriptions, changes, following, gaps } = await followed(t, {
      most: 2,
      count: 3,
    });
    await following(2);
    await stage.sql`
      with ended as (
        update subscriptions set status = 'cancelled', cancelled_at = now(), ended_at = now()
        where id = ${subscriptions[0]!.id} returning id
      )
      update subscription_work set due_at = null from ended where subscription_id = id`;
    await following(2);
    await stage.send([subscriptions[0]!.wallet], [revoke(stage, subscriptions[0]!)]);
    await stage.send([subscriptions[2]!.wallet], [revoke(stage, subscriptions[2]!)]);
    await stage.until('the one in its place is told of', async () => changes.length > 0);
    t.same(changes, [subscriptions[2]!.wallet.address]);
    t.equal(gaps(), 0);
  },
);

void t.test(
  'a keeper follows the token accounts of its subscriptions: a revocation has its event without a sweep',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    const keeper = await stage.startKeeper();
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
    await stage.until('it is followed', async () =>
      /billing_keeper_accounts_followed(\{.*\})? 1/.test(await keeper.registry.metrics()),
    );
    // The next lap of the sweep is an hour away, so only the stream can report the revocation.
    await stage.sql`update sweeps set starts_at = now() + interval '1 hour'`;
    await stage.send([subscription.wallet], [revoke(stage, subscription)]);
    await stage.until(
      'it is told',
      async () => (await stage.row(subscription)).delegationRevokedAt !== null,
    );
  },
);

/**
 * A keeper with a past-due subscription. The next lap of the sweep is an hour away, so only streams
 * report changes.
 */
async function pastDue(t: Test, usdc: bigint) {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan(), { usdc });
  if (usdc > 0n) await stage.send([subscription.wallet], [revoke(stage, subscription)]);
  const keeper = await stage.startKeeper();
  const status = async () => (await stage.row(subscription)).status;
  await stage.until('it is past due', async () => (await status()) === 'past_due');
  await stage.sql`update sweeps set starts_at = now() + interval '1 hour'`;
  await stage.until('it is followed', async () =>
    /billing_keeper_accounts_followed(\{.*\})? 1/.test(await keeper.registry.metrics()),
  );
  return { stage, subscription, status };
}

void t.test('a past-due wallet that approves again is collected without a sweep', async (t) => {
  const { stage, subscription, status } = await pastDue(t, 1_000_000_000n);
  const { wallet } = subscription;
  const { programId, mint } = stage.net;
  await stage.send([wallet], [initAuthority(programId, { user: wallet.address, mint })]);
  await stage.until('it is paid', async () => (await status()) === 'active');
  t.equal((await stage.row(subscription)).delegationRevokedAt, null);
});

void t.test(
  'a past-due wallet is retried at once when a top-up reaches the due amount, without a sweep',
  async (t) => {
    const { stage, subscription, status } = await pastDue(t, 0n);
    const giver = stage.wallet();
    const pay = (amount: bigint) =>
      stage.send(
        [giver],
        [
          payTokens({
            owner: giver.address,
            mint: stage.net.mint,
            to: subscription.wallet.address,
            amount,
          }),
        ],
      );
    await pay(4_000_000n);
    await stage.quiet();
    t.equal((await stage.row(subscription)).failedAttempts, 1);
    await pay(1_000_000n);
    await stage.until('it is paid', async () => (await status()) === 'active');
    t.equal((await stage.payments(subscription)).length, 2);
  },
);

void t.test(
  'at the limit of followed accounts, the token account of a past-due wallet replaces another account',
  async (t) => {
    const { stage, subscriptions, changes, following } = await followed(t, { most: 1, count: 2 });
    await following(1);
    await stage.sql`update subscriptions set status = 'past_due', past_due_since = now() where id = ${subscriptions[1]!.id}`;
    await following(1);
    await stage.send([subscriptions[0]!.wallet], [revoke(stage, subscriptions[0]!)]);
    await stage.until('the past-due one is told of', async () => {
      await stage.send([subscriptions[1]!.wallet], [revoke(stage, subscriptions[1]!)]);
      return changes.length > 0;
    });
    t.same(changes, [subscriptions[1]!.wallet.address]);
  },
);
