// No statement of the keeper's loops reads more because of rows that are finished or not due.
// Compares EXPLAIN (ANALYZE, BUFFERS) before and after such subscriptions, payments, attempts and
// plans are added. PLAN_ROWS sets their number: ten million in `npm run test:plans:keeper`, some
// thousands by default.
import { randomUUID } from 'node:crypto';
import bs58 from 'bs58';
import t from 'tap';
import { giveBackUnmatched } from '../../src/db/invoices/given-back.ts';
import { readInvoicesOfPulls, readUnpaidInvoices } from '../../src/db/invoices/invoices.ts';
import { dailyFigures } from '../../src/db/money/analytics.ts';
import {
  measureOpenAttempts,
  readOpenAttempts,
  readUnderWay,
  resolveAttempts,
} from '../../src/db/money/payment-attempts.ts';
import { readPulled, readRecorded } from '../../src/db/money/payments.ts';
import * as refunds from '../../src/db/money/refunds.ts';
import { readBooked } from '../../src/db/operating/journal.ts';
import { listKnown, listUnexplained, findOwner } from '../../src/db/operating/reconciliation.ts';
import { connect, type Sql, type Transaction } from '../../src/db/postgres/connect.ts';
import * as leases from '../../src/db/subscriptions/leases.ts';
import { putOffPlans, takeUnwatchedPlans } from '../../src/db/subscriptions/plan-watch.ts';
import { findPlansAt, movePlan } from '../../src/db/subscriptions/plans.ts';
import { stepSweep } from '../../src/db/subscriptions/sweeps.ts';
import { listTimeline } from '../../src/db/subscriptions/timeline.ts';
import * as subscriptions from '../../src/db/subscriptions/work.ts';
import { testDatabase } from '../fixtures/postgres.ts';

const OTHERS = Number(process.env.PLAN_ROWS ?? 40_000);
/** Upper bound of plans in any installation. */
const MAX_PLANS = 1_000_000;
const TABLES = [
  'subscriptions',
  'subscription_work',
  'invoices',
  'payments',
  'payment_attempts',
  'transactions',
  'plans',
  'refunds',
];
const LIVE = 4000;
/** Live subscriptions with an open attempt. */
const OPEN = 300;
const BATCH = 100;
/** Subscriptions of another app. */
const SMALL = 20;
const NOW = new Date('2030-01-01T00:00:00Z');
/** Start of the period of each payment. */
const HOUR_AGO = new Date('2029-12-31T23:00:00Z');
/**
 * Blocks of 8 kB that a statement may read for each row that it handles: table, indexes, joins and
 * writes.
 */
const BLOCKS_PER_ROW = 60;

interface Node {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Join Filter'?: number;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: Node[];
}

const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];

const blocksOf = (node: Node) => node['Shared Hit Blocks'] + node['Shared Read Blocks'];

/**
 * Blocks that a node writes, or reads in order to write: the table, and every index unless the new
 * version fits on the page of the old one.
 */
const writtenBy = (node: Node) =>
  node['Node Type'] === 'ModifyTable'
    ? blocksOf(node) - (node.Plans ?? []).reduce((sum, child) => sum + blocksOf(child), 0)
    : 0;

/**
 * A handle that explains each awaited statement; the plans go to `plans`, the results are empty.
 */
function explaining(tx: Transaction, plans: Node[]): Sql {
  return new Proxy(tx as unknown as Sql, {
    apply: (target, self, [strings, ...values]: [TemplateStringsArray | string, ...unknown[]]) => {
      // An identifier, not a statement.
      if (typeof strings === 'string')
        return Reflect.apply(target, self, [strings, ...values]) as unknown;
      const explained = [
        `explain (analyze, buffers, format json) ${strings[0] ?? ''}`,
        ...strings.slice(1),
      ];
      const query = (given: readonly string[]) =>
        Reflect.apply(target, self, [
          Object.assign([...given], { raw: given }),
          ...values,
        ]) as Promise<Record<string, [{ Plan: Node }]>[]>;
      // A fragment of a statement is never awaited.
      const made = query(strings);
      const run = async () => {
        const [row] = await query(explained);
        plans.push(Object.values(row!)[0]![0].Plan);
        return [];
      };
      made.then = (...handlers) => run().then(...handlers);
      return made;
    },
  });
}

