import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import type { Rpc } from '../../../src/chain/rpc/rpc.ts';
import { reconcile } from '../../../src/cli/operate/reconcile/compare.ts';
import { readLastReconciliation } from '../../../src/db/operating/reconciliation.ts';
import { forceCancellation } from '../../../src/db/subscriptions/merchant-edits.ts';
import { paidOnce } from '../../fixtures/agreement.ts';
import { HOUR, silent, type Stage, startStage } from '../../fixtures/billing.ts';
import { runShared } from '../../fixtures/command.ts';
import { asRole } from '../../fixtures/postgres.ts';
import { losePayments } from '../../fixtures/rows.ts';

/** What `billing reconcile` works with; `rpc` in place of the stage's. */
function reconcilerOf({ sql, rpc, net, keeper }: Stage, other: Rpc = rpc) {
  return { sql, rpc: other, programId: net.programId, keepers: [keeper.address] };
}

const range = { since: new Date(0), until: new Date('2100-01-01') };

void t.test(
  'reconcile reports no difference if books equal the chain, names wrong and records missing payments',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ periodHours: 24 });
    const subscriptions = [
      await stage.subscriber(plan),
      await stage.subscriber(plan),
      await stage.subscriber(plan),
    ] as const;
    const keeper = await stage.startKeeper();
    const paid = async (count: number) => {
      await stage.until(
        'all are paid',
        async () =>
          (await stage.sql`select 1 from payments where status = 'succeeded'`).length === count,
      );
      await stage.quiet();
    };
    await paid(3);
    stage.net.passSeconds(24 * HOUR + 5);
    await paid(6);
    await keeper.stop();
    const reconciler = reconcilerOf(stage);
    t.same(await reconcile(reconciler, { ...range, repair: false }), {
      recorded: 6,
      onChain: 6,
      elsewhere: { pulls: 0, plans: 0 },
      differences: [],
      unregistered: [],
    });

    const [lost, altered, invented] = subscriptions;
    const [gone] = (await stage.payments(lost)).slice(-1);
    await losePayments(stage.sql, { txSignature: gone!.txSignature, subscriptionId: lost.id });
    await stage.sql`update subscription_work set paid_through = ${gone!.periodStart}, due_at = ${gone!.periodStart} where subscription_id = ${lost.id}`;
    await stage.sql`update payments set amount_gross = amount_gross + 1, amount_net = amount_net + 1 where subscription_id = ${altered.id} and attempt = 1
    and period_start = (select max(period_start) from payments where subscription_id = ${altered.id})`;
    const [theirs] = (await stage.payments(invented)).slice(-1);
    const invention = generateKeypair().address;
    await stage.sql`
      update payments set tx_signature = ${invention} where tx_signature = ${theirs!.txSignature}
        and subscription_id = ${invented.id}`;

    const kinds = async (repair: boolean) =>
      (await reconcile(reconciler, { ...range, repair })).differences
        .map(({ kind, subscriptionPda, repaired }) => [
          kind,
          subscriptions.findIndex(({ pda }) => pda === subscriptionPda),
          repaired,
        ])
        .sort();
    t.same(await kinds(false), [
      ['not_on_chain', 2, false],
      ['not_recorded', 0, false],
      ['not_recorded', 2, false],
      ['other_amounts', 1, false],
    ]);
    t.same(await kinds(true), [
      ['not_on_chain', 2, false],
      ['not_recorded', 0, true],
      // Its period has a (wrong) payment: nothing is recorded beside it, nothing is deleted.
      ['not_recorded', 2, false],
      ['other_amounts', 1, false],
    ]);
    t.match((await stage.payments(lost)).at(-1), {
      txSignature: gone!.txSignature,
      amountGross: gone!.amountGross,
      platformFee: gone!.platformFee,
      periodStart: gone!.periodStart,
      periodEnd: gone!.periodEnd,
      source: 'keeper',
    });
    t.same((await stage.row(lost)).paidThrough, gone!.periodEnd);
    t.equal((await stage.events(lost)).at(-1)?.data.txSignature, gone!.txSignature);
    t.equal((await kinds(true)).length, 3, 'and once');
    // At the end of a test, payments agree with their invoices and with the chain.
    await stage.sql`
      update payments set tx_signature = ${theirs!.txSignature} where tx_signature = ${invention}`;
    await stage.sql`update payments set amount_gross = amount_gross - 1, amount_net = amount_net - 1 where amount_gross % 10 = 1`;
  },
);

