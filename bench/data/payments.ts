// Runs what the keeper and the dispatcher do in Postgres for a payment: claim, commit the signed
// transactions, settle with events, claim the deliveries, record the outcomes. There is no chain
// and no receiver.
import { randomBytes, randomUUID } from 'node:crypto';
import bs58 from 'bs58';
import { unixSeconds } from '../../src/chain/time.ts';
import {
  claimDeliveries,
  recordOutcomes,
  type Outcome,
} from '../../src/db/delivering/delivery-queue.ts';
import type { Invoice } from '../../src/db/invoices/invoices.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { connect } from '../../src/db/postgres/connect.ts';
import { daemonLimits } from '../../src/db/postgres/settings.ts';
import { claimDue } from '../../src/db/subscriptions/leases.ts';
import {
  type KeeperSubscriptionForEvents,
  readSubscriptions,
} from '../../src/db/subscriptions/work.ts';
import type { Pull } from '../../src/domain/collecting/chain-view.ts';
import { applyPayment } from '../../src/domain/collecting/paying.ts';
import { settle } from '../../src/domain/collecting/settlement.ts';
import { updateOf } from '../../src/domain/collecting/transitions.ts';
import { newInvoice } from '../../src/domain/invoices/closing.ts';
import { drawUp } from '../../src/domain/invoices/draw-up.ts';
import { NO_DISCOUNT } from '../../src/domain/invoices/terms.ts';
import type { Database } from '../dispatch/harness.ts';

const BATCH = 200;
const APPS = 100;
/** Number of paid periods per subscription. */
const PERIODS = 5;
const PERIOD_HOURS = 730;
const GROSS = 10_000_000n;
const FEE = 100_000n;
/** Number of payments in a transaction, and length of the transaction in bytes. */
const PACK = 10;
const TRANSACTION = 3070;
const start = new Date('2030-01-01T00:00:00Z');
const history = [
  'transactions',
  'invoices',
  'payment_attempts',
  'payments',
  'events',
  'deliveries',
  'earlier_attempts',
];

/**
 * Creates apps with one endpoint and one plan each, and subscriptions that become due within the
 * first period. Addresses are as long as real addresses.
 */
async function seed(sql: Sql, subscriptions: number): Promise<string[]> {
  await sql`insert into merchants (wallet) select rpad(md5('m' || n), 44, 'x') from generate_series(1, ${APPS}::int) n`;
  await sql`insert into apps (merchant_id, name) select id, 'App' from merchants`;
  await sql`insert into webhook_endpoints (app_id, url, secret) select id, 'https://a.test/', '' from apps`;
  await sql`
    insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
    select id, 'Plan', rpad(md5(id::text), 44, 'x'), 1, 'owner', 'mint', 'treasury', 'puller', ${GROSS}, ${PERIOD_HOURS}, 'active', now() from apps`;
  await sql`
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, next_payment_due)
    select app_id, plan_id, rpad(md5('s' || n), 44, 'x'), rpad(md5('w' || n), 44, 'x'), ${GROSS}, ${PERIOD_HOURS}, due
    from generate_series(1, ${subscriptions}::int) n
      join (select app_id, id as plan_id, row_number() over (order by id) as place from plans) as plan on plan.place = n % ${APPS} + 1,
      lateral (select ${start}::timestamptz + n * ${PERIOD_HOURS} * interval '1 hour' / ${subscriptions}::int as due) as d`;
  await sql`
    insert into subscription_work (subscription_id, app_id, due_at)
    select id, app_id, next_payment_due from subscriptions`;
  await sql`insert into searched_wallets (wallet) select distinct subscriber_wallet from subscriptions`;
  await sql`vacuum analyze`;
  const rows = await sql<{ id: string }[]>`select id from webhook_endpoints`;
  return rows.map(({ id }) => id);
}

/** The invoice of the whole period that starts at this time. */
function invoiceOf(periodStart: Date): Invoice {
  const start = unixSeconds(periodStart);
  const period = { start, end: start + BigInt(PERIOD_HOURS) * 3600n };
  const terms = { ...NO_DISCOUNT, amount: GROSS, periodHours: PERIOD_HOURS };
  const whole = { trialEndsAt: null, billedFrom: null };
  return newInvoice(drawUp({ ...terms, ...whole }, period, { minimum: 0n }), period, start);
}

