// Deletes deliveries and events that are older than is kept. Every dispatcher does it: they skip each other's rows.
import type { Sql } from '../db/connect.ts';
import { deleteOldDeliveries, deleteOldEvents } from '../db/retention.ts';
import { startLoop, type Loop } from '../loop.ts';

export interface RetentionOptions {
  /** 0 keeps them for ever. */
  deliveryDays: number;
  eventDays: number;
  onPurged: (table: 'deliveries' | 'events', count: number) => void;
  onError: (error: unknown, failures: number) => void;
}

const batchRows = 1000;
const hour = 3_600_000;
const nil = '00000000-0000-0000-0000-000000000000';

/** Looks each hour. Batches of 1,000 rows with a pause as long as the batch took, so that at most half of one connection's time goes into it. */
export function startRetention(sql: Sql, { deliveryDays, eventDays, onPurged, onError }: RetentionOptions): Loop {
  const tables = [
    { table: 'deliveries' as const, days: deliveryDays, remove: deleteOldDeliveries },
    { table: 'events' as const, days: eventDays, remove: deleteOldEvents },
  ].filter(({ days }) => days > 0);
  let at = 0;
  let after = nil;

  return startLoop({
    idleMs: hour,
    onError,
    async turn() {
      const current = tables[at];
      if (current === undefined) {
        at = 0;
        return false;
      }
      const started = performance.now();
      const ids = await current.remove(sql, { days: current.days, after, limit: batchRows });
      if (ids.length > 0) onPurged(current.table, ids.length);
      after = ids.at(-1) ?? nil;
      if (ids.length < batchRows) {
        at += 1;
        after = nil;
      } else await new Promise((resolve) => setTimeout(resolve, performance.now() - started));
      return true;
    },
  });
}
