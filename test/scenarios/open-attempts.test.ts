// Two pulls fit in one period if a payment is at most half of the plan's amount. Then only the rule
// of one open attempt per address protects the subscriber.
import t, { type Test } from 'tap';
import {
  cancelSubscription,
  revokeDelegation,
  transferSubscription,
} from '../../src/chain/program/instructions.ts';
import { RpcUnreachable } from '../../src/chain/rpc/errors.ts';
import { timeOf } from '../../src/chain/time.ts';
import { reconcile } from '../../src/cli/operate/reconcile/compare.ts';
import { expireKeeperLeases } from '../../src/db/operating/sandbox.ts';
import { endReplacedRegistration } from '../../src/db/subscriptions/account-registrations.ts';
import { readSubscriptions } from '../../src/db/subscriptions/work.ts';
import { forceCancel } from '../../src/domain/change/cancel.ts';
import { Sweep } from '../../src/keeper/follow/sweep.ts';
import { Tracker } from '../../src/keeper/track/tracker.ts';
import { AMOUNT, due, pullsOnChain, withoutStatuses } from '../fixtures/agreement.ts';
import { HOUR, type Plan, type Stage, startStage, type Subscription } from '../fixtures/billing.ts';
import { insertInvoice } from '../fixtures/rows.ts';

const PERIOD = 720 * HOUR;
/** A payment with a discount of 60 percent. */
const REDUCED = (AMOUNT * 40n) / 100n;

const discount = (stage: Stage) =>
  stage.sql`update subscriptions set discount_percent = 60, discount_id = uuid_v7() where status = 'active'`;

async function attemptsOf(stage: Stage, { id }: Subscription): Promise<string[]> {
  const rows = await stage.sql<{ state: string }[]>`
    select state from payment_attempts where subscription_id = ${id} order by id`;
  return rows.map(({ state }) => state);
}

/** Waits as `until` does, and makes new blocks, so that sent transactions land or expire. */
const mining = (stage: Stage, what: string, holds: () => Promise<boolean>) =>
  stage.until(what, async () => {
    stage.net.mineBlocks(4);
    return holds();
  });

void t.test(
  'if one keeper stops a transaction for a cancellation and another sends it, the rest is collected once',
  async (t) => {
    const stage = await startStage(t, { blockMs: 400 });
    const plan = await stage.plan({ amount: AMOUNT });
    const [x, y] = [await stage.subscriber(plan), await stage.subscriber(plan)];
    await discount(stage);
    const parts = stage.parts();
    await parts.collector.turn();
    const [first, second] = parts.taken.splice(0);
    t.equal(first?.attempt.signature, second?.attempt.signature, 'one transaction');
    await stage.sql.begin((tx) => forceCancel(tx, { id: x.id, status: 'active' }));
    await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 30, count: 1 });

    let checks = 0;
    const check = async (query: PromiseLike<unknown>) => {
      const rows = await query;
      checks += 1;
      // The other sender has read the rows before the cancellation, and sends right after this one
      // has decided not to.
      if (checks === 1) setImmediate(() => void sendElsewhere());
      return rows;
    };
    const sendElsewhere = async () => {
      const [transaction] = tracker.inFlight.transactions.values();
      if (transaction !== undefined) transaction.sends += 1;
      await stage.rpc.sendTransaction(first!.attempt.transaction);
    };
    const sql = new Proxy(parts.context.sql, {
      apply(target, self, args: [readonly string[], ...unknown[]]) {
        const query = Reflect.apply(target, self, args) as PromiseLike<unknown>;
        return args[0].join('').includes('select s.id, w.notices') ? check(query) : query;
      },
    });
    const tracker = new Tracker({ ...parts.context, sql }, parts.resolver);
    t.teardown(() => tracker.stop(0));
    tracker.add([first!, second!]);
    await stage.until('it was held back twice', async () => checks >= 2);
    await parts.collector.turn();
    t.same(parts.taken, [], 'nothing is signed for y while the transaction may land');
    await mining(stage, 'y is paid', async () => (await stage.payments(y)).length > 0);
    await parts.collector.turn();
    t.same(parts.taken, []);
    t.match(await pullsOnChain(stage, y), [{ amount: REDUCED }]);
    t.equal((await pullsOnChain(stage, y)).length, 1);
    t.same(await attemptsOf(stage, y), ['landed']);
  },
);

/**
 * The subscriber cancels, closes the account, subscribes again and registers; returns the new
 * registration.
 */