/**
 * Inserts subscriptions with a payment and an attempt each. `live`: due, nearly due, revoked or
 * with an open attempt, all with pending refunds. `waiting`: paid for the next month or past due.
 * `finished`: ended. A tenth of the latter attempts failed, and a tenth of their payments was
 * refunded. Indexes are built afterwards, as a restore does.
 */
async function insert(sql: Sql, count: number, kind: 'live' | 'waiting' | 'finished') {
  const [isOver, isLive] = [kind === 'finished', kind === 'live'];
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`set local maintenance_work_mem = '512MB'`;
    const indexes = await tx<{ indexname: string; indexdef: string }[]>`
      select i.indexname, i.indexdef from pg_indexes i where i.tablename = any(${TABLES})
        and not exists (select from pg_constraint c where c.conname = i.indexname)`;
    for (const { indexname } of indexes) await tx`drop index ${tx(indexname)}`;
    await tx`
      insert into customers (app_id, wallet) select id, 'all' from apps order by id limit 1 on conflict do nothing`;
    await tx`
      with app as (select id from apps order by id limit 1), plan as (select id from plans order by id limit 1)
      insert into subscriptions (app_id, plan_id, customer_id, subscription_pda, subscriber_wallet, amount, period_hours, status, cancelled_at, ended_at,
        cancel_requested_at, cancel_requested_by, next_payment_due, delegation_revoked_at, past_due_since, failed_attempts)
      select app.id, plan.id, (select id from customers where wallet = 'all'), ${kind}::text || n, ${kind}::text || 'wallet' || n, 100, 1,
        case when ${isOver} then 'cancelled' when is_late then 'past_due' else 'active' end, ${isOver ? NOW : null}, ${isOver ? NOW : null}, ${isOver ? NOW : null},
        ${isOver ? 'merchant' : null}, case when is_late then due else due + interval '15 minutes' end,
        case when ${!isLive} or n % 10 <> 0 then null else ${NOW}::timestamptz end, case when is_late then ${NOW}::timestamptz end, is_late::int
      from app, plan, generate_series(1, ${count}::int) as n,
        lateral (select not ${isOver} and n % 7 = 0) as l (is_late),
        lateral (select case ${kind}::text when 'live' then ${NOW}::timestamptz + (n - 500) * interval '1 minute'
          when 'waiting' then ${NOW}::timestamptz + interval '30 days' + n % 43200 * interval '1 minute' end) as d (due)`;
    await tx`
      insert into subscription_work (subscription_id, app_id, paid_through, due_at)
      select id, app_id, ${NOW}, next_payment_due - case when status = 'past_due' then interval '0' else interval '15 minutes' end
      from subscriptions where starts_with(subscription_pda, ${kind})`;
    await tx`
      insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
        platform_fee, amount_net, tx_signature, occurred_at)
      select app_id, plan_id, id, subscription_pda, subscriber_wallet, 'succeeded', ${NOW}::timestamptz - interval '1 hour', ${NOW}, 100, 1, 99,
        subscription_pda, ${NOW}
      from subscriptions where starts_with(subscription_pda, ${kind})`;
    await tx`
      insert into invoices (id, app_id, customer_id, subscription_id, subscription_pda, period_start, period_end, covers_from, covers_to, lines,
        plan_amount, total, amount_due, state, closed_at, due_at, drawn_up_at)
      select id, app_id, customer_id, id, subscription_pda, ${NOW}::timestamptz - interval '1 hour', ${NOW}, ${NOW}::timestamptz - interval '1 hour', ${NOW},
        '[{"kind": "plan", "amount": "100"}]', 100, 100, 100, case when ${isLive} then 'open' else 'paid' end, case when ${!isLive} then now() end, ${NOW}, ${NOW}
      from subscriptions where starts_with(subscription_pda, ${kind})`;
    await tx`
      with made as materialized (
        select s.*, ${isLive} and w.due_at > ${NOW}::timestamptz + interval '1 minute' * ${LIVE - 500 - OPEN}::int as is_open,
          case when ${!isLive} and hashtext(subscription_pda) % 10 = 0 then 'failed' else 'landed' end as ended
        from subscriptions s join subscription_work w on w.subscription_id = s.id where starts_with(subscription_pda, ${kind})
      ), signed as (
        insert into transactions (id, signature, bytes, last_valid_block_height, state)
        select id, sha512(subscription_pda::bytea), case when is_open then '\\x00'::bytea end, 1, case when is_open then 'open' else ended end from made
      )
      insert into payment_attempts (subscription_id, invoice_id, subscription_pda, transaction_id, period_start, claim_id, amount_gross, platform_fee, amount_net,
        state, resolved_at)
      select id, id, subscription_pda, id, ${NOW}, gen_random_uuid(), 100, 1, 99, case when is_open then 'open' else ended end, case when not is_open then now() end
      from made`;
    await tx`
      insert into refunds (app_id, payment_id, subscription_id, amount, reference, status, tx_signature, occurred_at, look_at, created_at)
      select app_id, id, subscription_id, 1, subscription_pda, ${isLive ? 'pending' : 'succeeded'}, ${isLive ? null : 'signature'}, ${isLive ? null : NOW}, case when hashtext(subscription_pda) % 10 = 0 then ${isLive ? NOW : null}::timestamptz - interval '9 years' else ${isLive ? NOW : null}::timestamptz end, now()
      from payments where starts_with(subscription_pda, ${kind}) and (${isLive} or hashtext(subscription_pda) % 10 = 0)`;
    await tx`
      insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at, observed_at)
      select id, 'plan', ${kind}::text || n, n, 'owner', 'mint', 'treasury', 'keeper', 100, 1, ${isLive ? 'active' : 'ended'}, now(),
        now() - n * interval '1 second'
      from (select id from apps order by id limit 1) as app, generate_series(1, ${isLive ? LIVE : Math.min(MAX_PLANS, count)}::int) as n`;
    for (const { indexdef } of indexes) await tx.unsafe(indexdef);
  });
  for (const table of TABLES) await sql`vacuum analyze ${sql(table)}`;
}

