// What Postgres says: how much waits, and since when.
import type { Sql } from '../../db/connect.ts';
import { countDue, findDueLanes } from '../../db/deliveries.ts';
import {
  countLimit,
  listRecentErrors,
  readDatabaseFacts,
  readDeliveryFacts,
  readPaymentFacts,
  type DatabaseFacts,
  type DeliveryFacts,
  type PaymentFacts,
  type RecentError,
} from '../../db/status.ts';
import { readBacklog } from '../../db/subscriptions.ts';

export interface QueueStatus {
  database: DatabaseFacts & { answeredMs: number };
  payments: PaymentFacts & {
    /** Subscriptions that are due and in no keeper's hands, counted up to 10,000. */
    due: number;
    oldestDueAt: Date | null;
    /** By the chain's clock, or by the database's where the chain could not be asked. */
    lateSeconds: number;
    judgedBy: 'chain' | 'database';
    oldestOpenSeconds: number;
  };
  deliveries: DeliveryFacts & {
    /** Due now, counted up to 10,000. */
    due: number;
    lateSeconds: number;
    /** Endpoints with something due. */
    endpoints: number;
  };
  errors: RecentError[];
}

const errorsShown = 5;

/** Reads everything in one short, read-only transaction; `chainNow` is the chain's clock where it is known. */
export async function queueStatus(sql: Sql, chainNow: Date | null): Promise<QueueStatus> {
  const startedAt = performance.now();
  await sql`select 1`;
  const answeredMs = Math.round(performance.now() - startedAt);
  return sql.begin('read only', async (tx) => {
    // A status that waits for ever is none. The dispatcher's statements need its planner settings (db/queue-connection.ts).
    await tx`set local statement_timeout = '10s'`;
    const facts = await readDatabaseFacts(tx);
    const now = chainNow ?? facts.now;
    const backlog = await readBacklog(tx, now);
    const payments = await readPaymentFacts(tx);
    const deliveries = await readDeliveryFacts(tx);
    const errors = await listRecentErrors(tx, errorsShown);
    await tx`select set_config(name, 'off', true) from unnest(array['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin']) as setting (name)`;
    const lanes = await findDueLanes(tx);
    const due = await countDue(tx, countLimit);
    return {
      database: { ...facts, answeredMs },
      payments: {
        ...payments,
        due: backlog.waiting,
        oldestDueAt: backlog.oldest,
        lateSeconds: secondsSince(backlog.oldest, now),
        judgedBy: chainNow === null ? 'database' : 'chain',
        oldestOpenSeconds: secondsSince(payments.oldestOpenAt, facts.now),
      },
      deliveries: {
        ...deliveries,
        due,
        lateSeconds: Math.floor(Math.max(0, ...lanes.map(({ overdueMs }) => overdueMs)) / 1000),
        endpoints: new Set(lanes.map(({ endpointId }) => endpointId)).size,
      },
      errors,
    };
  });
}

function secondsSince(time: Date | null, now: Date): number {
  return time === null ? 0 : Math.max(0, Math.floor((now.getTime() - time.getTime()) / 1000));
}
