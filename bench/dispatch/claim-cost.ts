// What a claim of 200 takes, milliseconds: with nothing else in the table, and among 5 million finished and 1 million future deliveries. A claim
// takes the leases of 20 endpoints, which another had, and reads 10 deliveries of each.
import { randomUUID } from 'node:crypto';
import type { Sql } from '../../src/db/connect.ts';
import { readDue } from '../../src/db/deliveries.ts';
import { leaseEndpoints, releaseEndpoints } from '../../src/db/delivery-leases.ts';
import { connectQueue } from '../../src/db/queue-connection.ts';
import { fillQueue, median, seedApps, type Database } from './harness.ts';

const lanes = 20;
const room = 10;

/** `finished` and `future` rows go to 1,000 endpoints, the ones that are claimed from among them. */
async function prepare({ sql }: Database, finished: number, future: number): Promise<() => Promise<number>> {
  const apps = await seedApps(sql, Array<string>(lanes).fill('http://127.0.0.1:9/'));
  const per = 250_000;
  await sql`alter table deliveries disable trigger all`;
  for (let from = 0; from < finished + future; from += per) {
    const count = Math.min(per, finished + future - from);
    await sql`
      insert into deliveries (endpoint_id, event_id, event_type, status, attempts, due_at, finished_at)
      select coalesce((${apps.map(({ endpointId }) => endpointId)}::uuid[])[number % 1000 + 1], lpad(to_hex(number % 1000), 32, '0')::uuid), gen_random_uuid(), 'payment_success',
        case when number < ${finished} then 'delivered' else 'pending' end, case when number < ${finished} then 1 else number % 2 end,
        now() + case when number < ${finished} then interval '0' else interval '1 hour' end,
        case when number < ${finished} then now() end
      from generate_series(${from}::int, ${from + count - 1}::int) as number`;
  }
  await fillQueue(sql, apps, 100 * lanes);
  await sql`vacuum analyze deliveries`;
  const queue: Sql = connectQueue(sql, 1);
  const after = { dueAt: 0, id: '00000000-0000-0000-0000-000000000000' };
  return async () => {
    const claimId = randomUUID();
    const claims = apps.map(({ endpointId }) => ({ endpointId, claimId }));
    const grants = claims.map((claim) => ({ ...claim, kind: 0 as const, room, after }));
    const started = performance.now();
    await leaseEndpoints(queue, claims, claimId, 60_000);
    const claimed = await readDue(queue, grants);
    const elapsed = performance.now() - started;
    if (claimed.length !== lanes * room) throw new Error(`${claimed.length} were claimed`);
    await releaseEndpoints(queue, claims);
    return elapsed;
  };
}

export async function claimCost(empty: Database, full: Database, rounds: number): Promise<{ emptyMs: number; fullMs: number }> {
  const claimEmpty = await prepare(empty, 0, 0);
  const claimFull = await prepare(full, 5_000_000, 1_000_000);
  const times: { empty: number[]; full: number[] } = { empty: [], full: [] };
  for (let round = 0; round < rounds; round += 1) {
    const pair = [await claimEmpty(), await claimFull()] as const;
    // The first ones read what was never in memory.
    if (round < 5) continue;
    times.empty.push(pair[0]);
    times.full.push(pair[1]);
  }
  return { emptyMs: median(times.empty), fullMs: median(times.full) };
}