async function insertPlan(sql: Sql) {
  await sql`with m as (insert into merchants (wallet) values ('m') returning id) insert into apps (merchant_id, name) select id, 'app' from m`;
  await sql`
    insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
    select id, 'plan', 'the plan', 0, 'owner', 'mint', 'treasury', 'keeper', 100, 1, 'active', now() from apps`;
}

/** Inserts another app with a few subscriptions, each paid and refunded; returns its id. */
async function insertSmallApp(sql: Sql): Promise<string> {
  const [{ id }] = await sql<[{ id: string }]>`
    with m as (insert into merchants (wallet) values ('small') returning id) insert into apps (merchant_id, name) select id, 'small' from m returning id`;
  await sql`
    with plan as (select id from plans order by id limit 1), made as (
      insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, created_at)
      select ${id}, plan.id, 'small' || n, 'small', 100, 1, ${NOW}::timestamptz - interval '1 day' from plan, generate_series(1, ${SMALL}::int) as n
      returning id, plan_id, subscription_pda
    ), work as (
      insert into subscription_work (subscription_id, app_id, paid_through) select id, ${id}, ${NOW} from made
    ), paid as (
      insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
        platform_fee, amount_net, tx_signature, occurred_at)
      select ${id}, plan_id, id, subscription_pda, 'small', 'succeeded', ${NOW}::timestamptz - interval '1 hour', ${NOW}, 100, 1, 99, subscription_pda, ${NOW} from made
      returning id, subscription_id, subscription_pda
    )
    insert into refunds (app_id, payment_id, subscription_id, amount, reference, status, tx_signature, occurred_at, look_at)
    select ${id}, id, subscription_id, 1, subscription_pda, 'succeeded', 'signature', ${NOW}, null from paid`;
  return id;
}