async function reopened(stage: Stage, plan: Plan, { id, wallet, pda }: Subscription) {
  const { programId } = stage.net;
  const parties = { subscriber: wallet.address, plan: plan.pda, subscription: pda };
  await stage.send([wallet], [cancelSubscription(programId, parties)]);
  stage.net.passSeconds(PERIOD);
  const close = { authority: wallet.address, plan: plan.pda, subscription: pda };
  await stage.send([wallet], [revokeDelegation(programId, close)]);
  stage.net.passSeconds(100);
  await stage.open(plan, wallet);
  await stage.sql.begin((tx) => endReplacedRegistration(tx, id));
  const again = await stage.register(plan, wallet);
  await discount(stage);
  return again;
}

void t.test(
  'an attempt of an earlier registration that lands in the new account pays the period once',
  async (t) => {
    const { stage, plan, subscription: one } = await due(t, { blockMs: 400 });
    await discount(stage);
    const parts = stage.parts();
    await parts.collector.turn();
    const [signed] = parts.taken.splice(0);
    await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 60, count: 1 });
    await stage.rpc.sendTransaction(signed!.attempt.transaction);
    const two = await reopened(stage, plan, one);
    t.same(await pullsOnChain(stage, two), [], 'it is on its way');
    await parts.collector.turn();
    t.same(parts.taken, [], 'the address has an open attempt');

    await stage.startKeeper();
    await mining(
      stage,
      'the new registration is paid',
      async () => (await stage.row(two)).paidThrough !== null,
    );
    const { periodStart } = (await stage.onChain(two))!;
    const pulls = await pullsOnChain(stage, two);
    t.match(pulls, [{ signature: signed!.attempt.signature, amount: REDUCED, periodStart }]);
    t.equal(pulls.length, 1);
    t.match(await stage.payments(one), [{ txSignature: signed!.attempt.signature }]);
    t.same(await stage.payments(two), [], 'it is recorded under the registration that signed it');
    t.match(await stage.row(two), { paidThrough: timeOf(periodStart + BigInt(PERIOD)) });
    t.same(await attemptsOf(stage, two), []);

    stage.net.passSeconds(PERIOD);
    await mining(
      stage,
      'the next period is paid',
      async () => (await stage.payments(two)).length === 1,
    );
    t.equal((await pullsOnChain(stage, two)).length, 2);
  },
);

void t.test(
  'a new registration is collected after the open attempt of the earlier registration has expired',
  async (t) => {
    const { stage, plan, subscription: one } = await due(t, { blockMs: 400 });
    await discount(stage);
    const parts = stage.parts();
    await parts.collector.turn();
    parts.taken.splice(0);
    const two = await reopened(stage, plan, one);
    await parts.collector.turn();
    t.same(parts.taken, [], 'the address has an open attempt');
    await stage.startKeeper();
    await mining(
      stage,
      'the new registration is paid',
      async () => (await stage.payments(two)).length > 0,
    );
    t.same(await attemptsOf(stage, one), ['expired']);
    t.same(await attemptsOf(stage, two), ['landed']);
    t.match(await pullsOnChain(stage, two), [{ amount: REDUCED }]);
    t.equal((await pullsOnChain(stage, two)).length, 1);
  },
);

/** Inserts an open attempt of an ended registration at the same address. */
async function insertOlderAttempt(stage: Stage, { id, pda }: Subscription): Promise<void> {
  const [older] = await stage.sql<[{ id: string }]>`
    with older as (
      insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, status, cancelled_at, ended_at)
      select app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, 'cancelled', now(), now()
      from subscriptions where id = ${id} returning id, app_id
    )
    insert into subscription_work (subscription_id, app_id) select id, app_id from older returning subscription_id as id`;
  const invoiceId = await insertInvoice(stage.sql, older.id, { amount: 100n });
  await stage.sql`
    with signed as (
      insert into transactions (signature, bytes, last_valid_block_height) values (sha512(${pda}::bytea), '\\x00', 1) returning id
    )
    insert into payment_attempts (subscription_id, invoice_id, subscription_pda, transaction_id, period_start, claim_id, amount_gross, platform_fee, amount_net)
    select ${older.id}, ${invoiceId}, ${pda}, signed.id, now(), gen_random_uuid(), 100, 1, 99 from signed`;
}

