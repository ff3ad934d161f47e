// Creates the partitions of the coming months. Drops old partitions of deliveries and events when
// their retention has ended. Every dispatcher runs this loop, but a lock allows only one dispatcher
// at a time to do the work.
import type { Sql } from '../db/postgres/connect.ts';
import { isLocked } from '../db/postgres/outage.ts';
import { dropMonth, makeMonths, type PartitionedTable } from '../db/postgres/partitions.ts';
import { startLoop, type Loop } from '../loop.ts';
import type { DispatchTimes } from './times.ts';

export interface RetentionOptions {
  /** Minimum number of days that rows are kept; 0 means that they are kept forever. */
  deliveryDays: number;
  eventDays: number;
  /** Called with each dropped month, as YYYY_MM. */
  onDropped: (table: PartitionedTable, month: string) => void;
  /** Called when a table lock was not free. `times` is the number of consecutive failures. */
  onLocked: (error: unknown, times: number) => void;
  onError: (error: unknown, failures: number) => void;
  times: DispatchTimes['retention'];
}

/**
 * Starts the loop. The loop runs at the start and every hour, and drops one month of one table per
 * turn. If a lock is not free, the loop tries again after five minutes.
 */
export function startRetention(
  sql: Sql,
  { deliveryDays, eventDays, onDropped, onLocked, onError, times }: RetentionOptions,
): Loop {
  // Events are dropped after deliveries, because deliveries refer to events.
  const tables = [
    { table: 'deliveries' as const, days: deliveryDays },
    { table: 'events' as const, days: eventDays },
  ].filter(({ days }) => days > 0);

  const makeAndDrop = async () => {
    await makeMonths(sql);
    for (const { table, days } of tables) {
      const month = await dropMonth(sql, table, days);
      if (month === null) continue;
      onDropped(table, month);
      return true;
    }
    return false;
  };
  let locked = 0;
  return startLoop({
    name: 'retention',
    idleMs: () => (locked > 0 ? times.lockedMs : times.idleMs),
    onError,
    async turn() {
      try {
        const isMore = await makeAndDrop();
        locked = 0;
        return isMore;
      } catch (error) {
        if (!isLocked(error)) throw error;
        locked += 1;
        onLocked(error, locked);
        return false;
      }
    },
  });
}