void t.test(
  `keeper statements read no more rows when tables have ${OTHERS} other rows, finished or not due`,
  { timeout: 3_600_000 },
  async (t) => {
    const { sql } = await testDatabase(t);
    await insertPlan(sql);
    const smallApp = await insertSmallApp(sql);
    await insert(sql, LIVE, 'live');
    const claimId = randomUUID();
    const held = (
      await sql<{ id: string; subscriptionPda: string }[]>`
    update subscription_work w set claim_id = ${claimId}, lease_until = now() + interval '1 hour'
    from (select id, subscription_pda from subscriptions order by id limit ${BATCH}) as s
    where w.subscription_id = s.id returning s.id, s.subscription_pda`
    ).map((row) => ({ ...row, claimId }));
    const ids = held.map(({ id }) => id);
    const pdas = held.map(({ subscriptionPda }) => subscriptionPda);
    const signatures = (
      await sql<
        { signature: Buffer }[]
      >`select signature from transactions order by id limit ${BATCH}`
    ).map(({ signature }) => bs58.encode(signature));
    const [first] = held;
    const rows = await subscriptions.readSubscriptions(sql, ids);
    const changes = rows.map((row) => ({
      id: row.id,
      claimId,
      notices: row.notices,
      state: row,
      keepsLease: false,
      withEvent: false,
    }));
    const attempts = await sql<
      { id: string }[]
    >`select id from payment_attempts where state = 'open' limit ${BATCH}`;
    const plans = (
      await sql<{ id: string }[]>`select id from plans order by id limit ${BATCH}`
    ).map(({ id }) => id);
    const lease = { claimId, limit: BATCH, leaseSeconds: 45 };
    const [refund] = await sql<{ id: string; paymentId: string }[]>`
      select id, payment_id from refunds where status = 'pending' order by id limit 1`;
    const page = { after: null, limit: 20 };
    const month = { from: new Date('2029-12-15T00:00:00Z'), to: new Date('2030-01-14T00:00:00Z') };

    const statements: Record<string, [about: number, run: (sql: Sql) => PromiseLike<unknown>]> = {
      claimDue: [BATCH, (sql) => leases.claimDue(sql, { ...lease, chainNow: NOW })],
      claimOrphans: [BATCH, (sql) => leases.claimOrphans(sql, lease)],
      renewLeases: [BATCH, (sql) => leases.renewLeases(sql, held, 45)],
      releaseClaims: [BATCH, (sql) => leases.releaseClaims(sql, held)],
      'releaseClaims, putting off': [
        BATCH,
        (sql) => leases.releaseClaims(sql, held, { until: NOW, keeperFailure: true }),
      ],
      lockClaimed: [BATCH, (sql) => leases.lockClaimed(sql, held)],
      readSubscriptions: [BATCH, (sql) => subscriptions.readSubscriptions(sql, ids)],
      writeStates: [BATCH, (sql) => subscriptions.writeStates(sql, changes, NOW, 45)],
      makeDue: [BATCH, (sql) => subscriptions.makeDue(sql, ids, { chainNow: NOW, slot: 1n })],
      readCollectable: [BATCH, (sql) => subscriptions.readCollectable(sql, held)],
      readNextDue: [1, (sql) => leases.readNextDue(sql, NOW)],
      stepSweep: [
        BATCH,
        (sql) =>
          stepSweep(sql, {
            pace: { everySeconds: 0, withinSeconds: 300 },
            hurry: true,
            limit: BATCH,
          }),
      ],
      findFollowed: [
        2 * BATCH,
        (sql) =>
          subscriptions.findFollowed(sql, {
            pdas,
            wallets: pdas.map((pda) => `livewallet${pda.slice(4)}`),
          }),
      ],
      readBacklog: [500, (sql) => leases.readBacklog(sql, NOW)],
      readUnpaidInvoices: [BATCH, (sql) => readUnpaidInvoices(sql, ids)],
      readInvoicesOfPulls: [
        2 * BATCH,
        (sql) =>
          readInvoicesOfPulls(
            sql,
            pdas.map((subscriptionPda, index) => ({
              ...{ subscriptionPda, periodStart: HOUR_AGO },
              txSignature: signatures[index] ?? null,
            })),
          ),
      ],
      readOpenAttempts: [BATCH, (sql) => readOpenAttempts(sql, ids)],
      readUnderWay: [BATCH, (sql) => readUnderWay(sql, ids)],
      // Payments, their transactions, and the other payments of these.
      resolveAttempts: [
        3 * BATCH,
        (sql) =>
          resolveAttempts(
            sql,
            attempts.map(({ id }) => ({ id, state: 'expired', error: null })),
          ),
      ],
      measureOpenAttempts: [300, (sql) => measureOpenAttempts(sql)],
      readRecorded: [BATCH, (sql) => readRecorded(sql, pdas)],
      readPulled: [
        BATCH,
        (sql) =>
          readPulled(
            sql,
            pdas.map((subscriptionPda) => ({ subscriptionPda, periodStart: NOW })),
          ),
      ],
      listKnown: [2 * BATCH, (sql) => listKnown(sql, signatures)],
      readBooked: [2 * BATCH, (sql) => readBooked(sql, signatures)],
      giveBackUnmatched: [
        BATCH,
        (sql) =>
          giveBackUnmatched(
            sql,
            signatures.map((txSignature, index) => ({
              ...{ subscriptionPda: pdas[index] ?? '', txSignature },
            })),
          ),
      ],
      listUnexplained: [1, (sql) => listUnexplained(sql, { since: new Date(0), until: NOW })],
      findOwner: [1, (sql) => findOwner(sql, first!.subscriptionPda, signatures[0]!)],
      claimOne: [1, (sql) => leases.claimOne(sql, first!, 45)],
      takeUnwatchedPlans: [
        BATCH,
        (sql) =>
          takeUnwatchedPlans(sql, {
            everySeconds: 300,
            blockedSeconds: 300,
            pendingAgeSeconds: 10,
            limit: BATCH,
          }),
      ],
      findPlansAt: [BATCH, (sql) => findPlansAt(sql, pdas)],
      putOffPlans: [BATCH, (sql) => putOffPlans(sql, plans)],
      movePlan: [
        1,
        (sql) => movePlan(sql, plans[0]!, { from: 'active', to: 'sunset', endsAt: null }),
      ],
      readOldestRefund: [20, (sql) => refunds.readOldestRefund(sql)],
      takeAwaitedRefunds: [20, (sql) => refunds.takeAwaitedRefunds(sql, 20)],
      expireRefund: [1, (sql) => refunds.expireRefund(sql, refund!.id)],
      lockRefunded: [
        1,
        async (sql) => refunds.lockRefunded(sql as unknown as Transaction, refund!.id),
      ],
      recordRefund: [
        1,
        (sql) =>
          refunds.recordRefund(sql as unknown as Transaction, refund!.id, {
            txSignature: 'signature',
            occurredAt: NOW,
          }),
      ],
      recordRepeat: [
        1,
        (sql) =>
          refunds.recordRepeat(sql as unknown as Transaction, refund!.id, {
            txSignature: 'signature',
            occurredAt: NOW,
          }),
      ],
      endSearch: [1, (sql) => refunds.endSearch(sql, refund!.id)],
      findRefundOfOffer: [1, (sql) => refunds.findRefundOfOffer(sql, first!.id)],
      readRefundable: [
        1,
        (sql) => refunds.readRefundable(sql as unknown as Transaction, refund!.paymentId),
      ],
      listRefunds: [20, (sql) => refunds.listRefunds(sql, refund!.paymentId, page)],
      // Reads of the API: a subscription and an app.
      listTimeline: [20, (sql) => listTimeline(sql, first!.id)],
      dailyFigures: [
        10 * SMALL,
        (sql) => dailyFigures(sql, smallApp, { ...month, untilNow: false }),
      ],
    };
    const covered = new Set([
      ...Object.keys(statements),
      'insertAttempts',
      'insertPayments',
      'insertRefund',
      // Reads the refunds of the last ten minutes.
      'countOpenRefunds',
      'listRecorded',
      'listTreasuries',
      // In test/http/sql-plans.test.ts.
      'listRefundsOfApp',
      // No statements.
      'claimKeysOf',
      'claimsTable',
      'version',
      'atEndOfAccess',
      'takenFromKeepers',
    ]);
    for (const name of [leases, subscriptions, refunds].flatMap((file) => Object.keys(file)))
      t.ok(covered.has(name), `${name} is covered`);

    /**
     * The blocks that each statement reads, and the tables that it scans in full. All writes are
     * rolled back.
     */
    async function measure(): Promise<
      Map<string, { blocks: number; read: number; whole: string[] }>
    > {
      const found = new Map<string, { blocks: number; read: number; whole: string[] }>();
      for (const [name, [, run]] of Object.entries(statements)) {
        const plans: Node[] = [];
        const undone = sql.begin(async (tx) => {
          await run(explaining(tx, plans));
          throw new Error('undone');
        });
        await t.rejects(undone, { message: 'undone' });
        const nodes = plans.flatMap(nodesOf);
        const blocks = plans.reduce((sum, root) => sum + blocksOf(root), 0);
        found.set(name, {
          blocks,
          read: blocks - nodes.reduce((sum, node) => sum + writtenBy(node), 0),
          whole: nodes
            .filter(
              (node) =>
                node['Node Type'] === 'Seq Scan' &&
                /^(subscriptions|payments|payment_attempts|transactions|plans|refunds)$/.test(
                  node['Relation Name'] ?? '',
                ),
            )
            .map((node) => node['Relation Name']!),
        });
      }
      return found;
    }

    const before = await measure();
    await insert(sql, OTHERS / 2, 'waiting');
    await insert(sql, OTHERS / 2, 'finished');
    const after = await measure();
    const [found] = await sql<{ 'QUERY PLAN': [{ Plan: { 'Plan Rows': number } }] }[]>`
      explain (format json) select 1 from payments where md5(tx_signature)::uuid = md5('signature')::uuid`;
    const expected = Object.values(found!)[0]![0].Plan['Plan Rows'];
    t.ok(expected <= 10, `Postgres expects ${expected} payments with a signature`);
    for (const [name, [about]] of Object.entries(statements)) {
      const [was, is] = [before.get(name)!, after.get(name)!];
      t.same(is.whole, [], `${name} reads no table from end to end`);
      t.ok(is.blocks <= BLOCKS_PER_ROW + BLOCKS_PER_ROW * about, `${name}: ${is.blocks} blocks`);
      // Indexes are a level or two deeper now.
      t.ok(
        is.read <= 1.5 * was.read + 4 * about + 50,
        `${name}: ${is.read} blocks read, ${was.read} before`,
      );
    }
  },
);