void t.test(
  'an address that gets an open attempt after its claim is skipped, and the others are signed',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ amount: AMOUNT });
    const [x, y, z] = [
      await stage.subscriber(plan),
      await stage.subscriber(plan),
      await stage.subscriber(plan),
    ];
    let reads = 0;
    const { collector, taken } = stage.parts({
      getMultipleAccounts: async (...args) => {
        reads += 1;
        if (reads === 1) await insertOlderAttempt(stage, y);
        return stage.rpc.getMultipleAccounts(...args);
      },
    });
    await collector.turn();
    t.same(taken.map(({ id }) => id).sort(), [x.id, z.id].sort());
    t.equal(new Set(taken.map(({ attempt }) => attempt.signature)).size, 1, 'in one transaction');
    t.match(taken, [{ attempt: { payments: 2 } }, { attempt: { payments: 2 } }]);
    t.match(await stage.row(y), { claimId: null, setbacks: 0 });
    await collector.turn();
    t.equal(taken.length, 2, 'it is passed over');
    await stage.sql`update payment_attempts set state = 'expired', resolved_at = now() where subscription_pda = ${y.pda}`;
    await collector.turn();
    t.equal(taken[2]?.id, y.id);
  },
);

/**
 * A signed payment whose signature no endpoint knows; no history lists it while `isHidden`, nor
 * anything up to the slot `lostUpTo`.
 */
async function unlisted(t: Test, { waited = 0, reduced = true } = {}) {
  const { stage, subscription } = await due(t);
  if (reduced) await discount(stage);
  const history = { isHidden: true, lostUpTo: -1n };
  const endpoints = { all: 1, responding: 1 };
  const hooks = { onList: async () => {} };
  const parts = stage.parts({
    endpoints: () => endpoints.all,
    getSignatureStatuses: async (...args) => ({
      ...(await withoutStatuses(stage.rpc).getSignatureStatuses(...args)),
      witnesses: endpoints.responding,
    }),
    getSignaturesForAddress: async (...args) => {
      await hooks.onList();
      const listed = await stage.rpc.getSignaturesForAddress(...args);
      const [hidden] = taken;
      return listed.filter(
        ({ signature, slot }) =>
          slot > history.lostUpTo && (!history.isHidden || signature !== hidden?.attempt.signature),
      );
    },
  });
  const { collector, taken } = parts;
  if (waited > 0) {
    // The first try is in time and fails, so that the whole amount is due at the second one.
    await collector.turn();
    taken.splice(0);
    await stage.sql`update payment_attempts set state = 'expired', resolved_at = now()`;
    await stage.sql`update invoices set failed_tries = 1, troubled_at = now()`;
    await expireKeeperLeases(stage.sql);
    stage.net.passSeconds(waited);
  }
  await collector.turn();
  const flying = taken[0]!;
  const attempt = async () => (await attemptsOf(stage, subscription))[waited > 0 ? 1 : 0];
  const look = async (settleTries: number) =>
    (await parts.resolver.expired([{ ...flying, settleTries }])).done.length;
  /** The payment lands, and in the next period the merchant pulls with its own key. */
  const landedBefore = async () => {
    await stage.rpc.sendTransaction(flying.attempt.transaction);
    stage.net.mineBlocks(200);
    await laterPull(stage, subscription);
  };
  return {
    ...{ stage, subscription, flying, attempt, look, history, endpoints, hooks, landedBefore },
    ...parts,
  };
}

/** The merchant pulls with its own key. */
function ownPull(stage: Stage, { wallet, plan, pda }: Subscription, amount: bigint) {
  const pull = transferSubscription(stage.net.programId, {
    subscriber: wallet.address,
    plan: plan.pda,
    subscription: pda,
    caller: plan.merchant.address,
    receiver: plan.merchant.address,
    mint: stage.net.mint,
    amount,
  });
  return stage.send([plan.merchant], [pull]);
}

/** In the next period the merchant pulls with its own key. */
async function laterPull(stage: Stage, ...subscriptions: Subscription[]): Promise<void> {
  stage.net.passSeconds(PERIOD);
  stage.net.mineBlocks(40);
  for (const subscription of subscriptions) await ownPull(stage, subscription, 1_000_000n);
  stage.net.mineBlocks(40);
}

