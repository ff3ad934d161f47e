// Makes the partitions of the months ahead and drops those of deliveries and events that are older than is kept. Every dispatcher does it; one that
// finds another at it leaves it to that one.
import type { Sql } from '../db/connect.ts';
import { isLocked } from '../db/outage.ts';
import { dropMonth, makeMonths, type PartitionedTable } from '../db/partitions.ts';
import { startLoop, type Loop } from '../loop.ts';

export interface RetentionOptions {
  /** Days that rows are kept at least; 0 keeps them for ever. */
  deliveryDays: number;
  eventDays: number;
  /** Called with each month that was dropped, as YYYY_MM. */
  onDropped: (table: PartitionedTable, month: string) => void;
  /** Called when a lock was not free, with how often in a row. */
  onLocked: (error: unknown, times: number) => void;
  onError: (error: unknown, failures: number) => void;
}

const hourMs = 3_600_000;
/** A dump holds its locks for minutes or hours, and each try stops all other statements on a table for a moment. Months are made three ahead. */
const lockedMs = 300_000;

/** Runs at the start and each hour; one month of one table per turn. Where a lock is not free it tries again after five minutes. */
export function startRetention(
  sql: Sql,
  { deliveryDays, eventDays, onDropped, onLocked, onError }: RetentionOptions,
): Loop {
  // Events last: they go after all deliveries of them.
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
    idleMs: () => (locked > 0 ? lockedMs : hourMs),
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
