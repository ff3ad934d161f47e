// Milliseconds of a claim of 200 deliveries, 10 for each of 20 endpoints. Measured (1) with nothing
// else in the tables, and (2) next to 5 million finished deliveries and 1 million deliveries that
// are due later.
import { randomUUID } from 'node:crypto';
import { claimDeliveries, releaseClaims } from '../../src/db/delivering/delivery-queue.ts';
import { connect } from '../../src/db/postgres/connect.ts';
import { daemonLimits } from '../../src/db/postgres/settings.ts';
import { fillQueue, median, seedApps, type Database } from './harness.ts';

const ENDPOINTS = 20;
const ROOM = 10;

/**
 * Fills the tables with `finished` and `future` deliveries of 1,000 endpoints. The claims are for
 * 20 of these endpoints. Returns a function that measures one claim.
 */
async function prepare(
  { sql }: Database,
  finished: number,
  future: number,
): Promise<() => Promise<number>> {
  const apps = await seedApps(sql, Array<string>(ENDPOINTS).fill('http://127.0.0.1:9/'));
  const endpointOf = sql`coalesce((${apps.map(({ endpointId }) => endpointId)}::uuid[])[number % 1000 + 1], lpad(to_hex(number % 1000), 32, '0')::uuid)`;
  const per = 250_000;
  await sql`alter table delivery_queue disable trigger all`;
  for (let from = 0; from < finished; from += per)
    await sql`
      insert into deliveries (id, endpoint_id, event_id, event_type, status, attempts, replayed, finished_at, last_started_at, last_duration_ms, last_http_status)
      select uuid_v7(), ${endpointOf}, gen_random_uuid(), 'payment_success', 'delivered', 1, false, now(), now(), 5, 200
      from generate_series(${from}::int, ${Math.min(from + per, finished) - 1}::int) as number`;
  for (let from = 0; from < future; from += per)
    await sql`
      insert into delivery_queue (endpoint_id, event_id, event_type, attempts, due_at)
      select ${endpointOf}, gen_random_uuid(), 'payment_success', number % 2, now() + interval '1 hour'
      from generate_series(${from}::int, ${Math.min(from + per, future) - 1}::int) as number`;
  await fillQueue(sql, apps, 100 * ENDPOINTS);
  await sql`vacuum analyze`;
  const claims = connect(sql, { max: 1, planning: 'queue', limits: daemonLimits });
  const requests = apps.map(({ endpointId }) => ({ endpointId, room: ROOM, floor: null }));
  return async () => {
    const claimId = randomUUID();
    const started = performance.now();
    const claimed = await claimDeliveries(claims, requests, { claimId, claimMs: 60_000 });
    const elapsed = performance.now() - started;
    if (claimed.length !== ENDPOINTS * ROOM) throw new Error(`${claimed.length} were claimed`);
    await releaseClaims(
      claims,
      claimed.map(({ id }) => ({ id, claimId })),
    );
    return elapsed;
  };
}

export async function claimCost(
  empty: Database,
  full: Database,
  rounds: number,
): Promise<{ emptyMs: number; fullMs: number }> {
  const claimEmpty = await prepare(empty, 0, 0);
  const claimFull = await prepare(full, 5_000_000, 1_000_000);
  const times: { empty: number[]; full: number[] } = { empty: [], full: [] };
  for (let round = 0; round < rounds; round += 1) {
    const pair = [await claimEmpty(), await claimFull()] as const;
    // The first claims are not counted, because their pages are not in memory yet.
    if (round < 5) continue;
    times.empty.push(pair[0]);
    times.full.push(pair[1]);
  }
  return { emptyMs: median(times.empty), fullMs: median(times.full) };
}