void t.test(
  'an attempt stays open while the history lacks a pull that the account counts, then it is recorded',
  async (t) => {
    const { stage, subscription, flying, attempt, look, history, ...parts } = await unlisted(t);
    const { signature } = flying.attempt;
    await stage.rpc.sendTransaction(flying.attempt.transaction);
    stage.net.mineBlocks();
    const own = await ownPull(stage, subscription, 1_000_000n);
    stage.net.mineBlocks(200);
    t.equal(await look(0), 0);
    t.equal(await look(20), 0, 'however often it was looked for in this period');
    t.equal(await attempt(), 'open');
    history.isHidden = false;
    t.equal(await look(1), 1);
    t.equal(await attempt(), 'landed');
    // The next read of the accounts records the merchant's pull.
    await new Sweep(parts.context, { sweepMinutes: 60 }).readNow([subscription.id]);
    await parts.collect();
    t.match(await stage.payments(subscription), [
      { txSignature: signature, source: 'keeper', amountGross: REDUCED, platformFee: 20_000n },
      { txSignature: own, source: 'foreign', amountGross: 1_000_000n, further: true },
    ]);
    t.equal(parts.taken.length, 1, 'and nothing else was signed');
  },
);

void t.test(
  'an attempt expires when other pulls add up to all that its account counts',
  async (t) => {
    const { stage, subscription, attempt, look } = await unlisted(t);
    await ownPull(stage, subscription, 1_000_000n);
    await ownPull(stage, subscription, 500_000n);
    stage.net.mineBlocks(200);
    t.equal(await look(0), 1);
    t.equal(await attempt(), 'expired');
  },
);

void t.test(
  'after eight look-ups in a later period an attempt ends as unexplained and the next payment is collected',
  async (t) => {
    const { stage, subscription, flying, attempt, look, ...parts } = await unlisted(t);
    const { context, taken } = parts;
    await stage.rpc.sendTransaction(flying.attempt.transaction);
    stage.net.mineBlocks();
    await ownPull(stage, subscription, 1_000_000n);
    stage.net.mineBlocks(200);
    t.equal(await look(8), 0, 'its period is not over');
    stage.net.passSeconds(PERIOD);
    stage.net.mineBlocks(40);
    t.equal(await look(7), 0);
    await parts.collect();
    t.equal(taken.length, 1, 'nothing is collected while it is open');
    t.equal(await look(8), 1);
    t.equal(await attempt(), 'unexplained');
    const alerts = (await context.metrics.alerts.get()).values.filter(({ value }) => value > 0);
    t.match(alerts, [{ labels: { reason: 'attempt_unexplained' }, value: 1 }]);

    const reconciler = {
      sql: stage.sql,
      rpc: context.rpc,
      programId: stage.net.programId,
      keepers: [],
    };
    const range = { since: new Date(0), until: new Date('2100-01-01'), repair: false };
    const { differences } = await reconcile(reconciler, range);
    t.match(differences, [
      { kind: 'not_recorded', detail: /^another puller pulled 1000000/ },
      {
        kind: 'unexplained',
        signature: flying.attempt.signature,
        subscriptionPda: subscription.pda,
        detail: /^2000000 for the period from .* no history shows whether they were moved/,
      },
    ]);

    for (let looks = 0; looks < 12 && taken.length < 2; looks += 1) {
      await parts.collect();
      stage.net.passSeconds(900);
      stage.net.mineBlocks(40);
    }
    const next = timeOf(BigInt(flying.attempt.periodStart.getTime() / 1000 + PERIOD));
    t.match(taken.slice(1), [{ attempt: { periodStart: next, amountGross: REDUCED } }]);
    const found = await reconcile(
      { ...reconciler, rpc: stage.rpc, keepers: [stage.keeper.address] },
      range,
    );
    t.same(
      found.differences.map(({ kind, signature }) => [kind, signature]),
      [['charged_twice', flying.attempt.signature]],
      "a history that lists it explains it: the merchant's own pull has paid the period",
    );
  },
);

void t.test(
  'an unexplained attempt that landed a period late leads to no second pull of a period',
  async (t) => {
    const { stage, subscription, flying, attempt, look, ...parts } = await unlisted(t, {
      waited: PERIOD - 300,
    });
    const { taken } = parts;
    stage.net.passSeconds(300);
    await stage.rpc.sendTransaction(flying.attempt.transaction);
    stage.net.mineBlocks(200);
    const [landed] = await pullsOnChain(stage, subscription);
    const { periodStart } = landed!;
    t.ok(timeOf(periodStart) > flying.attempt.periodStart, 'it landed a period later');
    t.equal(await look(8), 1);
    t.equal(await attempt(), 'unexplained');
    for (let looks = 0; looks < 12; looks += 1) {
      await parts.collect();
      stage.net.passSeconds(900);
      stage.net.mineBlocks(40);
    }
    t.equal(taken.length, 1, 'the period in which it landed is not collected again');
    stage.net.passSeconds(PERIOD);
    for (let looks = 0; looks < 12 && taken.length < 2; looks += 1) {
      await parts.collect();
      stage.net.passSeconds(900);
      stage.net.mineBlocks(40);
    }
    t.match(taken.slice(1), [{ attempt: { periodStart: timeOf(periodStart + BigInt(PERIOD)) } }]);
  },
);