/** Collects a batch of subscriptions that are due by `chainNow`. Returns their number. */
async function collect(sql: Sql, chainNow: Date): Promise<number> {
  const claimId = randomUUID();
  const due = await claimDue(sql, { claimId, chainNow, limit: BATCH, leaseSeconds: 45 });
  if (due.length === 0) return 0;
  const rows = await readSubscriptions(
    sql,
    due.map(({ id }) => id),
  );
  const claimOf = ({ id, notices }: KeeperSubscriptionForEvents) => ({ id, claimId, notices });
  const net = GROSS - FEE;
  const amounts = { amountGross: GROSS, platformFee: FEE, amountNet: net, feeOwed: 0n };
  const packs = Array.from({ length: Math.ceil(rows.length / PACK) }, (_, index) =>
    rows.slice(index * PACK, (index + 1) * PACK),
  );
  const signed = packs.flatMap((pack) => {
    const transaction = {
      signature: bs58.encode(randomBytes(64)),
      transaction: randomBytes(TRANSACTION),
      payments: pack.length,
      lastValidBlockHeight: 1n,
      blockhashSlot: 0n,
    };
    return pack.map((row, position) => {
      const periodStart = row.nextPaymentDue ?? chainNow;
      const invoice = invoiceOf(periodStart);
      const update = updateOf(row);
      update.invoices.push(invoice);
      const attempt = { ...transaction, ...amounts, invoice, position, periodStart };
      return { claim: claimOf(row), row, update, attempt };
    });
  });
  const { attempts, invoiceIds } = await settle(sql, signed, { chainNow });
  const landed = signed.map(({ claim, row, attempt: { signature, periodStart, invoice } }) => {
    const end = new Date(periodStart.getTime() + PERIOD_HOURS * 3_600_000);
    const pull: Pull = {
      signature,
      at: unixSeconds(chainNow),
      periodStart: unixSeconds(periodStart),
      periodEnd: unixSeconds(end),
      gross: GROSS,
      fee: FEE,
      net: GROSS - FEE,
      source: 'keeper',
      invoice: { ...invoice, id: invoiceIds.get(invoice) ?? null },
    };
    const update = updateOf(row);
    applyPayment(update, pull, end);
    const resolution = { id: attempts.get(row.id) ?? '', state: 'landed' as const, error: null };
    return { claim, row, update, resolution };
  });
  const { written } = await settle(sql, landed, { chainNow });
  if (written.length !== due.length) throw new Error('a payment was not written');
  return due.length;
}

/**
 * Claims and finishes deliveries, like a dispatcher whose receivers respond immediately. Returns
 * their number.
 */
async function deliver(sql: Sql, claims: Sql, endpoints: readonly string[]): Promise<number> {
  const claimId = randomUUID();
  const requests = endpoints.map((endpointId) => ({ endpointId, room: BATCH, floor: null }));
  const claimed = await claimDeliveries(claims, requests, { claimId, claimMs: 10_000 });
  const startedAt = Date.now();
  const outcomes = claimed.map(({ id, endpointId }): Outcome => {
    const attempt = { startedAt, durationMs: 12, httpStatus: 200, error: null };
    const answer = { response: Buffer.from('{"received":true}'), address: '203.0.113.7' };
    return {
      id,
      endpointId,
      claimId,
      status: 'delivered',
      dueAt: null,
      attempt: { ...attempt, ...answer },
    };
  });
  const recorded = await recordOutcomes(sql, outcomes);
  if (recorded.size !== claimed.length) throw new Error('an outcome was not recorded');
  return recorded.size;
}

const walPosition = async (sql: Sql) =>
  (await sql<{ at: number }[]>`select (pg_current_wal_insert_lsn() - '0/0')::float8 as at`)[0]
    ?.at ?? NaN;

/** Returns the size in bytes of the tables of payments and events, with indexes and partitions. */
async function historySize(sql: Sql): Promise<number> {
  const [row] = await sql<{ bytes: number }[]>`
    select sum(pg_total_relation_size(c.oid))::float8 as bytes from pg_class c
    where c.relkind = 'r' and c.relname ~ ${`^(${history.join('|')})(_default|_\\d{4}_\\d\\d)?$`}`;
  return row?.bytes ?? NaN;
}

/** Returns the bytes of WAL and disk per payment, and the payments per second. */
export async function measurePayments(
  { sql }: Database,
  payments: number,
): Promise<Record<string, number>> {
  const endpoints = await seed(sql, Math.ceil(payments / PERIODS));
  const claims = connect(sql, { max: 1, planning: 'queue', limits: daemonLimits });
  const [size, wal, started] = [await historySize(sql), await walPosition(sql), performance.now()];
  let [paid, delivered] = [0, 0];
  for (let period = 1; period <= PERIODS; period += 1) {
    const chainNow = new Date(start.getTime() + period * PERIOD_HOURS * 3_600_000);
    for (let count = -1; count !== 0; paid += count) {
      count = await collect(sql, chainNow);
      delivered += await deliver(sql, claims, endpoints);
    }
  }
  while (delivered < paid) delivered += await deliver(sql, claims, endpoints);
  const seconds = (performance.now() - started) / 1000;
  const figures = {
    walPerPayment: ((await walPosition(sql)) - wal) / paid,
    diskPerPayment: ((await historySize(sql)) - size) / paid,
    paymentsPerSecond: paid / seconds,
    payments: paid,
  };
  await claims.end();
  return figures;
}
