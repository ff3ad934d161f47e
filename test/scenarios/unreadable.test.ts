// A transaction that no endpoint returns readable is unknown: it fails only its own look-up, is
// counted, and never counts as absent.
import t, { type Test } from 'tap';
import {
  cancelSubscription,
  closeAuthority,
  initAuthority,
  revokeAuthority,
  revokeDelegation,
  transferSubscription,
} from '../../src/chain/program/instructions.ts';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { RpcUnreachable } from '../../src/chain/rpc/errors.ts';
import type { Rpc } from '../../src/chain/rpc/rpc.ts';
import { reconcile } from '../../src/cli/operate/reconcile/compare.ts';
import { PlanWatch } from '../../src/keeper/follow/plan-watch.ts';
import { Notifications } from '../../src/keeper/follow/streams.ts';
import { Sweep } from '../../src/keeper/follow/sweep.ts';
import { findPulls, partiesOf } from '../../src/keeper/read/pull-history.ts';
import { agree, AMOUNT, withoutStatuses } from '../fixtures/agreement.ts';
import { type Ailment, startBadEndpoint } from '../fixtures/bad-endpoint.ts';
import { HOUR, silent, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';
import { naming } from '../fixtures/junk.ts';

const BAD: readonly Ailment[] = ['version', 'null', 'shape', 'refused'];
const REASONS = ['version', 'missing', 'undecodable', 'refused'];
const range = { since: new Date(0), until: new Date('2100-01-01'), repair: false };

/**
 * A due subscription, a stranger, and a client whose endpoints return the transactions in `ails`
 * unreadable.
 */
async function setUp(t: Test, endpoints = 2) {
  const stage = await startStage(t, { blockMs: 0 });
  const plan = await stage.plan({ amount: AMOUNT, periodHours: 24 });
  const subscription = await stage.subscriber(plan);
  const ails = new Map<string, Ailment>();
  const bad = await Promise.all(
    Array.from({ length: endpoints }, () =>
      startBadEndpoint(stage.net.rpcUrl, (signature) => ails.get(signature)),
    ),
  );
  const rpcUrls = bad.map(({ url }) => url);
  const rpc = createRpc({ urls: rpcUrls, log: silent });
  t.teardown(async () => {
    await rpc.close();
    for (const one of bad) one.close();
  });
  const stranger = stage.wallet();
  const junk = (accounts: readonly string[], ailment?: Ailment) => async (lamports: bigint) => {
    const signature = await stage.send([stranger], [naming(stranger.address, accounts, lamports)]);
    if (ailment !== undefined) ails.set(signature, ailment);
    return signature;
  };
  /** One transaction of each bad kind that names these accounts. */
  const spam = async (...accounts: string[]) => {
    const sent: string[] = [];
    for (const [index, ailment] of BAD.entries())
      sent.push(await junk(accounts, ailment)(BigInt(index + 1)));
    return sent;
  };
  return { stage, plan, subscription, ails, rpc, rpcUrls, stranger, spam };
}

/** The merchant pulls with its own key. */
const ownerPulls = (stage: Stage, { wallet, plan, pda }: Subscription, amount = AMOUNT) =>
  stage.send(
    [plan.merchant],
    [
      transferSubscription(stage.net.programId, {
        caller: plan.merchant.address,
        subscriber: wallet.address,
        plan: plan.pda,
        subscription: pda,
        mint: stage.net.mint,
        receiver: plan.merchant.address,
        amount,
      }),
    ],
  );

const attemptOf = async (stage: Stage, { id }: Subscription) =>
  (
    await stage.sql<
      { state: string }[]
    >`select state from payment_attempts where subscription_id = ${id} order by id limit 1`
  )[0]?.state;

const seriesOf = async (parts: ReturnType<Stage['parts']>) =>
  (await parts.context.metrics.unreadable.get()).values.flatMap(({ labels, value }) =>
    value > 0 ? [[labels.reason, value]] : [],
  );

void t.test(
  'a history with unreadable transactions returns the other pulls and lists the unreadable ones',
  async (t) => {
    const { stage, subscription, rpc, ails, spam } = await setUp(t);
    const pull = await ownerPulls(stage, subscription);
    const junk = await spam(subscription.pda);
    stage.net.mineBlocks(40);
    const { context } = stage.parts();
    const parties = partiesOf(context, {
      treasury: stage.treasury.address,
      subscriptionPda: subscription.pda,
      feeBps: null,
    });
    const find = async (client: Rpc = rpc) => {
      const history = await findPulls(client, parties, 0n);
      return {
        pulls: history!.pulls.map(({ signature }) => signature),
        unreadable: history!.unreadable
          .map(({ signature, unreadable }) => [signature, unreadable])
          .reverse(),
      };
    };
    const named = junk.map((signature, index) => [signature, REASONS[index]]);
    t.same(await find(), { pulls: [pull], unreadable: named });
    t.same(
      rpc.health().map(({ failures }) => failures),
      [0, 0],
      'the endpoints are well',
    );
    ails.set(pull, 'version 1');
    t.same(await find(), { pulls: [pull], unreadable: named }, 'version 1 is read');
    ails.set(pull, 'parameter');
    t.same(
      await find(),
      { pulls: [pull], unreadable: named },
      'so is an endpoint that refuses to be asked for version 1',
    );
    ails.set(pull, 'null');
    const all = [[pull, 'missing'], ...named].sort();
    const { unreadable, pulls } = await find();
    t.same([pulls, unreadable.sort()], [[], all], 'a listed pull that is missing is unknown');
    ails.set(pull, 'http');
    const broken = await find();
    t.same(
      [broken.pulls, broken.unreadable.sort()],
      [[], [[pull, 'refused'], ...named].sort()],
      'so is one for which every endpoint answers with an HTTP error',
    );
    const good = createRpc({ urls: [stage.net.rpcUrl], log: silent });
    t.teardown(() => good.close());
    t.same(await find(good), { pulls: [pull], unreadable: [] });
  },
);

void t.test(
  'a pull by the plan’s owner among unreadable transactions is found, and the next period is collected',
  async (t) => {
    const { stage, subscription, rpc, spam } = await setUp(t, 1);
    await ownerPulls(stage, subscription);
    await spam(subscription.pda);
    stage.net.mineBlocks(40);
    const parts = stage.parts(rpc);
    await parts.collect();
    t.match(await stage.payments(subscription), [{ source: 'foreign', amountGross: AMOUNT }]);
    t.same(
      await seriesOf(parts),
      [
        ['refused', 1],
        ['version', 1],
        ['undecodable', 1],
        ['missing', 1],
      ],
      'each is counted once',
    );
    stage.net.passSeconds(24 * HOUR);
    await parts.collect();
    t.equal(parts.taken.length, 1);
    const alerts = (await parts.context.metrics.alerts.get()).values;
    t.same(
      alerts.filter(({ value }) => value > 0),
      [],
    );
  },
);

void t.test(
  'a listed pull that cannot be read is not collected again, and is recorded once readable',
  async (t) => {
    const { stage, subscription, rpc, ails } = await setUp(t);
    const pull = await ownerPulls(stage, subscription);
    ails.set(pull, 'null');
    stage.net.mineBlocks(40);
    const parts = stage.parts(rpc);
    await parts.collect();
    t.match(await stage.row(subscription), { status: 'active', paidThrough: null, setbacks: 1 });
    t.equal(parts.taken.length, 0);
    ails.clear();
    stage.net.passSeconds(60);
    await parts.collect();
    t.match(await stage.payments(subscription), [{ source: 'foreign', txSignature: pull }]);
  },
);

void t.test(
  'a subscription whose account is gone does not end while its last pull is unreadable',
  async (t) => {
    const { stage, plan, subscription, rpc, ails } = await setUp(t);
    const keeperPays = stage.parts();
    await keeperPays.collect();
    await stage.rpc.sendTransaction(keeperPays.taken[0]!.attempt.transaction);
    stage.net.mineBlocks(40);
    const { statuses } = await stage.rpc.getSignatureStatuses([
      keeperPays.taken[0]!.attempt.signature,
    ]);
    await keeperPays.resolver.landed([{ ...keeperPays.taken[0]!, status: statuses[0]! }]);
    stage.net.passSeconds(24 * HOUR);
    const pull = await ownerPulls(stage, subscription);
    ails.set(pull, 'version');
    const { programId } = stage.net;
    const { wallet, pda } = subscription;
    await stage.send(
      [wallet],
      [
        cancelSubscription(programId, {
          subscriber: wallet.address,
          plan: plan.pda,
          subscription: pda,
        }),
      ],
    );
    stage.net.passSeconds(25 * HOUR);
    await stage.send(
      [wallet],
      [
        revokeDelegation(programId, {
          authority: wallet.address,
          subscription: pda,
          plan: plan.pda,
        }),
      ],
    );
    stage.net.mineBlocks(40);
    const parts = stage.parts(rpc);
    await stage.sql`update subscription_work set due_at = to_timestamp(0)`;
    await parts.collect();
    t.match(await stage.row(subscription), { status: 'active', setbacks: 1 });
    ails.clear();
    stage.net.passSeconds(60);
    await parts.collect();
    t.match(await stage.row(subscription), { status: 'cancelled' });
    t.equal((await stage.payments(subscription)).at(-1)?.txSignature, pull);
  },
);

void t.test(
  'an attempt whose signature is listed has landed, although no endpoint returns its transaction',
  async (t) => {
    const { stage, subscription, rpc, ails } = await setUp(t);
    const { collector, resolver, taken } = stage.parts({
      ...rpc,
      ...withoutStatuses(rpc),
    });
    await collector.turn();
    const [flying] = taken;
    await stage.rpc.sendTransaction(flying!.attempt.transaction);
    ails.set(flying!.attempt.signature, 'null');
    stage.net.mineBlocks(200);
    t.same((await resolver.expired([flying!])).done, [flying]);
    t.equal(await attemptOf(stage, subscription), 'landed');
    t.match(await stage.payments(subscription), [
      { status: 'succeeded', txSignature: flying!.attempt.signature, amountGross: AMOUNT },
    ]);
  },
);

void t.test(
  'an attempt stays open while an unreadable transaction may be the pull that its account counts',
  async (t) => {
    const { stage, subscription, rpc, ails } = await setUp(t);
    const { collector, resolver, taken } = stage.parts(rpc);
    await collector.turn();
    const pull = await ownerPulls(stage, subscription);
    stage.net.mineBlocks(200);
    for (const ailment of BAD) {
      ails.set(pull, ailment);
      const waits = { done: [], unknown: taken, isDue: false, seen: new Map() };
      t.same(await resolver.expired(taken), waits, ailment);
      t.equal(await attemptOf(stage, subscription), 'open');
    }
    ails.clear();
    t.same((await resolver.expired(taken)).done, taken);
    t.equal(await attemptOf(stage, subscription), 'expired');
  },
);

void t.test(
  'an attempt expires beside unreadable transactions when readable pulls explain the account',
  async (t) => {
    const { stage, subscription, rpc, spam } = await setUp(t);
    const { collector, resolver, taken } = stage.parts(rpc);
    await collector.turn();
    await ownerPulls(stage, subscription);
    await spam(subscription.pda);
    stage.net.mineBlocks(200);
    t.same((await resolver.expired(taken)).done, taken);
    t.equal(await attemptOf(stage, subscription), 'expired');
  },
);

void t.test(
  'an attempt of an earlier period expires beside unreadable transactions once histories had time',
  async (t) => {
    const { stage, subscription, rpc, spam } = await setUp(t);
    const { collector, resolver, taken } = stage.parts(rpc);
    await collector.turn();
    await spam(subscription.pda);
    stage.net.mineBlocks(200);
    stage.net.passSeconds(24 * HOUR);
    stage.net.mineBlocks(40);
    await ownerPulls(stage, subscription);
    await spam(subscription.pda);
    stage.net.mineBlocks(40);
    const look = async (settleTries: number) =>
      (await resolver.expired(taken.map((one) => ({ ...one, settleTries })))).done.length;
    t.equal(await look(3), 0);
    t.equal(await look(4), 1);
    t.equal(await attemptOf(stage, subscription), 'expired');
  },
);

/**
 * Two landed payments; the endpoints do not return the first one readable. `meanwhile` runs before
 * both are final.
 */
async function landedTwice(t: Test, meanwhile: (stage: Stage, one: Subscription) => Promise<void>) {
  const { stage, plan, subscription, rpc, ails } = await setUp(t);
  const other = await stage.subscriber(plan);
  const { collector, resolver, taken } = stage.parts(rpc);
  await collector.turn();
  const flying = taken.find(({ id }) => id === subscription.id)!;
  const second = taken.find(({ id }) => id === other.id)!;
  for (const { attempt } of taken) await stage.rpc.sendTransaction(attempt.transaction);
  ails.set(flying.attempt.signature, 'shape');
  stage.net.mineBlocks(2);
  await meanwhile(stage, subscription);
  stage.net.mineBlocks(40);
  const status = async (one: typeof flying) =>
    (await stage.rpc.getSignatureStatuses([one.attempt.signature], { history: true })).statuses[0]!;
  const batch = [
    { ...flying, periodEnd: null, status: await status(flying) },
    { ...second, status: await status(second) },
  ] as const;
  return { stage, subscription, other, resolver, batch, ails };
}

/** The subscriber cancels, and closes the account at the end of the period. */
async function closes(stage: Stage, { wallet, plan, pda }: Subscription): Promise<void> {
  const { programId } = stage.net;
  const parties = { subscriber: wallet.address, plan: plan.pda, subscription: pda };
  await stage.send([wallet], [cancelSubscription(programId, parties)]);
  stage.net.passSeconds(25 * HOUR);
  const closing = revokeDelegation(programId, { ...parties, authority: wallet.address });
  await stage.send([wallet], [closing]);
}

void t.test(
  'a landed, unreadable payment of another keeper gets its period from the account',
  async (t) => {
    const { stage, subscription, resolver, batch } = await landedTwice(t, async () => undefined);
    t.equal((await resolver.landed(batch)).done.length, 2);
    const { periodStart } = (await stage.onChain(subscription))!;
    t.match(await stage.payments(subscription), [
      {
        source: 'keeper',
        periodStart: new Date(Number(periodStart) * 1000),
        periodEnd: new Date((Number(periodStart) + 24 * HOUR) * 1000),
        amountGross: AMOUNT,
        platformFee: AMOUNT / 100n,
      },
    ]);
  },
);

void t.test(
  'a landed, unreadable payment with its account in a later period gets its period from the block time',
  async (t) => {
    const { stage, subscription, resolver, batch } = await landedTwice(t, async (stage, one) => {
      stage.net.passSeconds(49 * HOUR);
      await ownerPulls(stage, one);
    });
    t.equal((await resolver.landed(batch)).done.length, 2);
    const { periodStart } = (await stage.onChain(subscription))!;
    t.match(await stage.payments(subscription), [
      { source: 'keeper', periodStart: new Date((Number(periodStart) - 48 * HOUR) * 1000) },
    ]);
  },
);

void t.test(
  'a landed, unreadable payment whose account is gone waits; other payments of its batch are settled',
  async (t) => {
    const scene = await landedTwice(t, closes);
    const { stage, subscription, other, resolver, batch, ails } = scene;
    const { done, unknown } = await resolver.landed(batch);
    t.same([done, unknown], [[batch[1]], [batch[0]]]);
    t.equal((await stage.payments(other)).length, 1);
    t.same((await resolver.landed([{ ...batch[0], settleTries: 7 }])).done, []);
    t.equal(await attemptOf(stage, subscription), 'open');
    ails.clear();
    t.equal((await resolver.landed([batch[0]])).done.length, 1);
    t.match(await stage.payments(subscription), [{ amountGross: AMOUNT, source: 'keeper' }]);
  },
);

void t.test(
  'a landed payment that stays unreadable, with its account gone, ends as unexplained after eight look-ups',
  async (t) => {
    const { stage, subscription, resolver, batch } = await landedTwice(t, closes);
    t.equal((await resolver.landed([{ ...batch[0], settleTries: 8 }])).done.length, 1);
    t.equal(await attemptOf(stage, subscription), 'unexplained');
  },
);

void t.test(
  'a payment that landed in a later period is recorded although periods between are unreadable',
  async (t) => {
    const { stage, subscription, rpc, spam } = await setUp(t);
    const { collector, resolver, taken } = stage.parts(rpc);
    await collector.turn();
    const [flying] = taken;
    await spam(subscription.pda);
    stage.net.timeTravel({ absoluteTimestamp: stage.net.now() + 25 * HOUR * 1000 });
    await stage.rpc.sendTransaction(flying!.attempt.transaction);
    stage.net.mineBlocks(40);
    const { statuses } = await stage.rpc.getSignatureStatuses([flying!.attempt.signature]);
    const one = { ...flying!, status: statuses[0]! };
    t.same((await resolver.landed([{ ...one, settleTries: 0 }])).done, []);
    t.same((await resolver.landed([{ ...one, settleTries: 3 }])).done, []);
    t.equal((await resolver.landed([{ ...one, settleTries: 4 }])).done.length, 1);
    t.match(await stage.payments(subscription), [{ amountGross: AMOUNT, source: 'keeper' }]);
  },
);

void t.test(
  'a payment that landed in a later period waits for its history and delays no other payment',
  async (t) => {
    const { stage, plan, subscription, rpc } = await setUp(t);
    const other = await stage.subscriber(plan);
    await stage.sql`update subscription_work set failed_packs = 2`;
    const { collector, resolver, taken } = stage.parts({
      ...rpc,
      getSignaturesForAddress: () =>
        Promise.reject(new RpcUnreachable('getSignaturesForAddress', [])),
    });
    await collector.turn();
    const late = taken.find(({ id }) => id === subscription.id)!;
    const soon = taken.find(({ id }) => id === other.id)!;
    await stage.rpc.sendTransaction(soon.attempt.transaction);
    stage.net.timeTravel({ absoluteTimestamp: stage.net.now() + 25 * HOUR * 1000 });
    await stage.rpc.sendTransaction(late.attempt.transaction);
    stage.net.mineBlocks(40);
    const signatures = [late.attempt.signature, soon.attempt.signature];
    const { statuses } = await stage.rpc.getSignatureStatuses(signatures);
    const batch = [late, soon].map((one, index) => ({ ...one, status: statuses[index]! }));
    t.same((await resolver.landed(batch)).unknown, [batch[0]]);
    t.match(await stage.payments(other), [{ amountGross: AMOUNT, source: 'keeper' }]);
    t.equal((await resolver.landed([{ ...batch[0]!, settleTries: 4 }])).done.length, 1);
    t.match(await stage.payments(subscription), [{ amountGross: AMOUNT, source: 'keeper' }]);
  },
);

void t.test(
  'a payment that landed in a later period is recorded at once if only that period is unreadable',
  async (t) => {
    const { stage, subscription, rpc, spam } = await setUp(t);
    const { collector, resolver, taken } = stage.parts(rpc);
    await collector.turn();
    const [flying] = taken;
    stage.net.timeTravel({ absoluteTimestamp: stage.net.now() + 25 * HOUR * 1000 });
    await spam(subscription.pda);
    await stage.rpc.sendTransaction(flying!.attempt.transaction);
    stage.net.mineBlocks(40);
    const { statuses } = await stage.rpc.getSignatureStatuses([flying!.attempt.signature]);
    const one = { ...flying!, status: statuses[0]!, settleTries: 0 };
    t.equal((await resolver.landed([one])).done.length, 1);
    t.match(await stage.payments(subscription), [{ amountGross: AMOUNT, source: 'keeper' }]);
  },
);

void t.test(
  'a notification with an unreadable transaction delays no other notification and starts no sweep',
  async (t) => {
    const { stage, subscription, rpc, ails, stranger } = await setUp(t);
    stage.mine();
    const keeper = await stage.startKeeper();
    await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
    await stage.quiet();
    await keeper.stop();
    const parts = stage.parts(rpc);
    const { context } = parts;
    let gaps = 0;
    const walk = new Sweep(context, { sweepMinutes: 60 });
    const sweep = {
      readNow: (ids: readonly string[], slot?: bigint) => walk.readNow(ids, slot),
      gap: () => (gaps += 1),
    };
    const notices = new Notifications(context, {
      sweep,
      plans: new PlanWatch(context),
      inFlight: { explains: () => false, isOwn: () => false },
      onDue: () => undefined,
    });
    const { programId, mint } = stage.net;
    const user = (address: string) => ({ user: address, mint });
    const notify = async (signature: string) => {
      const { logs, slot } = await stage.net
        .rpc<{ slot: number; meta: { logMessages: string[] } }>('getTransaction', signature, {
          maxSupportedTransactionVersion: 0,
          commitment: 'confirmed',
        })
        .then((found) => ({ logs: found.meta.logMessages, slot: BigInt(found.slot) }));
      notices.takeTransaction({ signature, slot, logs });
    };
    for (const [index, ailment] of BAD.entries()) {
      const build = index % 2 === 0 ? initAuthority : closeAuthority;
      const junk = await stage.send([stranger], [build(programId, user(stranger.address))]);
      ails.set(junk, ailment);
      await notify(junk);
    }
    await notify(
      await stage.send(
        [subscription.wallet],
        [revokeAuthority(programId, user(subscription.wallet.address))],
      ),
    );
    await notices.turn();
    await parts.collect();
    t.ok((await stage.row(subscription)).delegationRevokedAt, 'seen in the same turn');
    t.same(await seriesOf(parts), [
      ['refused', 1],
      ['version', 1],
      ['undecodable', 1],
    ]);
    for (let turn = 0; turn < 30; turn += 1) await notices.turn();
    t.same((await seriesOf(parts)).at(-1), ['missing', 1], 'counted when it is given up');
    t.equal(gaps, 0);
  },
);

void t.test(
  'reconcile lists unreadable transactions separately and counts no recorded payment as absent',
  async (t) => {
    const { stage, subscription, rpc, ails, spam } = await setUp(t);
    const foreign = await stage.subscriber(subscription.plan);
    const pull = await ownerPulls(stage, foreign);
    stage.mine();
    const keeper = await stage.startKeeper();
    await stage.until(
      'both are paid',
      async () => (await stage.sql`select 1 from payments`).length === 2,
    );
    await stage.quiet();
    await keeper.stop();
    const junk = await spam(stage.keeper.address, subscription.pda);
    stage.net.mineBlocks(40);
    const paid = (await stage.payments(subscription))[0]!.txSignature!;
    const { sql, net } = stage;
    const run = async () => {
      const reconciler = { sql, rpc, programId: net.programId, keepers: [stage.keeper.address] };
      const { recorded, differences } = await reconcile(reconciler, range);
      t.equal(recorded, 2);
      return differences.map(({ kind, signature }) => [kind, signature]).sort();
    };
    const named = junk.map((signature) => ['unreadable', signature]).sort();
    t.same(await run(), named);
    for (const ailment of BAD) {
      ails.set(paid, ailment);
      ails.set(pull, ailment);
      t.same(await run(), [...named, ['unreadable', paid], ['unreadable', pull]].sort(), ailment);
    }
  },
);

void t.test('unreadable transactions of strangers change nothing but a counter', async (t) => {
  const { stage, subscription, rpcUrls, spam, rpc } = await setUp(t);
  const owners = await stage.subscriber(subscription.plan);
  await spam(subscription.pda, owners.pda, stage.keeper.address, stage.net.programId);
  await ownerPulls(stage, owners);
  stage.mine();
  const keeper = await stage.startKeeper({ rpcUrls });
  await stage.until(
    'both are paid',
    async () => (await stage.sql`select 1 from payments`).length === 2,
  );
  const junk = await spam(subscription.pda, owners.pda, stage.keeper.address);
  await agree(t, stage, subscription, 1);
  await agree(t, stage, owners, 1);
  stage.net.passSeconds(24 * HOUR + 5);
  await ownerPulls(stage, owners);
  await agree(t, stage, subscription, 2);
  await agree(t, stage, owners, 2);
  const metrics = await keeper.registry.metrics();
  t.notMatch(metrics, /^billing_keeper_alerts_total\{.*\} [1-9]/m);
  t.match(
    metrics,
    /^billing_keeper_unreadable_transactions_total\{reason="version"\} [1-9]/m,
    'counted',
  );
  t.match(await keeper.ready(), undefined);
  await keeper.stop();
  const { differences } = await reconcile(
    { sql: stage.sql, rpc, programId: stage.net.programId, keepers: [stage.keeper.address] },
    range,
  );
  t.equal(differences.length, 2 * junk.length);
  t.ok(differences.every(({ kind }) => kind === 'unreadable'));
});
