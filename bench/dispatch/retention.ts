// What deleting old deliveries and events takes, batch by batch as dispatchers do it: 200,000 of each are older than is kept, 200,000 are not. Each
// delivery had one attempt.
import { deleteOldDeliveries, deleteOldEvents } from '../../src/db/retention.ts';
import { bodyOf, median, seedApps, type Database } from './harness.ts';

const old = 200_000;
const days = 60;
const limit = 1000;
const nil = '00000000-0000-0000-0000-000000000000';

export interface Purge {
  rowsPerSecond: number;
  batchMs: number;
  slowestMs: number;
}

/** Each row with the id that it would have had when it was made: the first `old` of them before the last `days` days, an hour at least. */
async function fill({ sql }: Database): Promise<void> {
  const [app] = await seedApps(sql, ['http://127.0.0.1:9/']);
  if (app === undefined) throw new Error('no app');
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into events (id, app_id, subscription_id, sequence, type, body, created_at)
      select (lpad(to_hex((extract(epoch from made) * 1000)::int8), 12, '0') || '7000800000000000' || lpad(to_hex(number % 65536), 4, '0'))::uuid,
        ${app.appId}, ${app.subscriptionId}, number, 'payment_success', ${bodyOf('an event')}, made
      from generate_series(1, ${2 * old}::int) as number,
        lateral (select now() - ${days}::int * interval '1 day' + (number - ${old}::int - 0.5) * interval '1 second'
          + case when number <= ${old}::int then interval '-1 hour' else interval '1 hour' end as made) as at`;
    await tx`
      insert into deliveries (id, endpoint_id, event_id, event_type, status, attempts, finished_at, due_at, last_started_at, last_duration_ms,
        last_http_status, last_response, last_address)
      select id, ${app.endpointId}, id, type, 'delivered', 1, created_at, created_at, created_at, 5, 200, 'ok', '127.0.0.1' from events`;
  });
  await sql`vacuum analyze`;
}

async function purge({ sql }: Database, remove: typeof deleteOldDeliveries): Promise<Purge> {
  const taken: number[] = [];
  let after = nil;
  for (let count = limit; count === limit;) {
    const started = performance.now();
    const ids = await remove(sql, { days, after, limit });
    taken.push(performance.now() - started);
    count = ids.length;
    after = ids.at(-1) ?? nil;
  }
  const total = taken.reduce((sum, each) => sum + each, 0);
  const [left] = await sql<{ deliveries: bigint; events: bigint }[]>`
    select (select count(*) from deliveries) as deliveries, (select count(*) from events) as events`;
  if (left?.deliveries !== BigInt(old)) throw new Error(`${left?.deliveries ?? '?'} deliveries are left`);
  return { rowsPerSecond: Math.round((old / total) * 1000), batchMs: median(taken), slowestMs: Math.max(...taken) };
}

/** Deliveries with their attempts, then the events. */
export async function purges(database: Database): Promise<{ deliveries: Purge; events: Purge }> {
  await fill(database);
  const deliveries = await purge(database, deleteOldDeliveries);
  return { deliveries, events: await purge(database, deleteOldEvents) };
}
