import { randomBytes, randomUUID } from 'node:crypto';
import bs58 from 'bs58';
import t from 'tap';
import { unixSeconds } from '../../../src/chain/time.ts';
import { insertAttempts } from '../../../src/db/money/payment-attempts.ts';
import {
  holdCollection,
  readBrake,
  resumeCollection,
} from '../../../src/db/operating/collection-holds.ts';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { claimDue } from '../../../src/db/subscriptions/leases.ts';
import {
  readSubscriptions,
  type KeeperSubscription,
  type KeeperSubscriptionForEvents,
} from '../../../src/db/subscriptions/work.ts';
import { forceCancel } from '../../../src/domain/change/cancel.ts';
import {
  type Assessment,
  settle,
  rowByRow,
  settleRows,
} from '../../../src/domain/collecting/settlement.ts';
import {
  applyCancelSeen,
  updateOf,
  type SubscriptionUpdate,
} from '../../../src/domain/collecting/transitions.ts';
import { planInvoice } from '../../fixtures/invoices.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { insertInvoice, insertSubscription } from '../../fixtures/rows.ts';

const now = new Date('2026-05-01T00:00:00Z');

async function subscription(sql: Sql): Promise<string> {
  const [plan] = await sql<[{ appId: string; planId: string }]>`
    with m as (insert into merchants (wallet) values (${randomUUID()}) returning id),
    a as (insert into apps (merchant_id, name) select id, 'app' from m returning id),
    p as (
      insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
      select id, 'plan', ${randomUUID()}, 1, 'merchant', 'mint', 'treasury', 'keeper', 1000, 24, 'active', ${now} from a returning id, app_id
    )
    select app_id, id as plan_id from p`;
  const terms = { subscriberWallet: 'wallet', amount: '1000', periodHours: 24 };
  return insertSubscription(sql, plan, { ...terms, nextPaymentDue: now, dueAt: now });
}

async function claim(sql: Sql) {
  const claimId = randomUUID();
  const [due] = await claimDue(sql, { claimId, chainNow: now, limit: 1, leaseSeconds: 60 });
  return { id: due!.id, claimId, notices: 0 };
}

/** Inserts a subscription and claims it. */
async function claim1(sql: Sql) {
  await subscription(sql);
  return claim(sql);
}

type Claim = Awaited<ReturnType<typeof claim>>;

/** Reads the row, assesses it and writes the outcome. */
async function settleHeld(
  sql: Sql,
  held: Claim,
  assess: (row: KeeperSubscription) => Assessment | undefined,
) {
  const [row] = await readSubscriptions(sql, [held.id]);
  return settleRows(sql, [row!], { chainNow: now, assess: rowByRow([held], assess) });
}

const cancelSeen = (row: KeeperSubscription): { update: SubscriptionUpdate } => {
  const update = updateOf(row);
  applyCancelSeen(update, BigInt(now.getTime() / 1000));
  return { update };
};

void t.test('an assessment whose claim was lost writes no change and no event', async (t) => {
  const { sql } = await testDatabase(t);
  const id = await subscription(sql);
  const held = await claim(sql);
  await sql.begin((tx) => forceCancel(tx, { id, status: 'active' }));
  const { written } = await settleHeld(sql, held, cancelSeen);
  t.same(written, []);
  const types = await sql<
    { type: string }[]
  >`select type from events where subscription_id = ${id}`;
  t.same(types, [{ type: 'cancel_forced' }]);
});

void t.test('a change and its event are written together or not at all', async (t) => {
  const { sql } = await testDatabase(t);
  const id = await subscription(sql);
  const held = await claim(sql);
  const broken = (row: KeeperSubscription) => {
    const { update } = cancelSeen(row);
    update.events.push({ type: 'no_such_type' as never });
    return { update };
  };
  await t.rejects(settleHeld(sql, held, broken), { code: '23514' });
  t.match((await readSubscriptions(sql, [id]))[0], { cancelRequestedAt: null });
  t.same(await sql`select 1 from events`, []);
  await settleHeld(sql, held, cancelSeen);
  t.match((await readSubscriptions(sql, [id]))[0], { cancelRequestedBy: 'subscriber' });
  t.equal((await sql`select 1 from events`).length, 1);
});

void t.test('a notification during a claim makes the subscription due again', async (t) => {
  const { sql } = await testDatabase(t);
  const id = await subscription(sql);
  const held = await claim(sql);
  await sql`update subscription_work set notices = notices + 1 where subscription_id = ${id}`;
  const later = new Date(now.getTime() + 86_400_000);
  await settleHeld(sql, held, (row) => {
    const update = updateOf(row);
    update.state.dueAt = later;
    return { update };
  });
  t.same((await readSubscriptions(sql, [id]))[0]?.dueAt, now);
  const again = await claim(sql);
  await settleHeld(sql, { ...again, notices: 1 }, (row) => {
    const update = updateOf(row);
    update.state.dueAt = later;
    return { update };
  });
  t.same((await readSubscriptions(sql, [id]))[0]?.dueAt, later);
});