void t.test(
  'reconcile stores only the result of the default range, with a read-only role; keepers export it',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    const keeper = await stage.startKeeper();
    await paidOnce(stage, subscription);
    await stage.sql`
      insert into installation (cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds, updated_at)
      values ('localnet', 'm', 'p', '{k}', '{t}', 100, 0, now() - interval '1 hour')`;
    const env = {
      DATABASE_URL: asRole(stage.databaseUrl, 'reconcile'),
      SOLANA_RPC_URL: stage.net.rpcUrl,
      SOLANA_CLUSTER: 'localnet',
      USDC_MINT: stage.net.mint,
      SUBSCRIPTIONS_PROGRAM_ID: stage.net.programId,
      KEEPER_ADDRESS: stage.keeper.address,
    };
    const shown = async () => {
      const read = (await readLastReconciliation(stage.sql))!;
      return { differences: read.differences, isFresh: read.ageSeconds < 1800 };
    };
    t.same(await shown(), { differences: 0, isFresh: false }, 'before the first run');
    await stage.sql`update payments set amount_gross = amount_gross + 1, amount_net = amount_net + 1`;
    const since = new Date(0).toISOString();
    t.equal((await runShared(['reconcile', '--since', since], env)).code, 1);
    t.same(await shown(), { differences: 0, isFresh: false }, 'another range');
    t.match(await runShared(['reconcile'], env), { code: 1, stdout: /other_amounts/ });
    t.same(await shown(), { differences: 1, isFresh: true });
    await stage.until('the keeper shows it', async () =>
      /billing_reconcile_differences\S* 1\n/.test(await keeper.registry.metrics()),
    );
    await stage.sql`update payments set amount_gross = amount_gross - 1, amount_net = amount_net - 1`;
    t.equal((await runShared(['reconcile'], env)).code, 0);
    t.same(await shown(), { differences: 0, isFresh: true });
  },
);

void t.test(
  'reconcile compares only the given range and does not report a payment in flight as a difference',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    const { collector, taken } = stage.parts();
    await collector.turn();
    await stage.rpc.sendTransaction(taken[0]!.attempt.transaction);
    stage.net.mineBlocks(40);
    const reconciler = reconcilerOf(stage);
    t.same(await reconcile(reconciler, { ...range, repair: true }), {
      recorded: 0,
      onChain: 1,
      elsewhere: { pulls: 0, plans: 0 },
      differences: [],
      unregistered: [],
    });
    const before = { since: new Date(0), until: new Date((stage.now() - 3600) * 1000) };
    t.same(await reconcile(reconciler, { ...before, repair: true }), {
      recorded: 0,
      onChain: 0,
      elsewhere: { pulls: 0, plans: 0 },
      differences: [],
      unregistered: [],
    });
    t.same(await stage.payments(subscription), []);
  },
);

void t.test(
  'reconcile reports a listed transaction that no endpoint returns as unreadable, never as absent',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const subscriptions = [await stage.subscriber(plan), await stage.subscriber(plan)] as const;
    // Each in a transaction of its own.
    await stage.sql`update subscription_work set failed_packs = 2`;
    const keeper = await stage.startKeeper();
    await stage.until(
      'both are paid',
      async () => (await stage.sql`select 1 from payments where status = 'succeeded'`).length === 2,
    );
    await stage.quiet();
    await keeper.stop();
    const lost = (await stage.payments(subscriptions[0]))[0]!.txSignature!;
    const about = { txSignature: lost, subscriptionId: subscriptions[0].id };
    const recorded = (await stage.payments(subscriptions[1]))[0]!.txSignature!;
    await losePayments(stage.sql, about);
    const rpc: Rpc = {
      ...stage.rpc,
      getTransaction: async (signature, options) =>
        [lost, recorded].includes(signature)
          ? { signature, unreadable: 'missing' }
          : stage.rpc.getTransaction(signature, options),
    };
    const { differences } = await reconcile(reconcilerOf(stage, rpc), { ...range, repair: true });
    t.same(
      differences.map(({ kind, signature, repaired }) => [kind, signature, repaired]),
      [
        ['unreadable', recorded, false],
        ['unreadable', lost, false],
      ],
    );
  },
);

