import { randomUUID } from 'node:crypto';
import t from 'tap';
import { claimDue } from '../../src/db/subscription-leases.ts';
import { readSubscriptions } from '../../src/db/subscriptions.ts';
import { forceCancel } from '../../src/domain/cancel.ts';
import { settle } from '../../src/domain/settlement.ts';
import { applyCancelSeen, draftOf, type Draft } from '../../src/domain/transitions.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import type { Sql } from '../../src/db/connect.ts';
import type { HeldSubscription } from '../../src/db/subscriptions.ts';

const now = new Date('2026-05-01T00:00:00Z');

async function subscription(sql: Sql): Promise<string> {
  const [{ id }] = await sql<[{ id: string }]>`
    with m as (insert into merchants (wallet) values (${randomUUID()}) returning id),
    a as (insert into apps (merchant_id, name) select id, 'app' from m returning id),
    p as (
      insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
      select id, 'plan', ${randomUUID()}, 1, 'merchant', 'mint', 'treasury', 'keeper', 1000, 24, 'active', ${now} from a returning id, app_id
    )
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due, due_at)
    select app_id, id, ${randomUUID()}, 'wallet', 1000, 24, ${now}, ${now} from p returning id`;
  return id;
}

async function claim(sql: Sql) {
  const claimId = randomUUID();
  const [due] = await claimDue(sql, { claimId, chainNow: now, limit: 1, leaseSeconds: 60 });
  return { id: due!.id, claimId, notices: 0 };
}

const cancelSeen = (row: HeldSubscription): { draft: Draft } => {
  const draft = draftOf(row);
  applyCancelSeen(draft, BigInt(now.getTime() / 1000));
  return { draft };
};

void t.test('what was taken from us is not written, and nothing is told of it', async (t) => {
  const { sql } = await testDatabase(t);
  const id = await subscription(sql);
  const held = await claim(sql);
  await sql.begin((tx) => forceCancel(tx, { id, status: 'active' }));
  const { written } = await settle(sql, [held], { chainNow: now }, cancelSeen);
  t.equal(written.size, 0);
  const types = await sql<{ type: string }[]>`select type from events where subscription_id = ${id}`;
  t.same(types, [{ type: 'cancel_forced' }]);
});

void t.test('a change and its event are written together or not at all', async (t) => {
  const { sql } = await testDatabase(t);
  const id = await subscription(sql);
  const held = await claim(sql);
  const broken = (row: HeldSubscription) => {
    const { draft } = cancelSeen(row);
    draft.happenings.push({ type: 'no_such_type' as never });
    return { draft };
  };
  await t.rejects(settle(sql, [held], { chainNow: now }, broken), { code: '23514' });
  t.match((await readSubscriptions(sql, [id]))[0], { cancelRequestedAt: null });
  t.same(await sql`select 1 from events`, []);
  await settle(sql, [held], { chainNow: now }, cancelSeen);
  t.match((await readSubscriptions(sql, [id]))[0], { cancelRequestedBy: 'subscriber' });
  t.equal((await sql`select 1 from events`).length, 1);
});

void t.test('what is heard of a subscription while it is held makes it due again', async (t) => {
  const { sql } = await testDatabase(t);
  const id = await subscription(sql);
  const held = await claim(sql);
  await sql`update subscriptions set notices = notices + 1 where id = ${id}`;
  const later = new Date(now.getTime() + 86_400_000);
  await settle(sql, [held], { chainNow: now }, (row) => {
    const draft = draftOf(row);
    draft.state.dueAt = later;
    return { draft };
  });
  t.same((await readSubscriptions(sql, [id]))[0]?.dueAt, now);
  const again = await claim(sql);
  await settle(sql, [{ ...again, notices: 1 }], { chainNow: now }, (row) => {
    const draft = draftOf(row);
    draft.state.dueAt = later;
    return { draft };
  });
  t.same((await readSubscriptions(sql, [id]))[0]?.dueAt, later);
});

const attempt = () => ({
  periodStart: now,
  signature: randomUUID(),
  transaction: Buffer.from('signed'),
  lastValidBlockHeight: 1n,
  amountGross: 1000n,
  platformFee: 10n,
  amountNet: 990n,
});

/** The row's version, its lease, and its attempts. */
async function stored(sql: Sql, id: string) {
  const [row] = await readSubscriptions(sql, [id]);
  const attempts = await sql`select 1 from payment_attempts where subscription_id = ${id} and state = 'open'`;
  return { ...row!, attempts: attempts.length };
}

void t.test(
  'a payment that is committed leaves a row as it is that nothing else changes of; what it was judged by is not lost',
  async (t) => {
    const { sql } = await testDatabase(t);
    const id = await subscription(sql);
    const held = await claim(sql);
    const before = await stored(sql, id);
    const { written, attempts } = await settle(sql, [{ ...held, seen: before }], { chainNow: now }, (row) => {
      t.equal(row, before, 'not read again');
      const draft = draftOf(row);
      draft.state.observedSlot = 7n;
      return { draft, attempt: attempt() };
    });
    t.ok(written.has(id));
    t.ok(attempts.has(id));
    const after = await stored(sql, id);
    t.match(after, { version: before.version, attempts: 1 });
    // With anything else to write it is written.
    await sql`update payment_attempts set state = 'expired', resolved_at = now() where subscription_id = ${id}`;
    await settle(sql, [{ ...held, seen: before }], { chainNow: now }, (row) => {
      const draft = draftOf(row);
      draft.state.observedSlot = 7n;
      draft.state.periodAnchor = now;
      return { draft, attempt: attempt() };
    });
    t.match(await stored(sql, id), { periodAnchor: now, observedSlot: 7n, attempts: 1 });
  },
);

void t.test('a row that was changed since it was read is judged as it is now, even while the change is being made', async (t) => {
  const { sql } = await testDatabase(t);
  const id = await subscription(sql);
  const held = await claim(sql);
  const seen = await stored(sql, id);
  const judged: (Date | null)[] = [];
  let settled: Promise<unknown> | undefined;
  await sql.begin(async (tx) => {
    await tx`update subscriptions set cancel_requested_at = ${now}, cancel_requested_by = 'merchant' where id = ${id}`;
    settled = settle(sql, [{ ...held, seen }], { chainNow: now }, (row) => {
      judged.push(row.cancelRequestedAt);
      return undefined;
    });
    for (;;) {
      const [{ waiting }] = await sql<[{ waiting: boolean }]>`select exists (select from pg_locks where not granted) as waiting`;
      if (waiting) break;
    }
    t.same(judged, []);
  });
  await settled;
  t.same(judged, [now]);
});