const attempt = () => ({
  position: 0,
  payments: 1,
  periodStart: now,
  signature: bs58.encode(randomBytes(64)),
  transaction: Buffer.from('signed'),
  lastValidBlockHeight: 1n,
  blockhashSlot: 0n,
  amountGross: 1000n,
  platformFee: 10n,
  amountNet: 990n,
  feeOwed: 0n,
});

let drawnUp = 0n;

/** Commits a payment with an invoice of its own, as the keeper does. */
function signedFor(
  claim: Claim,
  row: KeeperSubscriptionForEvents,
  signed: ReturnType<typeof attempt> = attempt(),
  change: Partial<KeeperSubscription> = {},
) {
  drawnUp += 1n;
  const update = updateOf(row);
  Object.assign(update.state, change);
  const invoice = { ...planInvoice(1000n, unixSeconds(now) + drawnUp), id: null };
  update.invoices.push(invoice);
  return { claim, row, update, attempt: { ...signed, invoice } };
}

/** The row's version, its lease, and its attempts. */
async function stored(sql: Sql, id: string) {
  const [row] = await readSubscriptions(sql, [id]);
  const attempts =
    await sql`select 1 from payment_attempts where subscription_id = ${id} and state = 'open'`;
  return { ...row!, attempts: attempts.length };
}

void t.test(
  'a commit does not write an unchanged row, which keeps its observed slot',
  async (t) => {
    const { sql } = await testDatabase(t);
    const id = await subscription(sql);
    const held = await claim(sql);
    const before = await stored(sql, id);
    const judged = (row: typeof before, change: object) => [
      signedFor(held, row, attempt(), { observedSlot: 7n, ...change }),
    ];
    const { written, attempts } = await settle(sql, judged(before, {}), { chainNow: now });
    t.equal(written.length, 1);
    t.ok(attempts.has(id));
    const after = await stored(sql, id);
    t.match(after, { version: before.version, attempts: 1 });
    // With any other change the row is written.
    await sql`update payment_attempts set state = 'expired', resolved_at = now() where subscription_id = ${id}`;
    await settle(sql, judged(before, { periodAnchor: now }), { chainNow: now });
    t.match(await stored(sql, id), { periodAnchor: now, observedSlot: 7n, attempts: 1 });
  },
);

void t.test(
  'a row that changed since it was read is assessed again, also while the change is not committed yet',
  async (t) => {
    const { sql } = await testDatabase(t);
    const id = await subscription(sql);
    const held = await claim(sql);
    const seen = await stored(sql, id);
    const judged: (Date | null)[] = [];
    let settled: Promise<unknown> | undefined;
    await sql.begin(async (tx) => {
      await tx`update subscriptions set cancel_requested_at = ${now}, cancel_requested_by = 'merchant' where id = ${id}`;
      settled = settleRows(sql, [seen], {
        chainNow: now,
        assess: rowByRow([held], (row) => {
          judged.push(row.cancelRequestedAt);
          return { update: updateOf(row) };
        }),
      });
      for (;;) {
        const [{ waiting }] = await sql<
          [{ waiting: boolean }]
        >`select exists (select from pg_locks where not granted) as waiting`;
        if (waiting) break;
      }
      t.same(judged, [null], 'the change is not seen yet');
    });
    await settled;
    t.same(judged, [null, now], 'it was assessed anew');
  },
);

void t.test(
  'if one payment of a transaction changed or lost its claim, none of its payments is committed',
  async (t) => {
    const { sql } = await testDatabase(t);
    const ids = [await subscription(sql), await subscription(sql), await subscription(sql)];
    const claims = [await claim(sql), await claim(sql), await claim(sql)];
    const rows = new Map((await readSubscriptions(sql, ids)).map((row) => [row.id, row]));
    const pack = () => {
      const shared = { ...attempt(), payments: 3 };
      return claims.map((held, position) =>
        signedFor(held, rows.get(held.id)!, { ...shared, position }),
      );
    };
    const open = async () =>
      (await sql`select position from payment_attempts where state = 'open' order by position`).map(
        ({ position }) => position as number,
      );
    const [changed, lost] = claims;
    await sql`update subscription_work set notices = notices + 1 where subscription_id = ${changed!.id}`;
    const first = await settle(sql, pack(), { chainNow: now });
    t.equal(first.written.length, 0);
    t.equal(first.changed.length, 3);
    t.same(await open(), []);
    for (const row of await readSubscriptions(sql, ids)) rows.set(row.id, row);
    await sql.begin((tx) => forceCancel(tx, { id: lost!.id, status: 'active' }));
    const second = await settle(sql, pack(), { chainNow: now });
    t.equal(second.written.length, 0);
    t.same(second.changed.map(({ row }) => row.id).sort(), [changed!.id, claims[2]!.id].sort());
    t.same(await open(), []);
    t.same(await sql`select 1 from transactions`, []);
  },
);