void t.test(
  'an attempt in a period that is over stays open until histories had the time to list it',
  async (t) => {
    const { stage, subscription, flying, attempt, look, history } = await unlisted(t);
    await stage.rpc.sendTransaction(flying.attempt.transaction);
    stage.net.mineBlocks(200);
    stage.net.passSeconds(PERIOD);
    stage.net.mineBlocks(40);
    await ownPull(stage, subscription, 1_000_000n);
    stage.net.mineBlocks(40);
    const account = await stage.onChain(subscription);
    t.equal(account?.amountPulled, 1_000_000n, "it counts the merchant's pull alone");
    for (const tries of [0, 3]) t.equal(await look(tries), 0);
    t.equal(await attempt(), 'open');
    history.isHidden = false;
    t.equal(await look(4), 1);
    t.equal(await attempt(), 'landed');
    t.match(await stage.payments(subscription), [{ txSignature: flying.attempt.signature }]);
  },
);

void t.test(
  'an attempt in a period that is over stays open while histories do not reach its blockhash',
  async (t) => {
    const { stage, flying, attempt, look, history, landedBefore } = await unlisted(t);
    await landedBefore();
    const { statuses } = await stage.rpc.getSignatureStatuses([flying.attempt.signature], {
      history: true,
    });
    history.lostUpTo = statuses[0]!.slot;
    t.equal(await look(4), 0, 'a node that started after it knows neither it nor anything before');
    t.equal(await attempt(), 'open');
    t.equal(await look(8), 1);
    t.equal(await attempt(), 'unexplained', 'which raises an alert');
  },
);

void t.test(
  'an attempt in a period that is over stays open while one of two endpoints does not respond',
  async (t) => {
    const { stage, subscription, attempt, look, endpoints } = await unlisted(t, { reduced: false });
    stage.net.mineBlocks(200);
    await laterPull(stage, subscription);
    endpoints.all = 2;
    for (const tries of [4, 8]) t.equal(await look(tries), 0);
    t.equal(await attempt(), 'open', 'nor is it unexplained: the other may know it');
    endpoints.responding = 2;
    t.equal(await look(4), 1);
    t.equal(await attempt(), 'expired');
  },
);

void t.test(
  'an attempt that the history lists counts as landed, even if its transaction shows no pull',
  async (t) => {
    const { stage, subscription, flying, attempt, history, ...parts } = await unlisted(t);
    await parts.landedBefore();
    history.isHidden = false;
    const { signature } = flying.attempt;
    const blind = stage.parts({
      ...parts.context.rpc,
      getTransaction: async (asked, options) => {
        const found = await stage.rpc.getTransaction(asked, options);
        return asked === signature && !('unreadable' in found)
          ? { ...found, inner: new Map() }
          : found;
      },
    });
    t.equal((await blind.resolver.expired([flying])).done.length, 1);
    t.equal(await attempt(), 'landed');
    t.match(await stage.payments(subscription), [{ txSignature: signature }]);
  },
);

void t.test(
  'a pull that lands after the account was read does not explain what the account counts',
  async (t) => {
    const { stage, subscription, flying, attempt, look, hooks } = await unlisted(t, {
      waited: PERIOD - 300,
    });
    stage.net.passSeconds(300);
    await stage.rpc.sendTransaction(flying.attempt.transaction);
    stage.net.mineBlocks(200);
    hooks.onList = async () => {
      hooks.onList = async () => {};
      await ownPull(stage, subscription, REDUCED);
      stage.net.mineBlocks(40);
    };
    t.equal(await look(4), 0);
    t.equal(await attempt(), 'open');
  },
);