void t.test(
  'reconcile includes --since and excludes --until; a payment without a time is in every range',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    const keeper = await stage.startKeeper();
    await paidOnce(stage, subscription);
    await keeper.stop();
    const [{ at }] = await stage.sql<[{ at: Date }]>`select occurred_at as at from payments`;
    const compared = async (since: number, until: number, rpc = stage.rpc) => {
      const reconciler = reconcilerOf(stage, rpc);
      const { recorded, onChain, differences } = await reconcile(reconciler, {
        since: new Date(at.getTime() + since),
        until: new Date(at.getTime() + until),
        repair: true,
      });
      t.same(differences, []);
      return [recorded, onChain];
    };
    t.same(await compared(0, 1), [1, 1]);
    t.same(await compared(-1000, 0), [0, 0]);
    t.same(await compared(1, 1000), [0, 0]);
    const timeless: Rpc = {
      ...stage.rpc,
      getSignaturesForAddress: async (...args) =>
        (await stage.rpc.getSignaturesForAddress(...args)).map((one) => ({
          ...one,
          blockTime: null,
        })),
    };
    await losePayments(stage.sql);
    const { differences } = await reconcile(reconcilerOf(stage, timeless), {
      since: new Date(at.getTime() + 1),
      until: range.until,
      repair: false,
    });
    t.match(
      differences,
      [{ kind: 'not_recorded', subscriptionPda: subscription.pda }],
      'named rather than overlooked',
    );
  },
);

void t.test(
  'two concurrent repairs of reconcile and a keeper record a missing payment once, with one event',
  async (t) => {
    const stage = await startStage(t);
    const subscription = await stage.subscriber(await stage.plan());
    const keeper = await stage.startKeeper();
    await paidOnce(stage, subscription);
    const [before] = await stage.payments(subscription);
    await losePayments(stage.sql);
    const repairs = await Promise.all(
      [1, 2].map(async () => {
        const rpc = createRpc({ urls: [stage.net.rpcUrl], log: silent });
        t.teardown(() => rpc.close());
        return reconcile(reconcilerOf(stage, rpc), { ...range, repair: true });
      }),
    );
    t.ok(repairs.some(({ differences }) => differences.some(({ repaired }) => repaired)));
    await stage.quiet();
    await keeper.stop();
    t.match(await stage.payments(subscription), [
      { txSignature: before!.txSignature, amountGross: before!.amountGross },
    ]);
    t.equal(
      (await stage.events(subscription)).filter(({ type }) => type === 'payment_success').length,
      2,
      'once for each time that it was written',
    );
  },
);

void t.test(
  'a pull without an attempt is reported with wallet and page, and --repair records it',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const [lost, late, known] = [
      await stage.subscriber(plan),
      await stage.subscriber(plan),
      await stage.subscriber(plan),
    ];
    const keeper = await stage.startKeeper();
    for (const one of [lost, late, known]) await paidOnce(stage, one);
    await stage.quiet();
    await keeper.stop();
    for (const { id } of [lost, late, known])
      await stage.sql.begin((tx) => forceCancellation(tx, id, null));
    // Two attempts were given up before their payments were found; the third one is lost.
    await stage.sql.begin(async (tx) => {
      await tx`set local session_replication_role = replica`;
      await tx`delete from payments`;
      await tx`delete from payment_attempts where subscription_id = ${lost.id}`;
      await tx`delete from invoices where subscription_id = ${lost.id}`;
      await tx`
        update invoices set state = 'uncollectible', unpaid_at = now(), troubled_at = now()`;
      await tx`update payment_attempts set created_at = now() where subscription_id = ${late.id}`;
    });
    const reconciler = { ...reconcilerOf(stage), publicUrl: 'https://pay.example' };
    const found = async (repair: boolean) =>
      (await reconcile(reconciler, { ...range, repair })).differences;
    const named = await found(true);
    t.same(named.map(({ kind, repaired }) => [kind, repaired]).sort(), [
      ['after_end', true],
      ['after_end', true],
      ['not_recorded', true],
    ]);
    for (const { wallet, pda } of [lost, late]) {
      const { detail } = named.find(({ subscriptionPda }) => subscriptionPda === pda)!;
      t.match(detail, wallet.address);
      t.match(detail, `https://pay.example/s/${plan.id}`);
    }
    t.same(await found(true), []);
    for (const one of [lost, late, known]) {
      t.equal((await stage.payments(one)).length, 1);
      t.equal((await stage.row(one)).status, 'cancelled');
    }
    t.equal((await stage.sql`select 1 from subscriptions`).length, 3);
  },
);