void t.test(
  'if another keeper commits a payment first, the rest of its transaction is signed again',
  async (t) => {
    const { sql } = await testDatabase(t);
    const held = [await claim1(sql), await claim1(sql), await claim1(sql)];
    const ids = held.map(({ id }) => id);
    const rows = new Map((await readSubscriptions(sql, ids)).map((row) => [row.id, row]));
    const shared = { ...attempt(), payments: 2 };
    const assessments = held.map((one, index) =>
      signedFor(one, rows.get(one.id)!, index < 2 ? { ...shared, position: index } : attempt()),
    );
    const [taken, packed, alone] = ids as [string, string, string];
    let settled: ReturnType<typeof settle> | undefined;
    await sql.begin(async (tx) => {
      const { subscriptionPda } = rows.get(taken)!;
      const claimId = randomUUID();
      const invoiceId = await insertInvoice(tx, taken, { amount: 1000n });
      const about = { subscriptionId: taken, subscriptionPda, claimId, invoiceId };
      await insertAttempts(tx, [{ ...attempt(), ...about }]);
      settled = settle(sql, assessments, { chainNow: now });
      for (;;) {
        const [{ waiting }] = await sql<
          [{ waiting: boolean }]
        >`select exists (select from pg_locks where not granted) as waiting`;
        if (waiting) break;
      }
    });
    const { written, changed, attempts } = (await settled)!;
    t.same(
      written.map(({ row }) => row.id),
      [alone],
    );
    t.same([...attempts.keys()], [alone]);
    t.same(
      changed.map(({ row }) => row.id),
      [packed],
      'to be signed again without the one that is taken',
    );
    t.match(
      [await stored(sql, taken), await stored(sql, packed)],
      [{ attempts: 1 }, { attempts: 0 }],
    );
    t.equal((await sql`select 1 from transactions`).length, 2, 'no transaction without payments');
  },
);

void t.test('a transaction ends when the last of its payments is resolved', async (t) => {
  const { sql } = await testDatabase(t);
  const held = [await claim1(sql), await claim1(sql)];
  const rows = new Map(
    (
      await readSubscriptions(
        sql,
        held.map(({ id }) => id),
      )
    ).map((row) => [row.id, row]),
  );
  const shared = { ...attempt(), payments: 2 };
  const committed = await settle(
    sql,
    held.map((one, position) => signedFor(one, rows.get(one.id)!, { ...shared, position })),
    { chainNow: now },
  );
  const end = async (index: number) => {
    const one = held[index]!;
    const row = (await readSubscriptions(sql, [one.id]))[0]!;
    const resolution = {
      id: committed.attempts.get(one.id)!,
      state: 'landed' as const,
      error: null,
    };
    await settle(sql, [{ claim: one, row, update: updateOf(row), resolution }], { chainNow: now });
    const [transaction] = await sql`select state, bytes is null as empty from transactions`;
    return transaction;
  };
  t.match(await end(0), { state: 'open', empty: false });
  t.match(await end(1), { state: 'landed', empty: true });
});

void t.test(
  'an attempt is only committed on the timeline of its decision, after the wait, and while collection is not held',
  async (t) => {
    const { sql } = await testDatabase(t);
    await sql`
      insert into installation (cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds) values ('localnet', 'm', 'p', '{k}', '{t}', 100, 0)`;
    const held = await claim1(sql);
    const [row] = await readSubscriptions(sql, [held.id]);
    const { timeline } = await readBrake(sql);
    const commit = async (decidedOn: string | null) => {
      const one = signedFor(held, row!);
      const { written, changed } = await settle(sql, [one], { chainNow: now, timeline: decidedOn });
      return [written.length, changed.length];
    };
    // Postgres failed over between the read of the accounts and the commit, and another keeper has
    // recorded it.
    t.same(await commit('000000AA'), [0, 1]);
    // Postgres failed over, and no keeper has recorded it yet.
    await sql`update installation set timeline = '000000AA'`;
    t.same(await commit(timeline), [0, 1]);
    await sql`update installation set timeline = ${timeline}, collects_after_height = 1`;
    t.same(await commit(timeline), [0, 1]);
    await sql`update installation set collects_after_height = null`;
    const change = {
      merchantId: null,
      planId: row!.planId,
      what: null,
      reason: 'a test',
      by: { who: 'tester', host: 'here' },
    };
    await holdCollection(sql, change);
    t.same(await commit(timeline), [0, 1]);
    t.same(await sql`select 1 from transactions`, []);
    await resumeCollection(sql, change);
    t.same(await commit(timeline), [1, 0]);
    t.equal((await sql`select 1 from transactions`).length, 1);
  },
);
