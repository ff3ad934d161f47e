// Measures in Postgres (1) the WAL and disk of a payment, from its claim to its delivered webhook,
// in batches of 200, (2) a claim of deliveries while an old snapshot is open, and (3) the time to
// drop a month of events and deliveries.
import { randomUUID } from 'node:crypto';
import { claimDeliveries, releaseClaims } from '../src/db/delivering/delivery-queue.ts';
import type { Sql } from '../src/db/postgres/connect.ts';
import { connect } from '../src/db/postgres/connect.ts';
import { dropMonth } from '../src/db/postgres/partitions.ts';
import { daemonLimits } from '../src/db/postgres/settings.ts';
import { fillMonths } from '../test/fixtures/months.ts';
import { finishDeliveries, queueDeliveries, seedApp } from '../test/fixtures/webhooks.ts';
import { measurePayments } from './data/payments.ts';
import { fillQueue, median, startServer, type Server } from './dispatch/harness.ts';
import type { Result } from './run.ts';

const PAYMENTS = Number(process.env.PAYMENTS ?? 1_000_000);
const FINISHED = 500_000;
const MONTH_ROWS = 1_000_000;
const CLAIMS = 21;
const CLAIMED = 200;

async function payments(server: Server): Promise<Record<string, number>> {
  const database = await server.database('payments');
  const measured = await measurePayments(database, PAYMENTS);
  await database.drop();
  return measured;
}

/**
 * Returns the milliseconds of a claim of 200 deliveries while an older snapshot is open. The
 * snapshot still sees 500,000 finished deliveries of the same endpoint.
 */
async function claimBehindSnapshot(server: Server): Promise<number> {
  const database = await server.database('snapshot');
  const { sql } = database;
  const claims = connect(sql, { max: 1, planning: 'queue', limits: daemonLimits });
  const app = await seedApp(sql, 'http://127.0.0.1:9/');
  await fillQueue(sql, [app], FINISHED);
  await sql`vacuum analyze`;
  const dump = await sql.reserve();
  await dump`begin isolation level repeatable read`;
  await dump`select count(*) from delivery_queue`;
  await finishDeliveries(sql, 'delivered');
  await queueDeliveries(sql, app, CLAIMED);
  const [first] = await sql<{ due: number }[]>`
    select extract(epoch from min(due_at))::float8 * 1000 as due from delivery_queue`;
  const times: number[] = [];
  for (let round = 0; round < CLAIMS; round += 1) {
    const claimId = randomUUID();
    const request = { endpointId: app.endpointId, room: CLAIMED, floor: (first?.due ?? 0) - 1 };
    const started = performance.now();
    const rows = await claimDeliveries(claims, [request], { claimId, claimMs: 60_000 });
    times.push(performance.now() - started);
    if (rows.length !== CLAIMED) throw new Error(`${rows.length} were claimed`);
    await releaseClaims(
      claims,
      rows.map(({ id }) => ({ id, claimId })),
    );
  }
  await dump`rollback`;
  dump.release();
  await claims.end();
  await database.drop();
  return median(times);
}

/**
 * Runs statements on deliveries and events one after another until `isOver`. Returns the longest
 * duration in milliseconds.
 */
async function maxWait(sql: Sql, isOver: () => boolean): Promise<number> {
  const own = await sql.reserve();
  let longest = 0;
  while (!isOver()) {
    const started = performance.now();
    await own`select exists (select from deliveries), exists (select from events)`;
    longest = Math.max(longest, performance.now() - started);
  }
  own.release();
  return longest;
}

/**
 * Drops the deliveries of a month with their attempts, then its events. Returns the milliseconds
 * until Postgres has deleted the files, and the longest duration of a statement on these tables
 * meanwhile. Postgres releases the locks before it deletes the files.
 */
async function dropAMonth(server: Server): Promise<Record<string, number>> {
  const database = await server.database('months');
  const { sql } = database;
  await fillMonths(sql, await seedApp(sql, 'http://127.0.0.1:9/'), ['2025_01'], MONTH_ROWS);
  await server.checkpoint();
  let isDropped = false;
  const waiting = maxWait(sql, () => isDropped);
  const started = performance.now();
  for (const table of ['deliveries', 'events'] as const)
    if ((await dropMonth(sql, table, 1)) !== '2025_01')
      throw new Error(`${table} were not dropped`);
  const dropMonthMs = performance.now() - started;
  isDropped = true;
  const dropMonthWaitMs = await waiting;
  await database.drop();
  return { dropMonthMs, dropMonthWaitMs };
}

const parts: Record<string, (server: Server) => Promise<Record<string, number>>> = {
  payments,
  claims: async (server) => ({ claimBehindSnapshotMs: await claimBehindSnapshot(server) }),
  months: dropAMonth,
};

export async function run(part?: string): Promise<Result> {
  const server = await startServer();
  const figures: Record<string, number> = {};
  try {
    for (const [name, measure] of Object.entries(parts))
      if (part === undefined || part === name) Object.assign(figures, await measure(server));
  } finally {
    await server.stop();
  }
  return { figures, ratios: {} };
}