void t.test(
  'reconcile sums up pulls for plans of another installation with the same keeper in one line',
  async (t) => {
    const stage = await startStage(t);
    const [here, there] = [await stage.plan(), await stage.plan()];
    const subscriptions = [
      await stage.subscriber(here),
      await stage.subscriber(there),
      await stage.subscriber(there),
    ];
    const keeper = await stage.startKeeper();
    for (const subscription of subscriptions) await paidOnce(stage, subscription);
    await stage.quiet();
    await keeper.stop();
    // The books of a cell that never had the other plan.
    await stage.sql.begin(async (tx) => {
      await tx`set local session_replication_role = replica`;
      const gone = subscriptions.slice(1).map(({ id }) => id);
      await tx`delete from payment_attempts where subscription_id = any(${gone})`;
      await tx`delete from payments where subscription_id = any(${gone})`;
      await tx`delete from invoices where subscription_id = any(${gone})`;
      await tx`delete from events where subscription_id = any(${gone})`;
      await tx`delete from subscription_work where subscription_id = any(${gone})`;
      await tx`delete from subscriptions where id = any(${gone})`;
      await tx`delete from plans where id = ${there.id}`;
    });
    t.same(await reconcile(reconcilerOf(stage), { ...range, repair: true }), {
      recorded: 1,
      onChain: 1,
      elsewhere: { pulls: 2, plans: 1 },
      differences: [],
      unregistered: [],
    });
    const printed = await runShared(['reconcile'], {
      DATABASE_URL: asRole(stage.databaseUrl, 'reconcile'),
      SOLANA_RPC_URL: stage.net.rpcUrl,
      SOLANA_CLUSTER: 'localnet',
      USDC_MINT: stage.net.mint,
      SUBSCRIPTIONS_PROGRAM_ID: stage.net.programId,
      KEEPER_ADDRESS: stage.keeper.address,
    });
    t.equal(printed.code, 0, printed.stderr);
    t.match(printed.stdout, /no difference\.\n2 pulls of 1 plans that are not in this database/);
  },
);

void t.test(
  'after a restore, reconcile --repair registers collected accounts and lists other live accounts',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ periodHours: 24 });
    const [lost, kept] = [await stage.subscriber(plan), await stage.subscriber(plan)];
    const keeper = await stage.startKeeper();
    for (const one of [lost, kept]) await paidOnce(stage, one);
    await keeper.stop();
    const [before] = await stage.payments(lost);
    const trial = await stage.subscriber(plan);
    const gone = [lost.id, trial.id];
    await stage.sql`delete from delivery_queue where event_id in (
      select id from events where subscription_id = any(${gone}::uuid[]))`;
    await stage.sql`delete from events where subscription_id = any(${gone}::uuid[])`;
    await stage.sql`delete from payments where subscription_id = any(${gone}::uuid[])`;
    await stage.sql`delete from payment_attempts where subscription_id = any(${gone}::uuid[])`;
    await stage.sql`delete from invoices where subscription_id = any(${gone}::uuid[])`;
    await stage.sql`delete from subscription_work where subscription_id = any(${gone}::uuid[])`;
    await stage.sql`delete from subscriptions where id = any(${gone}::uuid[])`;

    const reconciler = reconcilerOf(stage);
    const named = await reconcile(reconciler, { ...range, repair: false });
    t.match(named.differences, [{ kind: 'no_subscription', subscriptionPda: lost.pda }]);
    t.same(named.unregistered, []);
    const { differences, unregistered } = await reconcile(reconciler, { ...range, repair: true });
    const about = { merchantWallet: plan.merchant.address, planId: plan.id };
    t.match(
      unregistered.toSorted((a, b) => Number(b.registered) - Number(a.registered)),
      [
        { ...about, subscriberWallet: lost.wallet.address, registered: true, reason: null },
        { ...about, subscriberWallet: trial.wallet.address, registered: false, reason: /ask/ },
      ],
    );
    t.match(differences, [{ kind: 'not_recorded', subscriptionPda: lost.pda, repaired: true }]);
    const [row] = await stage.sql<{ id: string; paidThrough: Date }[]>`
      select id, paid_through from subscriptions
      join subscription_work on subscription_id = id where subscription_pda = ${lost.pda}`;
    t.same(row?.paidThrough, before?.periodEnd, 'the period that was paid is paid');
    const types = (await stage.events({ ...lost, id: row?.id ?? '' })).map(({ type }) => type);
    t.same(types, ['subscription_created', 'payment_success']);
    const again = await reconcile(reconciler, { ...range, repair: true });
    t.same(again.differences, []);
    t.match(again.unregistered, [{ subscriptionPda: trial.pda, registered: false }]);

    const second = await stage.startKeeper();
    await stage.quiet();
    await second.stop();
    t.equal((await stage.payments({ ...lost, id: row?.id ?? '' })).length, 1, 'nothing twice');
  },
);
