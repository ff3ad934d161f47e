// What a claim of 200 takes, milliseconds: with nothing else in the table, and among 5 million finished and 1 million future deliveries.
import { randomUUID } from 'node:crypto';
import type { Sql } from '../../src/db/connect.ts';
import { claimDeliveries, releaseDeliveries } from '../../src/db/deliveries.ts';
import { connectQueue } from '../../src/db/queue-connection.ts';
import { fillQueue, median, seedApps, type Database } from './harness.ts';

const lanes = 20;
const room = 10;

/** `finished` and `future` rows go to 1,000 endpoints besides those that are claimed from. */
async function prepare({ sql }: Database, finished: number, future: number): Promise<() => Promise<number>> {
  const apps = await seedApps(sql, Array<string>(lanes).fill('http://127.0.0.1:9/'));
  const per = 250_000;
  await sql`alter table deliveries disable trigger all`;
  for (let from = 0; from < finished + future; from += per) {
    const count = Math.min(per, finished + future - from);
    await sql`
      insert into deliveries (endpoint_id, event_id, status, attempts, due_at, finished_at)
      select lpad(to_hex(number % 1000), 32, '0')::uuid, gen_random_uuid(),
        case when number < ${finished} then 'delivered' else 'pending' end, case when number < ${finished} then 1 else number % 2 end,
        now() + case when number < ${finished} then interval '0' else interval '1 hour' end,
        case when number < ${finished} then now() end
      from generate_series(${from}::int, ${from + count - 1}::int) as number`;
  }
  await fillQueue(sql, apps, 100 * lanes);
  await sql`vacuum analyze deliveries`;
  const queue: Sql = connectQueue(sql, 1);
  const grants = apps.map(({ endpointId }) => ({ endpointId, kind: 0 as const, room, from: 0 }));
  return async () => {
    const claimId = randomUUID();
    const started = performance.now();
    const claimed = await claimDeliveries(queue, { lanes: grants, claimId, leaseMs: 60_000 });
    const elapsed = performance.now() - started;
    if (claimed.length !== lanes * room) throw new Error(`${claimed.length} were claimed`);
    await releaseDeliveries(
      queue,
      claimId,
      claimed.map(({ id }) => id),
    );
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