void t.test('an attempt whose history cannot be read delays no other attempt', async (t) => {
  const { stage, plan, subscription: one } = await due(t);
  const other = await stage.subscriber(plan);
  // Puts each payment in a transaction of its own.
  await stage.sql`update subscription_work set failed_packs = 2`;
  const { collector, resolver, taken } = stage.parts({
    ...withoutStatuses(stage.rpc),
    getSignaturesForAddress: (address, options) =>
      address === one.pda
        ? Promise.reject(new RpcUnreachable('getSignaturesForAddress', []))
        : stage.rpc.getSignaturesForAddress(address, options),
  });
  await collector.turn();
  stage.net.mineBlocks(200);
  await laterPull(stage, one, other);
  const looked = await resolver.expired(taken.map((each) => ({ ...each, settleTries: 8 })));
  t.match(looked.done, [{ id: other.id }]);
  t.equal(looked.done.length, 1);
  t.same(looked.unknown, [], 'and that is no try');
  t.same(await attemptsOf(stage, one), ['open']);
  t.same(await attemptsOf(stage, other), ['expired']);
});

/** Two payments in one transaction that landed; the first one's history does not list it. */
async function halfListed(t: Test) {
  const { stage, plan, subscription: one } = await due(t);
  const other = await stage.subscriber(plan);
  const history = { isListed: false };
  const isOwn = (asked: string) => asked === taken[0]?.attempt.signature;
  const { collector, resolver, taken } = stage.parts({
    ...withoutStatuses(stage.rpc),
    getSignaturesForAddress: async (address, options) =>
      (await stage.rpc.getSignaturesForAddress(address, options)).filter(
        ({ signature }) => address !== one.pda || history.isListed || !isOwn(signature),
      ),
    getTransaction: async (asked, options) => {
      const found = await stage.rpc.getTransaction(asked, options);
      return isOwn(asked) && !('unreadable' in found) ? { ...found, inner: new Map() } : found;
    },
  });
  await collector.turn();
  t.match(taken, [{ attempt: { payments: 2 } }, { attempt: { payments: 2 } }]);
  await stage.rpc.sendTransaction(taken[0]!.attempt.transaction);
  stage.net.mineBlocks(200);
  await laterPull(stage, one, other);
  const look = async (subscriptions: Subscription[], settleTries: number) => {
    const asked = taken.filter(({ id }) => subscriptions.some((known) => known.id === id));
    await resolver.expired(asked.map((attempt) => ({ ...attempt, settleTries })));
    return [await attemptsOf(stage, one), await attemptsOf(stage, other)].flat();
  };
  return { one, other, history, look };
}

void t.test(
  'if one account’s history lists a shared transaction, all its payments count as landed',
  async (t) => {
    const { one, other, look } = await halfListed(t);
    t.same(await look([one, other], 4), ['landed', 'landed']);
  },
);

for (const isListedLater of [true, false])
  void t.test(
    `if another payment of its transaction is recorded, a payment stays open, then ${isListedLater ? 'landed if listed' : 'ends as unexplained'}`,
    async (t) => {
      const { one, other, history, look } = await halfListed(t);
      t.same(await look([other], 4), ['open', 'landed']);
      t.same(await look([one], 4), ['open', 'landed']);
      history.isListed = isListedLater;
      t.same(await look([one], 8), [isListedLater ? 'landed' : 'unexplained', 'landed']);
    },
  );

void t.test(
  'an attempt of an earlier period that was never sent expires once histories had time to list it',
  async (t) => {
    const { stage, subscription, attempt, look } = await unlisted(t);
    stage.net.mineBlocks(200);
    stage.net.passSeconds(PERIOD);
    stage.net.mineBlocks(40);
    await ownPull(stage, subscription, 1_000_000n);
    stage.net.mineBlocks(40);
    t.equal(await look(3), 0);
    t.equal(await look(4), 1);
    t.equal(await attempt(), 'expired');
  },
);

void t.test(
  'after an attempt ended, no registration of its address uses an older state of the account',
  async (t) => {
    const { stage, plan, subscription: one } = await due(t);
    const { collector, resolver, taken } = stage.parts();
    await collector.turn();
    const [flying] = taken;
    await stage.rpc.sendTransaction(flying!.attempt.transaction);
    stage.net.mineBlocks(40);
    const { statuses } = await stage.rpc.getSignatureStatuses([flying!.attempt.signature]);
    const status = statuses[0]!;
    t.ok(status.slot > flying!.row.observedSlot);
    t.equal((await resolver.landed([{ ...flying!, status }])).done.length, 1);
    await stage.sql.begin((tx) => endReplacedRegistration(tx, one.id));
    const two = await stage.register(plan, one.wallet);
    for (const { observedSlot } of await readSubscriptions(stage.sql, [one.id, two.id]))
      t.ok(observedSlot >= status.slot);
  },
);