void t.test(
  'a claim never reads all due subscriptions or open attempts per claimed row, whatever ANALYZE counted',
  async (t) => {
    for (const { open, maintain } of [
      { open: 0, maintain: 'analyze' },
      { open: 5, maintain: 'vacuum analyze' },
    ]) {
      const { sql, url } = await testDatabase(t);
      const daemon = connect(url, { max: 1, name: 'a daemon', planning: 'daemon' });
      t.teardown(() => daemon.end());
      await insertPlan(sql);
      await insert(sql, LIVE, 'live');
      await sql`
      update payment_attempts set state = 'landed', resolved_at = now()
      where id not in (select id from payment_attempts where state = 'open' limit ${open})`;
      await sql.unsafe(`${maintain} payment_attempts`);
      await sql`
      update payment_attempts set state = 'open', resolved_at = null
      where subscription_id in (select subscription_id from subscription_work where due_at > ${NOW})`;
      const plans: Node[] = [];
      await daemon.begin((tx) =>
        leases.claimDue(explaining(tx, plans), {
          claimId: randomUUID(),
          limit: BATCH,
          leaseSeconds: 45,
          chainNow: NOW,
        }),
      );
      const rows = Math.max(
        ...plans
          .flatMap(nodesOf)
          .map(
            (node) =>
              node['Actual Rows'] * node['Actual Loops'] +
              (node['Rows Removed by Join Filter'] ?? 0),
          ),
      );
      t.ok(rows <= 2 * BATCH, `${rows} rows pass through one step of a claim of ${BATCH}`);
      t.ok(blocksOf(plans[0]!) <= BLOCKS_PER_ROW * (BATCH + 1), `${blocksOf(plans[0]!)} blocks`);
    }
  },
);
